"""The checks of `tests.bench.cuda`: whether a device computes what the oracle and the CPU do."""

import json
import pathlib
import random
import tempfile
import time
from collections import Counter
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from export.check import Expectation
from export.config import read_config
from export.convert import convert
from export.errors import CheckError
from export.folder_weights import FolderWeights
from export.reference import Reference
from export.storage import Precision
from gpt2cli.engine.cache import DeviceCache
from gpt2cli.engine.devices import Device
from gpt2cli.engine.engine import Engine
from gpt2cli.engine.session import cache_dtype, open_session
from gpt2cli.errors import DeviceFullError
from gpt2cli.model_folder import read_model_folder
from tests.bench.measuring import emptied, prefill
from tests.checkpoints import CheckpointShape, write_checkpoint

_TEXT: Final = 48  # ids of the text that is held against the oracle
_ASKED: Final = (0, 1, 17, _TEXT - 1)
_RAGGED: Final = (1, 2, 5, 17, 40, 63, 64, 90)
_STEPS: Final = 4
_GREEDY_STEPS: Final = 200
_SAMPLED_ROWS: Final = 16
_SAMPLED_STEPS: Final = 48
_BATCHES: Final = (1, 4, 16)
_NEAR: Final = 1e-3  # logits of one fp32 graph on two devices
_TOO_MANY_SLOTS: Final = 50_000_000
_KERNEL: Final = "_kernel_time"  # how ONNX Runtime ends the name of a node's own event
_ELEMENTS: Final = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
}

Logits = NDArray[np.float32]


class Setup:
    """What the steps share: the device, a checkpoint with its model folders, engines and ids."""

    def __init__(self, device: Device, work: pathlib.Path, shape: CheckpointShape) -> None:
        self.device = device
        self.limit = shape.n_positions
        self.checkpoint = work / "checkpoint"
        self.folders = {"fp32": work / "fp32", "fp16": work / "fp16"}  # by precision
        self._shape = shape

    def prepare(self) -> dict[str, Any]:
        """Make the checkpoint, and export it."""
        write_checkpoint(self.checkpoint, self._shape, tokenizer="filled")
        found: dict[str, Any] = {}
        for precision, folder in self.folders.items():
            started = time.monotonic()
            convert(self.checkpoint, folder, precision=Precision(precision))
            found[f"export to {precision}, s"] = round(time.monotonic() - started, 2)
        return found

    def open_engine(self, precision: str, *, slots: int) -> Engine:
        """Return an engine on the device; on the CPU with the kind of cache that a device has."""
        folder = read_model_folder(self.folders[precision])
        if self.device.kind != "cpu":
            return Engine(folder, self.device, max_slots=slots)
        element = cache_dtype(open_session(folder, self.device, 1))
        cache = DeviceCache(folder.shape, self.device, rows=slots, element=element)
        return Engine(folder, self.device, max_slots=slots, cache=cache)

    def open_reference(self, *, slots: int) -> Engine:
        """Return an engine on the CPU in fp32, which tests hold against the oracle."""
        return Engine(read_model_folder(self.folders["fp32"]), Device("cpu"), max_slots=slots)

    def draw_ids(self, seed: int, length: int) -> list[int]:
        """Return seeded ids."""
        draw = random.Random(seed)
        return [draw.randrange(self._shape.vocab_size) for _ in range(length)]


class Checks:
    """Each method is one step, and returns what it found."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup

    def check_parity(self, precision: str) -> dict[str, Any]:
        """Hold prefill, prefill in pieces and decode against the NumPy oracle."""
        folder = read_model_folder(self._setup.folders[precision])
        config = read_config(self._setup.checkpoint)
        weights, text = FolderWeights(folder.graph_file), self._setup.draw_ids(1, _TEXT)
        oracle = Reference(config, weights, dtype=np.float32).logits(text, _ASKED)  # [K, V]
        expected = Expectation(config, weights, text, _ASKED, precision=Precision(precision))
        engine = self._setup.open_engine(precision, slots=2)
        whole = engine.extend(0, text, _ASKED)
        first, _ = engine.extend(1, text[:18], [0, 1, 17]), engine.extend(1, text[18:-1], [0])
        engine.rewind(0, _TEXT - 1)
        step = engine.decode([text[-1]] * 2)
        ways = {
            "in one piece": dict(zip(_ASKED, whole, strict=True)),
            "in pieces": dict(zip(_ASKED, first, strict=False)),
            "decoded": {_TEXT - 1: step[0]},
            "decoded after pieces": {_TEXT - 1: step[1]},
        }
        found: dict[str, Any] = {"largest logit": float(np.abs(oracle).max()), "right": True}
        for way, rows in ways.items():
            furthest = 0.0
            for position, logits in rows.items():
                difference = np.abs(logits - oracle[_ASKED.index(position)]).max()
                furthest = max(furthest, float(difference))
                try:
                    expected.compare(logits, position, way)
                except CheckError as error:
                    found |= {f"fault {way}": str(error), "right": False}
            found[f"largest difference {way}"] = furthest
        return found

    def find_nodes(self, precision: str) -> dict[str, Any]:
        """Count the nodes of a step by provider; name those that are not on the device."""
        provider = self._setup.device.provider
        nodes = _profile_step(self._setup.folders[precision], self._setup.limit, provider)
        elsewhere = [node for node in nodes if node.get("provider") != provider]
        return {
            **Counter(node.get("provider", "?") for node in nodes),
            "elsewhere": [f"{node.get('op_name')} {node['name']}" for node in elsewhere],
            "operators": dict(Counter(node.get("op_name", "?") for node in nodes)),
        }

    def check_ragged(self) -> dict[str, Any]:
        """Decode rows of eight lengths together: near the CPU's, and which are the same alone."""
        lengths = [min(length, self._setup.limit - _STEPS) for length in _RAGGED]
        device = self._setup.open_engine("fp32", slots=len(lengths))
        host = self._setup.open_reference(slots=len(lengths))
        texts = [self._setup.draw_ids(row, n + _STEPS) for row, n in enumerate(lengths)]
        found = [_decode_rows(engine, texts, lengths) for engine in (device, host)]
        furthest = _furthest(*found)
        pairs = zip(texts, lengths, strict=True)
        alone = [_decode_rows(device, [text], [length])[0] for text, length in pairs]
        together = _decode_rows(device, texts, lengths)
        same = sum(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
        return {
            "largest difference from the CPU": furthest,
            "rows with the same bits alone": f"{same} of {len(lengths)}",
            "right": furthest < _NEAR,
        }

    def check_fork(self) -> dict[str, Any]:
        """Fork, move into a gap, rewind and go on: near the CPU's at each step."""
        engines = (self._setup.open_engine("fp32", slots=4), self._setup.open_reference(slots=4))
        found: list[list[Logits]] = []
        for engine in engines:
            rows = []
            engine.extend(0, self._setup.draw_ids(1, 9), [8])
            engine.extend(1, self._setup.draw_ids(2, 30), [29])
            engine.fork(0, 2)
            rows.append(engine.decode([1, 2, 3]).copy())
            engine.free(0)  # slot 2 moves into its place
            rows.append(engine.decode([4, 5]).copy())
            engine.rewind(1, 12)
            rows.append(engine.extend(1, [7, 8], [1]))
            engine.fork(1, 0)
            rows.append(engine.decode([6, 6]).copy())
            found.append(rows)
        furthest = _furthest(*found)
        return {"largest difference from the CPU": furthest, "right": furthest < _NEAR}

    def compare_greedy(self) -> dict[str, Any]:
        """Take the likeliest id 200 times on both; where they part, how near the two were."""
        steps = min(_GREEDY_STEPS, self._setup.limit - 16)
        prompt = self._setup.draw_ids(5, 16)
        texts, gaps = [], []
        for engine in (
            self._setup.open_engine("fp32", slots=1),
            self._setup.open_reference(slots=1),
        ):
            text: list[int] = []
            logits = engine.extend(0, prompt, [15])[0]
            for _ in range(steps):
                two = np.sort(np.partition(logits, -2)[-2:])
                gaps.append(float(two[1] - two[0]))
                text.append(int(logits.argmax()))
                logits = engine.decode([text[-1]])[0]
            texts.append(text)
        parted = _part(*texts)
        found: dict[str, Any] = {"steps": steps, "first other id at": parted}
        if parted is not None:
            found["gap between the two likeliest there"] = gaps[parted]
        return found | {"right": parted is None or gaps[parted] < _NEAR}

    def sample_in_batches(self, precision: str) -> dict[str, Any]:
        """Draw the same texts in batches of several sizes: how many are the same, and how long."""
        steps = min(_SAMPLED_STEPS, self._setup.limit - 24)
        engine = self._setup.open_engine(precision, slots=max(_BATCHES))
        texts = {size: _sample(self._setup, engine, size, steps) for size in _BATCHES}
        found: dict[str, Any] = {"texts": _SAMPLED_ROWS, "steps": steps}
        for size in _BATCHES[1:]:
            parted = [_part(x, y) for x, y in zip(texts[1], texts[size], strict=True)]
            same = sum(place is None for place in parted)
            found[f"same at batch 1 and {size}"] = f"{same} of {_SAMPLED_ROWS}"
            found[f"first other ids, batch {size}"] = [p for p in parted if p is not None]
        return found

    def ask_too_much(self) -> dict[str, Any]:
        """Ask for more slots than any memory holds: a known failure, and the device goes on."""
        try:
            self._setup.open_engine("fp32", slots=_TOO_MANY_SLOTS)
        except DeviceFullError as error:
            told = str(error)
        else:
            return {"right": False, "told": "nothing: it fitted"}
        engine = self._setup.open_engine("fp32", slots=1)
        goes_on = bool(np.isfinite(engine.extend(0, [1, 2], [1])).all())
        return {"told": told, "right": goes_on}


def _furthest(ours: list[Logits], theirs: list[Logits]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))


def _part(one: list[int], other: list[int]) -> int | None:
    """Return the first place at which two texts differ."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)


def _profile_step(folder: pathlib.Path, limit: int, provider: str) -> list[dict[str, Any]]:
    """Run a step of one token; return each node as ONNX Runtime's own profile tells it."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.log_severity_level = 3  # it warns of each copied cache
    with tempfile.TemporaryDirectory() as work:
        options.profile_file_prefix = f"{work}/step"
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=[provider]
        )
        feeds = {}
        for value in session.get_inputs():
            axes = {"M": limit, "B": 1, "S": 1, "K": 1}
            element = _ELEMENTS[value.type]
            feeds[value.name] = np.zeros([axes.get(axis, axis) for axis in value.shape], element)
        session.run(["logits"], feeds)
        events = json.loads(pathlib.Path(session.end_profiling()).read_text(encoding="utf-8"))
    return [
        {"name": event["name"].removesuffix(_KERNEL), **event["args"]}
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL)
    ]


def _decode_rows(engine: Engine, texts: list[list[int]], lengths: list[int]) -> list[Logits]:
    """Prefill rows one by one, then decode the rest together -> each row's logits [steps, V]."""
    with emptied(engine):
        prefill(engine, [text[:length] for text, length in zip(texts, lengths, strict=True)])
        steps = [
            engine.decode([t[n + step] for t, n in zip(texts, lengths, strict=True)]).copy()
            for step in range(_STEPS)
        ]
    return [np.stack([step[row] for step in steps]) for row in range(len(texts))]


def _sample(setup: Setup, engine: Engine, size: int, steps: int) -> list[list[int]]:
    """Draw texts by the inverse of each row's distribution, by numbers of its own."""
    texts: list[list[int]] = []
    for first in range(0, _SAMPLED_ROWS, size):
        rows = range(first, min(first + size, _SAMPLED_ROWS))
        draws = [np.random.Generator(np.random.Philox(key=row)).random(steps) for row in rows]
        batch: list[list[int]] = [[] for _ in rows]
        with emptied(engine):
            logits = np.stack(
                [
                    engine.extend(slot, setup.draw_ids(100 + row, 1 + row), [row])[0]
                    for slot, row in enumerate(rows)
                ]
            )
            for step in range(steps):
                for text, draw, row_logits in zip(batch, draws, logits, strict=True):
                    weights = np.exp(row_logits.astype(np.float64) - row_logits.max()).cumsum()
                    text.append(int(np.searchsorted(weights, draw[step] * weights[-1])))
                logits = engine.decode([text[-1] for text in batch])
        texts += batch
    return texts
