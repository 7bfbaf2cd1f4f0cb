"""Claims about what the benchmark against other programs makes of its raw figures."""

import pathlib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any

import pytest

from tests.bench.chart import draw_chart, write_tables
from tests.bench.summary import (
    MEASURES,
    Values,
    compare,
    describe_agreement,
    describe_conditions,
    gather,
    judge_start,
    tabulate_figures,
)
from tests.bench.variants import Variant
from tests.bench.workload import draw_workload, read_workload

OURS = Variant("gpt2", "fp32", "fp32")
TORCH = Variant("transformers", "float32", "fp32")
LLAMA = Variant("llama_cpp", "F32", "fp32")


def make_runs(variant: Variant, rounds: Sequence[float], **others: float) -> list[dict[str, Any]]:
    """Return a run for each round, in which every figure is that number but for `others`."""
    return [
        {
            "round": number,
            "program": variant.program,
            "precision": variant.precision,
            "precision_class": variant.precision_class,
            "load_average": 1.5,
            "figures": {name: others.get(name, value) for name in MEASURES},
        }
        for number, value in enumerate(rounds)
    ]


def make_raw(*runs: dict[str, Any]) -> dict[str, Any]:
    """Return raw figures as they are in the file."""
    parted = {"prompt": 2, "place": 7, "gap": 0.0004}
    return {
        "conditions": {
            **{"cpu": "A & B", "cores": 2, "threads": 2, "system": "Linux"},
            **{"date": "2026-01-02", "rounds": 3},
        },
        "workload": {
            **{"decode_steps": 64, "decode_prompt_tokens": 64, "batch_prompts": 64},
            **{"batch_prompt_tokens": [8, 128], "batch_steps": 64},
        },
        "variants": [{"program": "gpt2", "precision": "int8", "skipped": "no such precision"}],
        "agreement": [
            {
                **{"variant": "llama_cpp F32", "reference": "gpt2 fp32", "prompts": 4},
                **{"tokens": 64, "same": 3, "parted": [parted]},
            }
        ],
        "runs": list(runs),
    }


@pytest.fixture
def raw() -> dict[str, Any]:
    """Return three rounds of three variants; the machine was half as fast in the second one."""
    return make_raw(
        *make_runs(OURS, (120, 60, 132), first_token=0.9, memory_one=700e6),
        *make_runs(TORCH, (50, 25, 50), first_token=3.0, memory_one=900e6),
        *make_runs(LLAMA, (100, 50, 100), first_token=0.2, memory_one=500e6),
    )


def test_a_ratio_is_the_median_of_the_rounds_ratios(raw: dict[str, Any]) -> None:
    """To the best peer; a slow round slows both, and does not count against either.

    Of seconds and memory, which is in megabytes, the least is best.
    """
    by_measure = {c.measure: c for c in compare(gather(raw))}
    decode, memory = by_measure["decode_1"], by_measure["memory_one"]
    assert decode.peer == memory.peer == by_measure["first_token"].peer == LLAMA
    assert decode.ratio == pytest.approx(1.2)
    assert (decode.ours.median, decode.theirs.median, memory.theirs.median) == (120, 100, 500)
    verdicts = {"decode_1": "≥ 1.05: met", "decode_8": "≥ 1.3: missed", "prefill_128": ""}
    assert {name: by_measure[name].verdict for name in verdicts} == verdicts


def test_the_start_is_held_against_both_its_bars(raw: dict[str, Any]) -> None:
    """A share of transformers' and so much more than llama.cpp's."""
    assert list(judge_start(gather(raw))) == [
        "start to first token: 0.30 × transformers', ≤ 0.35: met",
        "and 0.70 s more than llama.cpp's, ≤ 0.6: missed",
    ]


def test_a_variant_that_failed_in_some_round_has_no_figures() -> None:
    """Its median would be that of other minutes."""
    raw = make_raw(*make_runs(OURS, (1, 2)), *make_runs(TORCH, (1,)))
    assert list(gather(raw)) == [OURS]
    assert list(compare(gather(raw))) == []


def test_agreement_and_what_was_left_out_are_told_with_the_reason(raw: dict[str, Any]) -> None:
    """Where completions part, with the gap, so that one can see whether it was a near tie."""
    assert list(describe_agreement(raw)) == [
        "llama_cpp F32: 3 of 4 completions of 64 greedy tokens are those of gpt2 fp32; prompt 2 "
        "parts at token 7, where our best two logits are 0.0004 apart"
    ]
    assert list(describe_conditions(raw))[-1] == "gpt2 int8 was left out: no such precision"


def test_every_variant_has_a_row_of_figures_with_least_and_most(raw: dict[str, Any]) -> None:
    """Small ones with two digits after the point."""
    header, rows = tabulate_figures(gather(raw))
    assert [row[0] for row in rows] == ["gpt2 fp32", "transformers float32", "llama_cpp F32"]
    assert {len(row) for row in rows} == {len(header)}
    assert rows[0][1] == str(Values((120, 60, 132))) == "120 (60–132)"
    assert str(Values((0.25,))) == "0.25 (0.25–0.25)"


def test_the_chart_is_an_svg_with_a_bar_for_each_variant_and_measure(raw: dict[str, Any]) -> None:
    """Four measures of three variants; a name that is no XML by itself is escaped."""
    root = ElementTree.fromstring(draw_chart(gather(raw), list(describe_conditions(raw))))
    name = "{http://www.w3.org/2000/svg}"
    bars = root.findall(f"{name}rect")
    assert len(bars) == 12
    widths = [float(bar.attrib["width"]) for bar in bars[:3]]
    assert widths[0] / widths[2] == pytest.approx(1.2, rel=1e-3)
    assert any("A & B" in (text.text or "") for text in root.findall(f"{name}text"))


def test_the_markdown_has_both_tables(raw: dict[str, Any]) -> None:
    """And a line for each agreement and each bar of the start."""
    lines = write_tables(raw, gather(raw)).splitlines()
    assert sum(line.startswith("| ---") for line in lines) == 2
    assert sum(line.startswith("| fp32 |") for line in lines) == len(MEASURES)
    assert sum(line.startswith("- ") for line in lines) == 7


def test_the_workload_is_what_the_figures_say_in_every_process(tmp_path: pathlib.Path) -> None:
    """8 equal prompts, 128 and 900 tokens, 64 mixed prompts; drawn with a seed, and kept."""
    work = draw_workload([1])
    work.save(tmp_path / "workload.json")
    assert read_workload(tmp_path / "workload.json") == draw_workload([1])
    assert {len(ids) for ids in work.decode_prompts} == {64}
    assert [len(ids) for ids in work.prefill_prompts] == [128, 900]
    lengths = [len(ids) for ids in work.batch_prompts]
    assert (len(lengths), min(lengths), max(lengths)) == (64, 8, 128)
    assert lengths != sorted(lengths)
