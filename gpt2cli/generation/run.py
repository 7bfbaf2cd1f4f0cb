"""From requests, or a source of samples, to chunks: what runs the loop, and ends it."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing

from gpt2cli.generation.interfaces import Counts, LogitsEngine, SampleSource
from gpt2cli.generation.kept import KeptSlot
from gpt2cli.generation.loop import Loop
from gpt2cli.generation.requests import Chunk, PreparedRequest
from gpt2cli.sampling import Sampler
from gpt2cli.tokenizer import Tokenizer


def generate(
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    sampler: Sampler,
    requests: Iterable[PreparedRequest],
    *,
    counts: Counts | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    kept: KeptSlot | None = None,
) -> Generator[Chunk, None, None]:
    """Yield the chunks of all samples as they are made; `counts` is kept up to date meanwhile.

    A finished sample's slot is taken by the next one at once. What a sample yields depends on its
    request alone: each prompt is prefilled by itself. Once `interrupted` says so, the samples that
    run finish with what they have and no other begins. Closing the iterator stops all work.

    With `kept`, for runs of one sample each, the slot stays open between them: a prompt that begins
    as the one before went on is prefilled from there, so the text depends on what came before.

    Raises:
        PromptError: if the options of a request leave nothing to choose.
        DeviceFullError: if the device's memory does not hold a step.
    """
    chunks = generate_from(
        _IterableSource(iter(requests)),
        engine,
        tokenizer,
        sampler,
        counts=counts,
        interrupted=interrupted,
        kept=kept,
    )
    with closing(chunks):
        for chunk in chunks:
            if chunk.finish is not None and chunk.finish.error is not None:
                raise chunk.finish.error
            yield chunk


def generate_from(
    source: SampleSource,
    engine: LogitsEngine,
    tokenizer: Tokenizer,
    sampler: Sampler,
    *,
    counts: Counts | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    kept: KeptSlot | None = None,
) -> Generator[Chunk, None, None]:
    """Do as `generate` with samples that may come later: those that run never wait for them.

    A sample whose options leave nothing to choose finishes with the error; the others go on.
    """
    counts = counts if counts is not None else Counts()
    loop = Loop(engine, tokenizer, sampler, counts, interrupted, kept)
    try:
        yield from loop.run(source)
    finally:
        loop.close()


class _IterableSource:
    """Gives the samples of requests that are all there when they are asked for."""

    def __init__(self, requests: Iterator[PreparedRequest]) -> None:
        self._samples = (
            (prepared, number) for prepared in requests for number in range(prepared.runs)
        )
        self.ended = False

    def take(self, *, wait: bool) -> tuple[PreparedRequest, int] | None:
        """Return the next sample; None at the end."""
        sample = next(self._samples, None)
        self.ended = sample is None
        return sample
