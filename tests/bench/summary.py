"""What the raw figures of the benchmark come to: medians, ratios to the best peer, and the bars.

Ratios are taken round by round, ours to the same round's of the peer whose median is best, and the
median of them is told: in a round all programs meet the machine in nearly the same state.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.variants import OURS, Variant

CLASSES: Final = ("fp32", "int8", "int4")
MEASURES: Final[Mapping[str, str]] = {
    "decode_1": "decode, 1 row (tokens/s)",
    "decode_8": "decode, 8 rows (tokens/s)",
    "batch": "batch of 64 (tokens/s)",
    "prefill_128": "prefill of 128 (tokens/s)",
    "prefill_900": "prefill of 900 (tokens/s)",
    "first_token": "start to first token (s)",
    "memory_one": "memory, 1 completion (MB)",
    "memory_batch": "memory, batch (MB)",
}
_LESS_IS_BETTER: Final = ("first_token", "memory_one", "memory_batch")
# (class, measure) -> the least ratio to the best peer that the project asks of itself.
_BARS: Final[Mapping[tuple[str, str], float]] = {
    ("fp32", "decode_1"): 1.05,
    ("int8", "decode_1"): 1.1,
    ("int4", "decode_1"): 1.2,
    ("fp32", "decode_8"): 1.3,
    ("int8", "decode_8"): 1.1,
    ("fp32", "batch"): 1.3,
    ("int8", "batch"): 1.1,
    ("fp32", "prefill_900"): 1.0,
}
_START_RATIO: Final = 0.35  # of transformers'
_START_SECONDS: Final = 0.6  # more than llama.cpp


@dataclass(frozen=True, slots=True)
class Values:
    """What a variant's rounds gave for a measure, in the units of `MEASURES`."""

    rounds: Sequence[float]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.rounds)

    def __str__(self) -> str:
        return f"{_round(self.median)} ({_round(min(self.rounds))}–{_round(max(self.rounds))})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ours beside the best peer of a class: for rates more than 1 is better, for others less."""

    precision_class: str
    measure: str
    ours: Values
    peer: Variant
    theirs: Values
    bar: float | None

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        pairs = zip(self.ours.rounds, self.theirs.rounds, strict=True)
        return statistics.median(a / b for a, b in pairs)

    @property
    def verdict(self) -> str:
        """What is asked, and whether it is so."""
        if self.bar is None:
            return ""
        return f"≥ {self.bar}: {'met' if self.ratio >= self.bar else 'missed'}"


Figures = Mapping[Variant, Mapping[str, Values]]


def gather(raw: Mapping[str, Any]) -> Figures:
    """Return the figures of all variants that ran in every round."""
    count = len({run["round"] for run in raw["runs"]})
    gathered: dict[Variant, dict[str, list[float]]] = {}
    for run in raw["runs"]:
        variant = Variant(run["program"], run["precision"], run["precision_class"])
        of_variant = gathered.setdefault(variant, {name: [] for name in MEASURES})
        for name in MEASURES:
            scale = 1e6 if name.startswith("memory") else 1
            of_variant[name].append(run["figures"][name] / scale)
    return {
        variant: {name: Values(values) for name, values in measures.items()}
        for variant, measures in gathered.items()
        if len(measures["decode_1"]) == count
    }


def compare(figures: Figures) -> Iterator[Comparison]:
    """Yield ours beside the best peer, for every class and measure."""
    for precision_class in CLASSES:
        rivals = [v for v in figures if v.precision_class == precision_class]
        ours = [variant for variant in rivals if variant.program == OURS]
        peers = [variant for variant in rivals if variant.program != OURS]
        if not (ours and peers):
            continue
        for measure in MEASURES:
            ranked = sorted(peers, key=_median_of(figures, measure))
            best = ranked[0 if measure in _LESS_IS_BETTER else -1]
            yield Comparison(
                precision_class,
                measure,
                figures[ours[0]][measure],
                best,
                figures[best][measure],
                _BARS.get((precision_class, measure)),
            )


def judge_start(figures: Figures) -> Iterator[str]:
    """Yield what the start of a process comes to beside transformers' and llama.cpp's."""
    by_name = {str(v): m["first_token"].median for v, m in figures.items()}
    ours, torch, llama = (
        by_name.get(name) for name in ("gpt2 fp32", "transformers float32", "llama_cpp F32")
    )
    if ours is not None and torch is not None:
        met = "met" if ours / torch <= _START_RATIO else "missed"
        yield f"start to first token: {ours / torch:.2f} × transformers', ≤ {_START_RATIO}: {met}"
    if ours is not None and llama is not None:
        met = "met" if ours - llama <= _START_SECONDS else "missed"
        yield f"and {ours - llama:.2f} s more than llama.cpp's, ≤ {_START_SECONDS}: {met}"


def describe_agreement(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield whether the fp32 variants made the same greedy ids as ours, and where they part."""
    for entry in raw["agreement"]:
        told = f"{entry['variant']}: {entry['same']} of {entry['prompts']} completions of "
        told += f"{entry['tokens']} greedy tokens are those of {entry['reference']}"
        parted = [
            f"prompt {p['prompt']} parts at token {p['place']}, where our best two logits are "
            f"{p['gap']:.2g} apart"
            for p in entry["parted"]
        ]
        yield "; ".join([told, *parted])


def tabulate_figures(figures: Figures) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row for each variant: medians, with least and most."""
    header = ["", *MEASURES.values()]
    rows = [[str(v), *(str(measures[m]) for m in MEASURES)] for v, measures in figures.items()]
    return header, rows


def tabulate_ratios(figures: Figures) -> tuple[list[str], list[list[str]]]:
    """Return a header and a row for each class and measure: ours, the best peer, the ratio."""
    header = ["class", "measure", "ours", "best peer", "theirs", "ratio", "bar"]
    rows = [
        [
            *(c.precision_class, MEASURES[c.measure], _round(c.ours.median), str(c.peer)),
            *(_round(c.theirs.median), f"{c.ratio:.2f}", c.verdict),
        ]
        for c in compare(figures)
    ]
    return header, rows


def format_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def describe_conditions(raw: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that belong beside the figures."""
    c = raw["conditions"]
    yield (
        f"{c['cpu']}, {c['cores']} cores, {c['threads']} threads each, {c['system']}, {c['date']}; "
        f"medians of {c['rounds']} interleaved rounds, least and most in brackets"
    )
    busiest = max((run["load_average"] for run in raw["runs"]), default=0)
    yield (
        f"load average before a run: up to {busiest:.1f}; of that the run before makes up to "
        f"{c['threads']}, so more says that others were at work"
    )
    work = raw["workload"]
    shortest, longest = work["batch_prompt_tokens"]
    yield (
        f"124M shape with random weights; decode: {work['decode_steps']} tokens after "
        f"{work['decode_prompt_tokens']}; batch: {work['batch_prompts']} prompts of {shortest} to "
        f"{longest} tokens, {work['batch_steps']} new ones each"
    )
    for entry in raw["variants"]:
        if entry["skipped"]:
            yield f"{entry['program']} {entry['precision']} was left out: {entry['skipped']}"


def _median_of(figures: Figures, measure: str) -> Callable[[Variant], float]:
    return lambda variant: figures[variant][measure].median


def _round(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"
