"""One sample: what it makes of each drawn id."""

from gpt2cli.config import GenerationConfig, Overflow, SamplingConfig
from gpt2cli.generation import FinishReason, PreparedRequest, Request
from gpt2cli.generation.sample import Sample
from gpt2cli.tokenizer import Tokenizer

EOS = 96


def make_sample(
    tokenizer: Tokenizer, prompt_ids: tuple[int, ...] = (1,), *, limit: int = 16, **limits: object
) -> Sample:
    """Return a sample whose prompt and completion may have `limit` tokens."""
    generation = GenerationConfig(**limits)  # type: ignore[arg-type]
    request = Request(prompt="", sampling=SamplingConfig(), generation=generation, seed=0, index=3)
    return Sample(tokenizer, PreparedRequest(request, prompt_ids), 2, limit)


def take_text(sample: Sample, text: str) -> list[str]:
    """Feed the ids of printable ASCII; the texts that are certain after each."""
    return [sample.take(ord(character) - 32) for character in text]


def test_text_is_given_as_it_is_drawn(ascii_tokenizer: Tokenizer) -> None:
    """Nothing waits where no stop sequence can come."""
    assert take_text(make_sample(ascii_tokenizer), "abc") == ["a", "b", "c"]


def test_an_unfinished_sample_has_no_finish(ascii_tokenizer: Tokenizer) -> None:
    """Its chunk says whose it is."""
    sample = make_sample(ascii_tokenizer)
    chunk = sample.chunk("x")
    assert (chunk.index, chunk.sample, chunk.text, chunk.finish) == (3, 2, "x", None)


def test_eos_is_neither_printed_nor_counted(ascii_tokenizer: Tokenizer) -> None:
    """After one letter it ends the sample."""
    sample = make_sample(ascii_tokenizer)
    take_text(sample, "a")
    assert sample.take(EOS) == ""
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.stop_sequence) == (FinishReason.STOP, None)
    assert (finish.prompt_tokens, finish.completion_tokens) == (1, 1)


def test_an_ignored_eos_is_counted_but_not_printed(ascii_tokenizer: Tokenizer) -> None:
    """With ignore_eos the marker is one of the drawn tokens and adds no text."""
    sample = make_sample(ascii_tokenizer, ignore_eos=True, max_new_tokens=2)
    assert sample.take(EOS) == "" and not sample.finished
    assert take_text(sample, "a") == ["a"]
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == (FinishReason.LENGTH, 2)


def test_a_stop_sequence_ends_the_text_before_it(ascii_tokenizer: Tokenizer) -> None:
    """`ab` is held, `x` before it is given, and the sequence is reported."""
    sample = make_sample(ascii_tokenizer, stop=("ab",))
    assert take_text(sample, "xab") == ["x", "", ""]
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.stop_sequence) == (FinishReason.STOP, "ab")
    assert finish.completion_tokens == 3


def test_held_text_is_given_at_eos(ascii_tokenizer: Tokenizer) -> None:
    """`a` waits for `b`; EOS releases it."""
    sample = make_sample(ascii_tokenizer, stop=("ab",))
    assert take_text(sample, "a") == [""]
    assert sample.take(EOS) == "a"


def test_held_text_is_given_at_the_limit(ascii_tokenizer: Tokenizer) -> None:
    """The last token begins a stop sequence: it is text all the same."""
    sample = make_sample(ascii_tokenizer, stop=("ab",), max_new_tokens=2)
    assert take_text(sample, "xa") == ["x", "a"]


def test_a_stop_at_the_limit_counts_as_stop(ascii_tokenizer: Tokenizer) -> None:
    """Both fall on the same token: the reason is the stop sequence."""
    sample = make_sample(ascii_tokenizer, stop=("ab",), max_new_tokens=2)
    assert take_text(sample, "ab") == ["", ""]
    finish = sample.chunk("").finish
    assert finish is not None and finish.reason is FinishReason.STOP


def test_an_unfinished_character_is_given_at_the_end(byte_tokenizer: Tokenizer) -> None:
    """One byte of two at the limit is U+FFFD, as in the whole decode."""
    first = byte_tokenizer.encode("é")[0]
    sample = make_sample(byte_tokenizer, max_new_tokens=1)
    assert sample.take(first) == "\N{REPLACEMENT CHARACTER}"


def test_a_replacement_at_the_end_can_complete_a_stop(byte_tokenizer: Tokenizer) -> None:
    """A stop sequence of U+FFFD itself is found in the flushed text too."""
    first = byte_tokenizer.encode("é")[0]
    sample = make_sample(byte_tokenizer, max_new_tokens=1, stop=("\N{REPLACEMENT CHARACTER}",))
    assert sample.take(first) == ""
    finish = sample.chunk("").finish
    assert finish is not None and finish.reason is FinishReason.STOP


def test_no_tokens_wanted_is_finished_at_once(ascii_tokenizer: Tokenizer) -> None:
    """-n 0 draws nothing: `length`, also for a prompt that fills the context."""
    for prompt in ((1,), (1,) * 16):
        sample = make_sample(ascii_tokenizer, prompt, max_new_tokens=0)
        finish = sample.chunk("").finish
        assert finish is not None
        assert (finish.reason, finish.completion_tokens) == (FinishReason.LENGTH, 0)


def test_a_full_context_is_finished_at_once(ascii_tokenizer: Tokenizer) -> None:
    """A prompt of n_positions tokens leaves no room: `context`."""
    sample = make_sample(ascii_tokenizer, (1,) * 16)
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == (FinishReason.CONTEXT, 0)


def test_a_sliding_prompt_keeps_its_last_half(ascii_tokenizer: Tokenizer) -> None:
    """Of twenty tokens in eight positions the last four remain; that is not yet a slide."""
    sample = make_sample(ascii_tokenizer, tuple(range(20)), limit=8, overflow=Overflow.SLIDE)
    assert list(sample.window) == [16, 17, 18, 19]
    assert sample.prefix == (16, 17, 18, 19) and not sample.slid


def test_the_finish_counts_the_whole_prompt(ascii_tokenizer: Tokenizer) -> None:
    """Also the tokens that slid out."""
    sample = make_sample(
        ascii_tokenizer, tuple(range(20)), limit=8, overflow=Overflow.SLIDE, max_new_tokens=0
    )
    finish = sample.chunk("").finish
    assert finish is not None and finish.prompt_tokens == 20


def test_sliding_keeps_the_last_half_of_the_window(ascii_tokenizer: Tokenizer) -> None:
    """Six of prompt and two drawn fill eight: the last four stay and are to be prefilled."""
    sample = make_sample(ascii_tokenizer, (1, 2, 3, 4, 5, 6), limit=8, overflow=Overflow.SLIDE)
    sample.needs_prefill = False
    sample.take(7)
    assert not sample.needs_prefill
    sample.take(8)
    assert list(sample.window) == [5, 6, 7, 8]
    assert sample.slid and sample.needs_prefill


def test_an_interrupted_sample_gives_what_it_held(ascii_tokenizer: Tokenizer) -> None:
    """Held text comes out, and the reason is told."""
    sample = make_sample(ascii_tokenizer, stop=("ab",))
    take_text(sample, "xa")
    assert sample.interrupt() == "a"
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == (FinishReason.INTERRUPTED, 2)


def test_a_stop_sequence_counts_only_after_enough_tokens(ascii_tokenizer: Tokenizer) -> None:
    """With two required the third may complete it, as in vLLM, and no part of it is shown."""
    sample = make_sample(ascii_tokenizer, stop=("b",), min_new_tokens=2)
    assert take_text(sample, "abb") == ["a", "b", ""]
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.stop_sequence, finish.completion_tokens) == ("b", 3)


def test_a_stop_sequence_may_begin_before_enough_tokens(ascii_tokenizer: Tokenizer) -> None:
    """It is complete with the third token."""
    sample = make_sample(ascii_tokenizer, stop=("bc",), min_new_tokens=2)
    assert take_text(sample, "abc") == ["a", "", ""]
    finish = sample.chunk("").finish
    assert finish is not None and finish.stop_sequence == "bc"


def test_as_many_tokens_as_allowed_may_be_required(ascii_tokenizer: Tokenizer) -> None:
    """Nothing ends the completion before then: it has exactly so many."""
    sample = make_sample(ascii_tokenizer, stop=("a",), min_new_tokens=3, max_new_tokens=3)
    assert take_text(sample, "aaa") == ["a", "a", "a"]
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == (FinishReason.LENGTH, 3)


def test_the_context_ends_a_sample_before_enough_tokens(ascii_tokenizer: Tokenizer) -> None:
    """There is no room for more."""
    sample = make_sample(ascii_tokenizer, (1, 2), limit=4, min_new_tokens=3)
    take_text(sample, "ab")
    finish = sample.chunk("").finish
    assert finish is not None
    assert (finish.reason, finish.completion_tokens) == (FinishReason.CONTEXT, 2)


def test_the_row_is_told_what_it_may_not_choose(ascii_tokenizer: Tokenizer) -> None:
    """Before the first step, and again after each token."""
    sample = make_sample(ascii_tokenizer, min_new_tokens=2)
    for expected in ([[EOS]], [[EOS]], []):
        assert [ids.tolist() for ids in sample.row.forbidden] == expected
        sample.row.append(1)
        sample.take(1)
