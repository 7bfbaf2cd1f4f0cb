"""A plain scalar oracle of llama.cpp's own samplers (src/llama-sampler.cpp, of 2025).

Written from its definitions: llama_sampler_top_n_sigma_apply, llama_sampler_xtc_apply and
llama_sampler_dry_apply.
"""

import math
import statistics
from collections.abc import Collection, Sequence


def keep_top_n_sigma(logits: Sequence[float], n: float) -> list[float]:
    """Return the logits with minus infinity for those that are too far below the best."""
    finite = [logit for logit in logits if logit != -math.inf]
    least = max(finite) - n * statistics.pstdev(finite)
    return [logit if logit >= least else -math.inf for logit in logits]


def exclude_top(shares: Sequence[float], threshold: float) -> list[float]:
    """Return the shares with 0 for the top choices, where XTC is at work; all are different."""
    best_first = sorted((share for share in shares if share > 0), reverse=True)
    last = 0
    for place, share in enumerate(best_first):
        if share < threshold:
            break
        last = place
    return [share if share in best_first[last:] else 0 for share in shares]


def find_dry_penalties(
    ids: Sequence[int],
    breakers: Collection[int],
    *,
    multiplier: float,
    base: float,
    allowed_length: int,
    last_n: int,
) -> dict[int, float]:
    """Return what is subtracted from each id's logit; breakers are of one id each."""
    window = list(ids)[len(ids) - last_n if 0 <= last_n < len(ids) else 0 :]
    if len(window) <= allowed_length:
        return {}
    since = next((i for i, token in enumerate(reversed(window)) if token in breakers), len(window))
    longest: dict[int, int] = {}
    for back in range(1, len(window)):
        count = 0
        while count + back < len(window) and window[-1 - count] == window[-1 - count - back]:
            count += 1
        follower = window[-back]
        longest[follower] = max(longest.get(follower, 0), min(count, since))
    return {
        token: multiplier * base ** (count - allowed_length)
        for token, count in longest.items()
        if count >= allowed_length and token not in breakers
    }
