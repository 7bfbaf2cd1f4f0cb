"""Texts: whatever is written comes back from tokens, scores and records as it was."""

import json
import math

from tests.campaign import hostile
from tests.campaign.lab import Lab


def attempt(lab: Lab) -> None:
    """Take a text through the commands that read texts."""
    rng = lab.rng
    text = "".join(hostile.text(rng) for _ in range(rng.choice((1, 1, 2, 5, 30))))
    (lab.folder / "text").write_bytes(text.encode())
    lab.told.append(f"text: {text[:2000]!r}")
    model = str(rng.choice((lab.place.model, lab.place.starter)))
    rng.choice((_tokens, _tokens, _score, _generate, _batch))(lab, text, model)


def _as_read(text: str) -> str:
    """Return what is read of a file: without a byte order mark, and one newline at its end."""
    text = text.removeprefix("\ufeff")
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _tokens(lab: Lab, text: str, model: str) -> None:
    kept = _as_read(text)
    done = lab.run("tokens", "-m", model, "-f", "text", "--ids", codes=(0,))
    back = lab.run("tokens", "-m", model, "--decode", stdin=done.out or b"\n", codes=(0,))
    lab.claim(back.out == kept.encode(), f"{back.out!r:.300} came back")
    told = lab.run("tokens", "-m", model, "-f", "text", "--json", codes=(0,), records=True)
    ids = [int(i) for i in done.out.split()]
    record = json.loads(told.out)
    lab.claim([t["id"] for t in record["tokens"]] == ids, "--json and --ids disagree")
    count = lab.run("tokens", "-m", model, "-f", "text", "--count", codes=(0,))
    lab.claim(int(count.out) == len(ids), "--count and --ids disagree")


def _score(lab: Lab, text: str, model: str) -> None:
    done = lab.run(
        "score", "-m", model, "-f", "text", "--json", "--top", "2", codes=(0, 1, 2), records=True
    )
    if done.code:
        return
    record = json.loads(done.out)
    values = [t["logprob"] for t in record["tokens"] if t["logprob"] is not None]
    lab.claim(all(v <= 0 and math.isfinite(v) for v in values), "a log-probability above 0")
    lab.claim(len(values) == record["scored_tokens"], "scored_tokens is another number")
    total = record["total_logprob"] or 0.0
    lab.claim(math.isclose(math.fsum(values), total, rel_tol=1e-6, abs_tol=1e-6), "another sum")
    table = lab.run("score", "-m", model, "-f", "text", codes=(0,))
    lab.claim(table.out.count(b"\n") == len(record["tokens"]) + 1, "another number of lines")


def _generate(lab: Lab, text: str, model: str) -> None:
    seed = str(lab.rng.randrange(2**53))
    line = ["generate", "-m", model, "-n", "6", "--seed", seed, "--overflow", "slide"]
    first = lab.run(*line, "-f", "text")
    again = lab.run(*line, stdin=text.encode())
    lab.claim(first.out == again.out and first.code == again.code, "another text of one seed")
    kept = _as_read(text).encode()
    lab.claim(first.code != 0 or first.out.startswith(kept), "the echo is not the prompt")
    record = lab.run(*line, "-f", "text", "--json", records=True)
    if record.code == 0:
        told = json.loads(record.out)
        lab.claim(told["prompt"].encode() == kept, "the record's prompt is another")
        whole = kept + told["completion"].encode() + b"\n"
        lab.claim(first.out == whole, f"the record tells another text: {told['completion']!r}")


def _batch(lab: Lab, text: str, model: str) -> None:
    seed = lab.rng.randrange(2**53)
    texts = [text, "Once", hostile.text(lab.rng)]
    lines = [
        json.dumps({"prompt": t, "seed": seed + n, "overflow": "slide"})
        for n, t in enumerate(texts)
    ]
    line = ["batch", "--jsonl", "-m", model, "-n", "6"]
    script = "\n".join(lines).encode()
    whole = lab.run(*line, "--batch-size", "3", stdin=script, records=True)
    alone = [lab.run(*line, "--batch-size", "1", stdin=one.encode(), records=True) for one in lines]
    told = [record.get("completion") for record in lab.read_records(whole.out)]
    apart = [r.get("completion") for done in alone for r in lab.read_records(done.out)]
    lab.claim(told == apart, f"side by side {told!r:.300}, alone {apart!r:.300}")
