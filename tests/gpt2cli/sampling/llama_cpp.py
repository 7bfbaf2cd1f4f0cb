"""A plain scalar oracle of llama.cpp's own samplers (src/llama-sampler.cpp, of 2025).

Written from its definitions: llama_sampler_top_n_sigma_apply and llama_sampler_xtc_apply.
"""

import math
import statistics
from collections.abc import Sequence


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
