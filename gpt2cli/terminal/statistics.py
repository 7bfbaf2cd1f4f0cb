"""What --stats tells: speeds with their conditions, counts, seed, and the model's own settings."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gpt2cli.generation import Counts
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
    model: LoadedModel,
    counts: Counts,
    *,
    seed: int,
    first_token_seconds: float | None,
    from_model: Mapping[str, Any],
) -> list[str]:
    """Return the lines of --stats for a finished run."""
    engine = model.engine
    name = model.stored.name
    if model.stored.revision is not None:
        name += f" ({model.stored.revision[:12]})"
    lines = [
        f"model {name}, {model.stored.folder.precision} on {engine.device}, "
        f"{engine.threads} thread{'s' if engine.threads > 1 else ''}, "
        f"context {engine.shape.n_positions} tokens",
        f"prefill {counts.prefill_tokens} tokens in {counts.prefill_seconds:.3f} s",
    ]
    if counts.decode_tokens:
        seconds = counts.decode_seconds + counts.sample_seconds
        share = 100 * counts.sample_seconds / seconds
        lines.append(
            f"decode {counts.decode_tokens} tokens in {seconds:.3f} s: "
            f"{counts.decode_tokens / seconds:.1f} tokens/s, sampling {share:.1f} % of it"
        )
    if first_token_seconds is not None:
        lines.append(f"first token {first_token_seconds:.2f} s after the process began")
    peak = _peak_megabytes()
    if peak is not None:
        lines.append(f"peak memory {peak:.0f} MB")
    lines.append(f"seed {seed}")
    if from_model:
        told = ", ".join(f"{name} {value}" for name, value in from_model.items())
        lines.append(f"from the model's generation_config.json: {told}")
    return lines


def _peak_megabytes() -> float | None:
    """Return the largest resident memory so far, mapped files included; None on Windows."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
