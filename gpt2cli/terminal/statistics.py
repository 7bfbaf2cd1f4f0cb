"""The lines of --stats: speeds and their conditions, counts, seed, the model's settings."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpt2cli.machine import read_peak

if TYPE_CHECKING:  # heavy, and a run on a server has none of it
    from gpt2cli.generation.drafting import DraftCounts
    from gpt2cli.generation.interfaces import Counts
    from gpt2cli.loading import LoadedModel

_IMPORTED: Final = time.monotonic()


def process_seconds() -> float:
    """Return the seconds since this process started (where that cannot be read: since import)."""
    try:
        # proc(5): field 22 is the start, in clock ticks after boot; field 2 may hold spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started
    except (OSError, ValueError, AttributeError):
        return time.monotonic() - _IMPORTED


def describe_run(
    model: "LoadedModel",
    counts: "Counts",
    *,
    seed: int,
    from_model: Mapping[str, Any],
    first_token_seconds: float | None = None,
) -> list[str]:
    """Return the lines of --stats for a finished run."""
    reason = model.device_reason
    lines = [
        describe_conditions(model),
        *([] if reason is None else [f"not on CUDA: {reason}"]),
        f"prefill {counts.prefill_tokens} tokens in {counts.prefill_seconds:.3f} s"
        + (f", {counts.shared_tokens} more were there already" if counts.shared_tokens else ""),
    ]
    if counts.kept_bytes:
        lines.append(f"kept prefixes take {counts.kept_bytes / 2**20:.1f} MB")
    if counts.decode_tokens:
        seconds = counts.decode_seconds + counts.sample_seconds
        share = 100 * counts.sample_seconds / seconds
        lines.append(
            f"decode {counts.decode_tokens} tokens in {seconds:.3f} s: "
            f"{counts.decode_tokens / seconds:.1f} tokens/s, sampling {share:.1f} % of it"
        )
    if model.drafting is not None:
        lines.append(_describe_drafts(model.drafting.counts))
    if first_token_seconds is not None:
        lines.append(f"first token {first_token_seconds:.2f} s after the process began")
    return [*lines, *describe_memory(), *describe_origin(seed=seed, from_model=from_model)]


def describe_origin(*, seed: int, from_model: Mapping[str, Any]) -> list[str]:
    """Return the lines about the seed, and the settings that are the model's own."""
    told = ", ".join(f"{name} {value}" for name, value in from_model.items())
    lines = [f"seed {seed}"]
    return [*lines, f"from the model's generation_config.json: {told}"] if told else lines


def _describe_drafts(done: "DraftCounts") -> str:
    if not done.proposed:
        return "the draft proposed nothing"
    return (
        f"{done.tokens / done.calls:.1f} tokens for each of {done.calls} calls that verified a "
        f"draft, which was right in {100 * done.accepted / done.proposed:.0f} % of {done.proposed} "
        f"tokens and took {done.draft_seconds:.3f} s; it rested for {done.rested} tokens"
    )


def describe_cut(cut: int, *, prompt_tokens: int, n_positions: int) -> list[str]:
    """Return the line that says how much of a prompt the model did not see; none if it saw all."""
    told = f"left out {cut} of the prompt's {prompt_tokens} tokens and kept its end: "
    return [f"{told}the model takes {n_positions}"] if cut else []


def describe_ending(prompt: str, *, heal: str) -> list[str]:
    """Return the line about a space at a prompt's end; none if there is none.

    A word's token mostly has its own space before it, so after a space the model seldom saw one.
    `heal`: the option that mends it.
    """
    told = "the prompt ends with a space, but words bring their own: the text is better without it"
    return [f"{told}, or with {heal}"] if prompt.endswith(" ") else []


def describe_conditions(model: "LoadedModel") -> str:
    """Return what ran, and on what."""
    engine = model.engine
    return (
        f"model {model.stored.title}, {model.stored.folder.precision} on {engine.device}, "
        f"{engine.threads} thread{'s' if engine.threads > 1 else ''}, "
        f"context {engine.shape.n_positions} tokens"
    )


def describe_memory() -> list[str]:
    """Return the line of the largest memory so far; none where it is unknown."""
    peak = read_peak()
    return [] if peak is None else [f"peak memory {peak / 2**20:.0f} MB"]
