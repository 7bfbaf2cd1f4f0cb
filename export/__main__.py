"""`python -m export SOURCE OUT`: a checkpoint folder to a model folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from export.errors import ExportError
from export.precision import Precision


class _Parser(argparse.ArgumentParser):
    """Tells wrong usage in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (0 done, 1 a known failure, 130 interrupted).

    Raises:
        SystemExit: with 2 for wrong usage.
    """
    parser = _Parser(prog="python -m export", description=__doc__)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="GPT-2 checkpoint folder")
    parser.add_argument("out", type=Path, metavar="OUT", help="model folder to write")
    parser.add_argument(
        "--precision",
        choices=[precision.value for precision in Precision],
        default=Precision.FP32.value,
        help="precision of the weights; fp16 is for CUDA (default %(default)s)",
    )
    parser.add_argument("--check", action="store_true", help="check all positions, not only a few")
    parser.add_argument("--force", action="store_true", help="replace an existing model folder")
    options = parser.parse_args(arguments)

    from export.convert import convert  # after parsing: --help answers at once

    try:
        convert(
            options.source,
            options.out,
            precision=Precision(options.precision),
            full_check=options.check,
            force=options.force,
            report=_say,
            note=lambda text: _say(f"note: {text}"),
        )
    except ExportError as error:
        _say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _say(text: str) -> None:
    """Write a line to stderr; what would control a terminal, as in a file's name, is shown."""
    shown = (c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)
    print("".join(shown), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
