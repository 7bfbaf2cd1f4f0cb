"""Owns the making of beams.json: the cases' beam searches by Hugging Face transformers.

Run by hand, in an environment of its own, from the root of the checkout:

    pip install torch transformers numpy safetensors tokenizers
    python -m tests.vectors.make_beams

The stored file was made with torch 2.13.0+cpu, transformers 5.24.0 and numpy 2.4.6 on Python
3.11; it holds the first three in `versions`.
"""

import itertools
import json
import pathlib
import tempfile
from typing import Any, Final

import numpy as np
import torch
import transformers

from tests.vectors.beam_cases import CASES, STORED_FILE, BeamCase, StoredBeams, write_case

# Kernels differ by about 1e-5; with a smaller gap two right answers could differ.
_SMALLEST_GAP: Final = 5e-5


class Gaps:
    """Watches a model's searches: the smallest difference that something was decided by."""

    def __init__(self, model: Any) -> None:
        self.smallest = np.inf
        self._going_on = model._get_running_beams_for_next_iteration
        self._is_over = model._check_early_stop_heuristic
        model._get_running_beams_for_next_iteration = self._watch_going_on
        model._check_early_stop_heuristic = self._watch_is_over

    def add(self, first: float, second: float) -> None:
        """Take note of two numbers of which the larger was chosen."""
        self.smallest = min(self.smallest, abs(first - second))

    def _watch_going_on(self, **arguments: Any) -> Any:
        beams = arguments["num_beams"]
        totals = arguments["topk_log_probs"][0].tolist()  # best first
        ends = arguments["next_token_hits_stopping_criteria"][0].tolist()
        going_on = [total for total, end in zip(totals, ends, strict=True) if not end]
        if len(going_on) > beams:
            self.add(going_on[beams - 1], going_on[beams])
        if any(ends):
            self.add(totals[beams - 1], totals[beams])
        return self._going_on(**arguments)

    def _watch_is_over(self, **arguments: Any) -> Any:
        if arguments["is_sent_finished"].all():
            length = arguments["cur_len"] - arguments["decoder_prompt_len"]
            best = arguments["running_beam_scores"][0, 0] / length ** arguments["length_penalty"]
            self.add(best.item(), arguments["beam_scores"][0].min().item())
        return self._is_over(**arguments)


def _load_model(case: BeamCase, dtype: torch.dtype) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        model: Any = transformers.GPT2LMHeadModel.from_pretrained(
            write_case(pathlib.Path(folder), case), attn_implementation="eager", dtype=dtype
        )
    if not case.ignore_eos and model.generation_config.eos_token_id != list(case.eos_ids):
        raise ValueError(f"{case.name}: EOS {model.generation_config.eos_token_id}")
    if case.ignore_eos:
        model.generation_config.eos_token_id = None
    return model.eval()


def compute(case: BeamCase, *, dtype: torch.dtype = torch.float32) -> tuple[StoredBeams, float]:
    """Return what transformers answers, and the smallest gap that it was decided by."""
    model = _load_model(case, dtype)
    gaps = Gaps(model)
    prompt = torch.tensor([case.prompt_ids])
    with torch.inference_mode():
        answer = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            num_beams=case.beams,
            num_return_sequences=case.beams,
            length_penalty=case.length_penalty,
            early_stopping=False,
            max_length=min(prompt.shape[1] + case.max_new_tokens, case.shape.n_positions),
            min_new_tokens=case.min_new_tokens or None,
            repetition_penalty=case.repetition_penalty,
            no_repeat_ngram_size=case.no_repeat_ngram,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
        )
    completions = answer.sequences[:, prompt.shape[1] :]
    if case.beams == 1:
        logprobs = torch.stack(answer.scores, dim=1).log_softmax(dim=-1)  # [1, T, V]
        best = logprobs.max(dim=-1).values[0].double()
        second = logprobs.topk(2, dim=-1).values[0, :, 1]
        gaps.add(float((best - second).min()), 0.0)
        scores = [float(best.sum()) / len(best) ** case.length_penalty]
        ids = [completions[0].tolist()]
    else:
        scores = answer.sequences_scores.tolist()
        lengths = (answer.beam_indices >= 0).sum(dim=1).tolist()
        ids = [row[:n] for row, n in zip(completions.tolist(), lengths, strict=True)]
    for better, worse in itertools.pairwise(scores):
        gaps.add(better, worse)
    return StoredBeams(tuple(map(tuple, ids)), tuple(scores)), gaps.smallest


def main() -> None:
    """Compute every case and write beams.json."""
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    stored: dict[str, Any] = {
        "versions": [
            f"torch {torch.__version__}",
            f"transformers {transformers.__version__}",
            f"numpy {np.__version__}",
        ]
    }
    for case in CASES:
        found, gap = compute(case)
        lengths = [len(ids) for ids in found.ids]
        print(f"{case.name}: gap {gap:.1e}, lengths {lengths}")
        if gap < _SMALLEST_GAP:
            raise ValueError(f"{case.name} has a near-tie; give it another seed")
        if compute(case, dtype=torch.float64)[0].ids != found.ids:
            raise ValueError(f"{case.name} has another answer in float64; give it another seed")
        stored[case.name] = {"ids": found.ids, "scores": [round(s, 7) for s in found.scores]}
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in stored.items())
    STORED_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{STORED_FILE}: {STORED_FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
