"""A batch whose run can be killed and gone on with: a scripted engine makes its results."""

import pathlib
from dataclasses import dataclass
from typing import Any, Final

from gpt2cli.batch.lines import make_line
from gpt2cli.batch.results import BatchRun, Result
from gpt2cli.generation.interfaces import Counts
from gpt2cli.loading import LoadedModel
from gpt2cli.resumable.header import Header
from gpt2cli.resumable.journal import journal_path, read_header, resume_output, start_output
from gpt2cli.resumable.view import RunView
from gpt2cli.sampling.sampler import Sampler
from gpt2cli.terminal.notes import Notes
from gpt2cli.terminal.progress import Bar
from gpt2cli.tokenizer import Tokenizer
from tests.gpt2cli.batch.feeding import fed
from tests.gpt2cli.batch.parsing import make_source
from tests.gpt2cli.scripted import ScriptedEngine, scatter

HEADER: Final[dict[str, Any]] = {
    "options": {"top_k": 5, "stop": ["é", "\n"], "overflow": "stop"},
    "seed": 7,
    "model": "small",
    "revision": None,
    "source": {"path": "/a", "files": {"config.json": [1, 2]}},
    "generation_config": {"temperature": 0.7},
    "precision": "fp32",
    "device": "cpu",
    "versions": {"gpt2": "0.1.0", "onnxruntime": "1.31.1"},
}

# An error first, a blank line, samples, equal records, nothing to draw, an error last.
RECORDS: Final = (
    b"{bad\n\n"
    b'{"prompt": "a", "samples": 3, "max_new_tokens": 3, "ignore_eos": true}\n'
    b'{"prompt": "b", "max_new_tokens": 9, "id": "\\ud83d\\ude00"}\n'
    b'{"prompt": "b", "max_new_tokens": 9, "id": "\\ud83d\\ude00"}\n'
    b'{"prompt": "", "samples": 2, "max_new_tokens": 0}\n \t\r\n'
    b'{"prompt": "c", "top_k": -1}'
)
RESULTS: Final = (1, 3, 1, 1, 2, 1)  # of each record


@dataclass(frozen=True)
class Job:
    """A batch over RECORDS that writes to `output`."""

    tokenizer: Tokenizer
    model: LoadedModel
    output: pathlib.Path
    as_text: bool = False
    records: bytes = RECORDS

    @property
    def journal(self) -> pathlib.Path:
        """The journal's path."""
        return journal_path(self.output)

    @property
    def files(self) -> tuple[bytes, bytes]:
        """What the output and its journal hold."""
        return self.output.read_bytes(), self.journal.read_bytes()

    def leave(self, output: bytes, journal: bytes) -> None:
        """Write what a killed run left."""
        self.output.write_bytes(output)
        self.journal.write_bytes(journal)

    def run(self, *, resume: bool, header: Header = HEADER) -> tuple[int, int]:
        """Run or go on to the end; returns how many results were made, and how many calls."""
        with fed(self.records) as descriptor:
            items = make_source(descriptor, self.tokenizer)
            begun = resume and read_header(self.output) is not None
            opened = (
                resume_output(self.output, header, items)
                if begun
                else start_output(self.output, header)
            )
            engine = ScriptedEngine(scatter(97, often=[65, 66, 96]), vocab_size=97, max_slots=2)
            notes = Notes(quiet=True)
            with opened:
                view = RunView(items, opened, notes, Bar(notes, None), self.as_text)

                def show(result: Result) -> None:
                    view.show(make_line(result, self.model, as_text=self.as_text))

                batch = BatchRun(items, show, slots=2)
                batch.run(engine, self.tokenizer, Sampler(), counts=Counts())
            return view.records, len(engine.calls)
