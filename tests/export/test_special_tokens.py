"""Which ids begin and end a text, which never print, and which the tokenizer lacks.

By the table of `export/special_tokens.py`.
"""

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

from export.config import GPT2Config, read_config
from export.errors import CheckpointError
from export.special_tokens import END_OF_TEXT, SpecialTokens
from export.tokenizer import TokenizerFacts, read_facts
from tests.checkpoints import CheckpointShape, write_checkpoint, write_tokenizer
from tests.vectors.token_cases import TokenCase, write_case

WORD = ord(".") - ord("!")  # the id of a token that is plain text


def read(
    folder: pathlib.Path,
    case: TokenCase,
    generation: dict[str, Any] | None = None,
    **config: Any,
) -> TokenizerFacts:
    """Read the tokenizer of a case whose config.json names no BOS and no EOS but those given."""
    write_case(folder, case)
    raw = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(raw | config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return read_facts(folder, read_config(folder))


def ends_of(special: SpecialTokens) -> dict[int, str]:
    return {i: token.ends for i, token in special.tokens.items() if token.ends}


@pytest.mark.parametrize("field", ["additional_special_tokens", "extra_special_tokens"])
def test_the_tokens_of_a_list_are_special(tmp_path: pathlib.Path, field: str) -> None:
    """As is a padding token of 2020, whose id is in added_tokens.json."""
    added = {"<a>": 257, "<b>": 258, "[PAD]": 259}
    special = {field: ["<a>", {"content": "<b>"}], "pad_token": "[PAD]"}
    facts = read(tmp_path, TokenCase(added=added, special=special))
    assert {i for i, t in facts.special.tokens.items() if t.silent} == {256, 257, 258, 259}
    assert facts.special.tokens[259].silent == "special_tokens_map.json"
    facts.tokenizer.encode_special_tokens = True
    assert 259 not in facts.tokenizer.encode("a [PAD] b").ids


@pytest.mark.parametrize(
    ("generation", "config", "ends"),
    [
        (None, {}, {257: "tokenizer_config.json"}),
        (None, {"eos_token_id": 256}, {256: "config.json", 257: "tokenizer_config.json"}),
        (
            {"eos_token_id": [258, 256]},
            {"eos_token_id": 257},
            {
                258: "generation_config.json",
                256: "generation_config.json",
                257: "tokenizer_config.json",
            },
        ),
        (None, {"eos_token_id": 257}, {257: "config.json"}),
    ],
)
def test_the_tokenizers_own_end_ends_a_text_as_well(
    tmp_path: pathlib.Path,
    generation: dict[str, Any] | None,
    config: dict[str, Any],
    ends: dict[int, str],
) -> None:
    """Beside those of the model's configuration, of which generation_config.json comes first."""
    case = TokenCase(added={"<end>": 257, "<x>": 258}, config={"eos_token": "<end>"})
    assert ends_of(read(tmp_path, case, generation, **config).special) == ends


def test_the_end_of_text_is_no_end_where_another_is_named(tmp_path: pathlib.Path) -> None:
    """It is what GPT-2 had; nothing says that this model has it."""
    special = read(tmp_path, TokenCase(), eos_token_id=5).special
    assert special.eos_token_ids == (5,)


def test_an_end_that_the_tokenizer_lacks_can_be_drawn(tmp_path: pathlib.Path) -> None:
    """A model of 300 ids and a tokenizer of 257: of the others only EOS is ever drawn."""
    facts = read(tmp_path, TokenCase(), eos_token_id=280)
    assert facts.special.eos_token_ids == (280,)
    assert facts.missing_ids == [[257, 279], [281, 299]]


def test_what_begins_or_ends_a_text_never_prints(tmp_path: pathlib.Path) -> None:
    """Though no file of the tokenizer says that it is special; its text is text as any other."""
    facts = read(tmp_path, TokenCase(added={"</s>": 257}), eos_token_id=257)
    assert facts.special.tokens[257].silent == "config.json"
    facts.tokenizer.encode_special_tokens = True
    assert 257 not in facts.tokenizer.encode("</s>").ids


@pytest.mark.parametrize(
    ("case", "config"),
    [
        (TokenCase(config={"pad_token": "."}), {}),
        (TokenCase(config={"eos_token": "."}), {}),
        (TokenCase(), {"eos_token_id": WORD}),
    ],
)
def test_a_word_prints_whatever_it_is_used_for(
    tmp_path: pathlib.Path, case: TokenCase, config: dict[str, Any]
) -> None:
    """A full stop for padding must not vanish from the texts."""
    facts = read(tmp_path, case, **config)
    assert WORD not in facts.tokenizer.get_added_tokens_decoder()
    assert WORD not in facts.special.tokens or facts.special.tokens[WORD].silent is None


def test_a_word_as_the_end_is_told_once(tmp_path: pathlib.Path) -> None:
    """The user may have meant it."""
    facts = read(tmp_path, TokenCase(), eos_token_id=WORD, bos_token_id=WORD)
    said = f"eos_token_id and bos_token_id {WORD} is an ordinary word of the vocabulary, '.'"
    assert facts.notes == [f"config.json: {said}"]
    assert facts.special.eos_token_ids == (WORD,)


def read_left_over(folder: pathlib.Path, case: TokenCase, added: dict[str, int]) -> TokenizerFacts:
    """Read a checkpoint with the default 50256 for BOS and EOS in a vocabulary of its own."""
    write_case(folder, case)
    raw = json.loads((folder / "config.json").read_text("utf-8"))
    raw |= {"vocab_size": 50300, "bos_token_id": 50256, "eos_token_id": 50256}
    (folder / "config.json").write_text(json.dumps(raw))
    vocabulary = json.loads((folder / "vocab.json").read_text("utf-8"))
    (folder / "vocab.json").write_text(json.dumps(vocabulary | added))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
    return read_facts(folder, read_config(folder))


def test_a_word_with_the_id_of_gpt2s_end_ends_nothing(tmp_path: pathlib.Path) -> None:
    """The tokenizer's own BOS and EOS are used instead, and a note tells that."""
    case = TokenCase(config={"eos_token": "</s>"})
    facts = read_left_over(tmp_path, case, {"ab": 50256, "</s>": 257})
    assert (facts.special.eos_token_ids, facts.special.bos_token_id) == ((257,), 256)
    said = "50256 is an ordinary word of the vocabulary, 'ab'; not used,"
    assert facts.notes == [
        f"config.json: eos_token_id {said} '</s>' is instead",
        f"config.json: bos_token_id {said} '<|endoftext|>' is instead",
    ]


def test_gpt2s_end_where_no_token_is_means_nothing(tmp_path: pathlib.Path) -> None:
    """In a vocabulary that is padded beyond it; the tokenizer's own end is used."""
    facts = read_left_over(tmp_path, TokenCase(), {"ab": 257})
    assert (facts.special.eos_token_ids, facts.special.bos_token_id) == ((256,), 256)
    assert facts.notes == []


def test_names_that_no_id_has_are_passed_over(tmp_path: pathlib.Path) -> None:
    """Padding that was named and never added has no id, so nothing of the model means it."""
    special = read(tmp_path, TokenCase(special={"pad_token": "[PAD]", "eos_token": "[E]"})).special
    assert special.eos_token_ids == (256,)
    assert set(special.tokens) == {256}


@pytest.mark.parametrize("key", ["x", "-1", "1.5", "", "9" * 40])
def test_a_listed_token_without_an_id_is_refused(tmp_path: pathlib.Path, key: str) -> None:
    """added_tokens_decoder has ids for keys."""
    with pytest.raises(CheckpointError, match=r"added_tokens_decoder has .*, expected an id"):
        read(tmp_path, TokenCase(config={"added_tokens_decoder": {key: {"content": "a"}}}))


def test_thousands_of_added_tokens_take_no_time(tmp_path: pathlib.Path) -> None:
    """Marked one by one they took minutes: the library begins anew with each."""
    added = {f"<{i}>": 257 + i for i in range(10_000)}
    case = TokenCase(added=added, special={"extra_special_tokens": [*added]})
    tokens = read(tmp_path, case, vocab_size=10_257).special.tokens
    assert sum(token.silent is not None for token in tokens.values()) == 10_001


def make_config(folder: pathlib.Path, vocab_size: int, **fields: object) -> GPT2Config:
    """Return a config of `vocab_size` ids that names no BOS and no EOS unless `fields` do."""
    shape = CheckpointShape(1, 1, 1, 1, vocab_size)
    nothing = {"bos_token_id": None, "eos_token_id": None}
    write_checkpoint(folder, shape, tokenizer=None, config=nothing | fields)
    return read_config(folder)


def ids_of(facts: TokenizerFacts) -> tuple[int, list[list[int]], int | None, tuple[int, ...]]:
    """Return the tokenizer's size, the ids that it lacks, BOS and EOS."""
    special = facts.special
    return facts.vocab_size, facts.missing_ids, special.bos_token_id, special.eos_token_ids


def test_ids_that_are_missing_between_others_are_runs_of_their_own(tmp_path: pathlib.Path) -> None:
    """Here the end of text was moved past the end of a padded vocabulary's middle."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    raw["added_tokens"][0]["id"] = raw["model"]["vocab"][END_OF_TEXT] = 260
    path.write_text(json.dumps(raw), "utf-8")
    config = make_config(tmp_path, 263)
    assert read_facts(tmp_path, config).missing_ids == [[256, 259], [261, 262]]
    huge = replace(config, vocab_size=2**31 - 1)  # costs nothing
    assert read_facts(tmp_path, huge).missing_ids == [[256, 259], [261, 2**31 - 2]]


@pytest.mark.parametrize("token_id", [2**31 - 1, 100_000])
@pytest.mark.parametrize("name", ["tokenizer.json", "added_tokens.json", "vocab.json"])
def test_an_id_far_beyond_the_vocabulary_is_refused(
    tmp_path: pathlib.Path, name: str, token_id: int
) -> None:
    """The library would write down every id before it, in all the memory that there is."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    path = tmp_path / "tokenizer.json"
    raw = json.loads(path.read_text("utf-8"))
    vocabulary = raw["model"]["vocab"]
    if name != "added_tokens.json":
        vocabulary["far"] = token_id
    path.write_text(json.dumps(raw), "utf-8")
    if name != "tokenizer.json":
        path.unlink()
        (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
        (tmp_path / "merges.txt").write_text("#version: 0.2\n")
        (tmp_path / "added_tokens.json").write_text(json.dumps({"far": token_id}))
    with pytest.raises(CheckpointError, match=f"'far' has the id {token_id}, .* end at 256"):
        read_facts(tmp_path, make_config(tmp_path, 257))


def test_a_tokenizer_larger_than_the_model_has_an_end_of_text_that_is_none(
    tmp_path: pathlib.Path,
) -> None:
    """An id that the model cannot give ends nothing."""
    write_tokenizer(tmp_path, 257, kind="bytes")
    facts = read_facts(tmp_path, make_config(tmp_path, 200))
    assert ids_of(facts) == (257, [], None, ())


# BOS and EOS where config.json and generation_config.json name none.


@pytest.mark.parametrize(
    ("config", "special", "token_id", "more"),
    [
        ("<a>", None, 257, {}),
        (None, {"content": "<a>", "lstrip": False}, 257, {}),
        ("<a>", "<b>", 258, {}),
        ("<a>", "<b>", 257, {"added_tokens_decoder": {}}),
        ("<a>", "[B]", 257, {}),
        *((value, None, 256, {}) for value in (None, 3, ["<a>"], {"content": 3})),
    ],
)
def test_eos_and_bos_are_named_by_the_tokenizers_files(
    tmp_path: pathlib.Path, config: object, special: object, token_id: int, more: dict[str, Any]
) -> None:
    """As text, or as an object around it; what is neither, and what no id has, names nothing.

    special_tokens_map.json comes before tokenizer_config.json, but after one that lists the added
    tokens (as in transformers 5.24).
    """
    settings = [dict.fromkeys(("eos_token", "bos_token"), value) for value in (config, special)]
    case = TokenCase(
        added={"<a>": 257, "<b>": 258}, config={**settings[0], **more}, special=settings[1]
    )
    found = read(tmp_path, case).special
    assert (found.eos_token_ids, found.bos_token_id) == ((token_id,), token_id)
