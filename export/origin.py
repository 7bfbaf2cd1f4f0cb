"""What identifies a checkpoint that lies on this machine; light to import."""

from pathlib import Path
from typing import Any


def describe_local(source: Path) -> dict[str, Any]:
    """Return what identifies a local checkpoint: its path, and each file's size and time.

    Raises:
        OSError: if the folder cannot be read.
    """
    files = sorted(p for p in source.iterdir() if p.is_file() and not p.name.startswith("."))
    stats = {p.name: p.stat() for p in files}
    return {
        "path": str(source.resolve()),
        "files": {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()},
    }
