"""Claims about how an input record becomes a request, or an error that says what is wrong."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt2cli.batch.extras import take_extras
from gpt2cli.batch.items import BatchItem
from gpt2cli.config import LARGEST_SEED, GenerationConfig, Overflow, SamplingConfig
from gpt2cli.errors import PromptError, UsageError
from gpt2cli.generation.requests import Request
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.batch.feeding import fed, feeding
from tests.gpt2cli.batch.parsing import RUN_SEED, make_parser, make_source, take_all

HUGE = 10**307  # more is no number of a record
ONE = '{"prompt": "x", '


def parse(tokenizer: Tokenizer, record: str | bytes, index: int = 0, **options: Any) -> BatchItem:
    raw = record if isinstance(record, bytes) else record.encode()
    return make_parser(tokenizer, **options).parse(raw, index)


def request_of(item: BatchItem) -> Request:
    assert item.error is None
    assert item.prepared is not None
    return item.prepared.request


def error_of(item: BatchItem) -> str:
    assert item.prepared is None
    assert item.error
    assert item.results == 1
    return item.error


@pytest.fixture(scope="module")
def tokenizer(ascii_tokenizer: Tokenizer) -> Tokenizer:
    return ascii_tokenizer


# Text


def test_a_line_is_a_prompt(tokenizer: Tokenizer) -> None:
    """Whatever it looks like; the other options are the command line's."""
    item = parse(tokenizer, '{"a": 1}', 3, jsonl=False, given={"top_k": 5}, samples=2)
    assert (item.prompt, item.results) == ('{"a": 1}', 2)
    request = request_of(item)
    assert (request.prompt, request.sampling) == ('{"a": 1}', SamplingConfig(top_k=5))
    assert (request.seed, request.samples, request.index) == (RUN_SEED + 3, 2, 3)


@pytest.mark.parametrize("jsonl", [False, True])
def test_invalid_utf8_is_an_error_that_tells_the_byte(tokenizer: Tokenizer, jsonl: bool) -> None:
    item = parse(tokenizer, b"caf\xe9", jsonl=jsonl)
    assert error_of(item).startswith("the record is not valid UTF-8 (byte 3); convert it")
    assert item.prompt is None


@pytest.mark.parametrize(("jsonl", "record"), [(False, "x"), (True, '{"prompt": "x"}')])
def test_a_byte_order_mark_is_no_part_of_the_input(
    tokenizer: Tokenizer, jsonl: bool, record: str
) -> None:
    """At its beginning, where Windows puts it; in a text elsewhere it is text."""
    raw = b"\xef\xbb\xbf" + record.encode()
    assert parse(tokenizer, raw, 0, jsonl=jsonl).prompt == "x"
    assert parse(tokenizer, raw, 1, jsonl=jsonl).prompt == ("x" if jsonl else "\ufeffx")


def test_a_record_that_was_too_long_to_read_is_an_error(tokenizer: Tokenizer) -> None:
    """Its digest is that of the message, which tells its size."""
    parser = make_parser(tokenizer)
    items = [parser.parse(PromptError(f"the record has {n} bytes"), 4) for n in (7, 7, 8)]
    assert error_of(items[0]) == "the record has 7 bytes"
    assert [item.digest == items[0].digest for item in items] == [True, True, False]


# JSON


def test_a_record_has_its_own_options(tokenizer: Tokenizer) -> None:
    """Of every group, instead of the command line's, which come before the model's."""
    own = {
        "prompt": "x",
        "id": ["a", 1],
        "temperature": 0.5,
        "top_k": 0,
        "logit_bias": {"a": 2, "96": -1.5},
        "ban": "ab",
        "max_new_tokens": 3,
        "stop": "\n",
        "ignore_eos": True,
        "overflow": "slide",
        "seed": 0,
        "samples": 3,
        "allow_special": False,
        "logprobs": 4,
    }
    given = {"temperature": 2.0, "top_k": 9, "ban": ("c",), "stop": ("a", "b")}
    own_of_model = {"temperature": 3.0, "min_p": 0.9}
    options = {"samples": 5, "allow_special": True, "logprobs": 1}
    item = parse(tokenizer, json.dumps(own), given=given, own=own_of_model, **options)
    assert item.identity == ["a", 1]
    assert item.results == 3
    assert request_of(item) == Request(
        prompt="x",
        sampling=SamplingConfig(
            temperature=0.5, top_k=0, min_p=0.9, logit_bias=(("a", 2), ("96", -1.5)), ban=("ab",)
        ),
        generation=GenerationConfig(
            max_new_tokens=3, stop=("\n",), ignore_eos=True, overflow=Overflow.SLIDE
        ),
        seed=0,
        samples=3,
        logprobs=4,
    )


def test_what_a_record_does_not_say_is_the_command_lines_then_the_models(
    tokenizer: Tokenizer,
) -> None:
    """Null is not said; the seed is the run's plus the index."""
    record = '{"prompt": "x", "top_k": null, "seed": null, "id": null, "samples": null}'
    own = {"top_k": 1, "temperature": 3.0, "min_p": 0.9}
    item = parse(tokenizer, record, 7, given={"top_k": 9}, own=own, samples=5, allow_special=True)
    request = request_of(item)
    assert request.sampling == SamplingConfig(top_k=9, temperature=3.0, min_p=0.9)
    assert (request.seed, request.samples, request.allow_special) == (RUN_SEED + 7, 5, True)
    assert item.identity is None


@pytest.mark.parametrize(
    ("record", "temperature"),
    [
        ({}, None),
        ({"temperature": 0.7}, 0.7),
        ({"greedy": False}, 3.0),
        ({"greedy": True, "temperature": 0.7}, None),
    ],
    ids=str,
)
def test_a_record_may_sample_in_a_greedy_run(
    tokenizer: Tokenizer, record: dict[str, Any], temperature: float | None
) -> None:
    """By a temperature of its own, or by `greedy` false, which leaves the model's temperature."""
    line = json.dumps({"prompt": "x", **record})
    item = parse(tokenizer, line, given={"greedy": True}, own={"temperature": 3.0})
    sampling = request_of(item).sampling
    assert (sampling.temperature if sampling.draws else None) == temperature


@pytest.mark.parametrize("name", ["temprature", "top-k", "", "\ud800"])
def test_an_unknown_option_is_an_error_that_tells_the_known_ones(name: str) -> None:
    """A misspelt option would else be ignored in silence."""
    with pytest.raises(UsageError) as error:
        take_extras({"prompt": "x", name: 1}, "error")
    assert str(error.value).startswith(f"unknown option {name}; known are allow_special, ban, ")
    assert " temperature, " in str(error.value)


def test_many_unknown_options_do_not_fill_the_screen() -> None:
    with pytest.raises(UsageError) as error:
        take_extras({f"unknown{i}": 1 for i in range(10_000)}, "error")
    assert len(str(error.value)) < 800


@pytest.mark.parametrize(
    ("what", "extras", "error"),
    [
        ("error", {}, "unknown option task_id, test; known are"),
        ("ignore", {}, None),
        ("keep", {"task_id": "HumanEval/0", "test": ["a", None], "note": None}, None),
    ],
)
def test_fields_that_are_no_options_are_kept_left_out_or_an_error(
    tokenizer: Tokenizer, what: str, extras: dict[str, Any], error: str | None
) -> None:
    """Whatever they hold; the error names the way out. One that is null is left out or kept."""
    line = (
        '{"task_id": "HumanEval/0", "prompt": "x", "test": ["a", null], "top_k": 3, "note": null}'
    )
    parser = dataclasses.replace(make_parser(tokenizer), extra_fields=what)
    item = parser.parse(line.encode(), 0)
    assert item.extras == extras
    if error is None:
        assert (request_of(item).sampling.top_k, item.error) == (3, None)
    else:
        assert item.error is not None and item.error.startswith(error)
        assert item.error.endswith("; extra_fields keep copies it into the result")


def test_a_field_that_a_result_has_itself_is_not_kept(tokenizer: Tokenizer) -> None:
    parser = dataclasses.replace(make_parser(tokenizer), extra_fields="keep")
    item = parser.parse(b'{"prompt": "x", "model": "m", "task": 1}', 0)
    assert item.error == "a result has a model of its own; give the field another name"


@pytest.mark.parametrize("identity", [0, False, "", {"a": [1]}])
def test_an_id_is_anything(tokenizer: Tokenizer, identity: object) -> None:
    """What counts as false in Python is an id too."""
    assert parse(tokenizer, json.dumps({"prompt": "x", "id": identity})).identity == identity


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ("{bad", "the record is not JSON: Expecting property name"),
        ("", "the record is empty"),
        ("{'prompt': 'x'}", "the record is not JSON"),
        ("[" * 100_000, "the record is nested too deeply"),
        (ONE + '"id": ' + "[" * 101 + "]" * 101 + "}", "the record is nested too deeply"),
        ('["x"]', 'the record is not a JSON object; expected {"prompt": …}'),
        ("null", "the record is not a JSON object"),
        ('{"id": 1}', 'the record has no prompt; expected "prompt" with a text'),
        ('{"prompt": ["x"]}', "the record has no prompt"),
        (ONE + '"prompt": "y"}', 'the record has the key "prompt" twice'),
        (ONE + f'"temperature": {HUGE}0}}', "the record has a number of 309 digits"),
        ('{"id": NaN, "prompt": "x"}', "the record is not JSON: NaN is not a JSON number"),
        (ONE + '"temprature": 1}', "unknown option temprature; known are"),
        (ONE + '"top_k": -1}', "top_k: expected a whole number 0 or more, found -1"),
        (ONE + f'"seed": {LARGEST_SEED + 1}}}', "seed: expected a whole number 0 to 2^53-1"),
        (
            ONE + '"min_new_tokens": 6, "max_new_tokens": 5}',
            "min_new_tokens: expected at most max_new_tokens, 5, found 6",
        ),
        (ONE + '"beams": 5}', "beams: expected at most 4, the room that batch_size makes"),
        (ONE + '"beams": 2, "samples": 3}', "samples: expected at most beams, 2, found 3"),
        (ONE + '"beams": 2, "overflow": "slide"}', "overflow: expected stop or error with beams"),
        (ONE + '"choice": []}', "choice: expected at least one text, found an empty list"),
        (ONE + '"logit_bias": {"97": 1}}', "logit_bias: expected an id 0 to 96, found 97"),
        (ONE + '"logit_bias": {"ab": 1}}', "logit_bias: expected an id or a text of one token"),
        ('{"prompt": "' + "x" * 17 + '"}', "the prompt has 17 tokens, the model takes 16"),
        ('{"prompt": "x", "max_new_tokens": 16, "overflow": "error"}', "the prompt's 1 tokens and"),
        ('{"prompt": "\\ud800"}', "the record has half of a surrogate pair, \\ud800, which is no"),
        (ONE + '"stop": ["\\ud83d"]}', "the record has half of a surrogate pair, \\ud83d, which"),
        (ONE + '"logit_bias": {"\\ud800": 1}}', "the record has half of a surrogate pair"),
        (ONE + '"id": "\\ud83d"}', "the record has half of a surrogate pair, \\ud83d, which is no"),
    ],
    ids=lambda text: text[:45],
)
def test_a_bad_record_is_an_error_that_says_what_is_wrong(
    tokenizer: Tokenizer, record: str, error: str
) -> None:
    """An option is named as records name it."""
    assert error_of(parse(tokenizer, record)).startswith(error)


def test_a_bad_record_keeps_what_is_known_of_it(tokenizer: Tokenizer) -> None:
    """Its id and its prompt, as far as they could be read."""
    assert parse(tokenizer, '{"id": 5, "prompt": 3}').identity == 5
    item = parse(tokenizer, '{"id": 5, "prompt": "x", "top_k": -1}')
    assert (item.identity, item.prompt) == (5, "x")


def test_nesting_of_any_depth_is_an_error(tokenizer: Tokenizer) -> None:
    """Also where it can be read, but not be quoted by the error."""
    for depth in range(200, 1100):
        record = ONE + '"temperature": ' + "[" * depth + "]" * depth + "}"
        error_of(parse(tokenizer, record))


@pytest.mark.parametrize(
    "option", [f'"top_k": {HUGE}', f'"max_new_tokens": {HUGE}', f'"samples": {HUGE}', '"top_p": 0']
)
def test_what_has_no_upper_limit_may_be_as_large_as_it_likes(
    tokenizer: Tokenizer, option: str
) -> None:
    """More than there is means all of it."""
    request_of(parse(tokenizer, ONE + option + "}"))


@pytest.mark.parametrize(
    ("record", "options", "length"),
    [
        ({}, {}, 13),
        ({"allow_special": True}, {}, 1),
        ({}, {"allow_special": True}, 1),
        ({"allow_special": False}, {"allow_special": True}, 13),
    ],
)
def test_special_text_is_a_token_only_if_it_is_allowed(
    tokenizer: Tokenizer, record: dict[str, Any], options: dict[str, Any], length: int
) -> None:
    item = parse(tokenizer, json.dumps({"prompt": "<|endoftext|>", **record}), **options)
    assert item.prepared is not None
    assert len(item.prepared.prompt_ids) == length


TEXT = st.text(max_size=3)  # what is longer takes longer to make, and is no other text
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=3,
)
KEYS = st.sampled_from(
    [
        *("prompt", "id", "seed", "samples", "greedy", "stop", "overflow", "top_k", "temperature"),
        *("typical_p", "no_repeat_ngram", "logit_bias", "ban", "min_new_tokens", "?"),
    ]
)


@given(st.binary(max_size=20) | st.dictionaries(KEYS, JSON).map(lambda r: json.dumps(r).encode()))
def test_whatever_comes_is_a_request_or_an_error(tokenizer: Tokenizer, record: bytes) -> None:
    """Never an exception; and its id can be written as JSON."""
    item = parse(tokenizer, record)
    assert (item.prepared is None) == (item.error is not None)
    json.dumps(item.identity, allow_nan=False)


# The source


def test_items_come_in_order_with_their_index_and_digest(tokenizer: Tokenizer) -> None:
    with fed(b"a\nb\na\n") as descriptor:
        items = take_all(make_source(descriptor, tokenizer, jsonl=False))
    assert [(item.index, item.prompt) for item in items] == [(0, "a"), (1, "b"), (2, "a")]
    assert items[0].digest == items[2].digest != items[1].digest


def test_an_item_that_is_given_back_comes_again(tokenizer: Tokenizer) -> None:
    with fed(b"a\nb\n") as descriptor:
        source = make_source(descriptor, tokenizer, jsonl=False)
        first, second = source.take_next(), source.take_next()
        assert second is not None
        assert source.take_next() is None
        source.give_back()
        assert not source.ended
        assert source.take(wait=False) == second
        assert source.ended
        assert first != second


def test_there_is_no_item_while_the_input_is_silent(tokenizer: Tokenizer) -> None:
    with feeding() as feed:
        source = make_source(feed.reader, tokenizer)
        assert source.take(wait=True) is None
        assert not source.ended
        feed.end()
        assert take_all(source) == []


def test_blank_lines_of_json_lines_have_no_index(tokenizer: Tokenizer) -> None:
    """Also at the beginning behind a byte order mark, with spaces, and at the end."""
    records = b'\xef\xbb\xbf\r\n{"prompt": "a"}\n\n \t\r\n{"prompt": "b"}\n\n'
    with fed(records) as descriptor:
        items = take_all(make_source(descriptor, tokenizer))
    assert [(item.index, item.prompt, item.error) for item in items] == [
        (0, "a", None),
        (1, "b", None),
    ]


def test_a_take_passes_over_one_blank_line_at_most(tokenizer: Tokenizer) -> None:
    """Or Ctrl-C would not be heard among blank lines without end."""
    with feeding(b"\n\n") as feed:
        source = make_source(feed.reader, tokenizer)
        while source.bytes_taken < 1:
            assert source.take(wait=True) is None
        assert source.bytes_taken == 1
