"""Sends a model folder, piece by piece, to a machine that has none like it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from export.whole import replacing_folder
from gpt2cli.errors import ModelError
from gpt2cli.model_folder import MANIFEST_FILE, ModelFolder, read_model_folder

_PIECE: Final = 1 << 25  # bytes: so much of it is on its way at a time
_PRIVATE: Final = 0o700

Piece = tuple[str, bytes]  # of a file by its name, in order


def read_pieces(folder: ModelFolder) -> Iterator[Piece]:
    """Yield all files of a model folder.

    Raises:
        ModelError: if one cannot be read.
    """
    for name in (*folder.files, MANIFEST_FILE):
        try:
            with (folder.path / name).open("rb") as file:
                piece = file.read(_PIECE)
                yield name, piece
                while piece := file.read(_PIECE):
                    yield name, piece
        except OSError as error:
            raise ModelError(f"cannot read {folder.path / name}: {error.strerror}") from error


def received_folder(folder: ModelFolder) -> Path:
    """Return where a machine keeps the folder once it was sent; other users cannot write there."""
    own = Path(tempfile.gettempdir()) / f"gpt2-cluster-{os.getuid()}"
    own.mkdir(mode=_PRIVATE, exist_ok=True)
    if own.stat().st_uid != os.getuid():
        raise ModelError(f"{own} belongs to another user; remove it")
    return own / folder.fingerprint


class FolderReceiver:
    """Writes the pieces of a folder, which has its name only when it is complete."""

    def __init__(self, folder: ModelFolder) -> None:
        """`folder`: as the sender has it."""
        self._stack = ExitStack()
        self._target = received_folder(folder)
        self._path = self._stack.enter_context(replacing_folder(self._target))

    def write(self, piece: Piece) -> None:
        """Append a piece to its file."""
        name, data = piece
        path = self._path / name
        path.parent.mkdir(exist_ok=True)  # a portable folder has a folder in it
        with path.open("ab") as file:
            file.write(data)

    def finish(self) -> None:
        """Give the folder its name.

        Raises:
            ModelError: if a file arrived damaged.
        """
        with self._stack:
            damage = read_model_folder(self._path).find_damage()
            if damage is not None:
                raise ModelError(f"{self._target}, which was sent, is damaged: {damage}")
