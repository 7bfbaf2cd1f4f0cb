"""Installs wheels from a folder without a network, also one that was cut into parts to be carried.

Runs before anything is installed, so it imports nothing else.
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

_PART: Final = re.compile(r"(?P<wheel>.+\.whl)\.part-(?P<number>\d+)-of-(?P<count>\d+)")
_BLOCK_BYTES: Final = 1 << 24


def cut_wheel(wheel: pathlib.Path, part_bytes: int) -> list[pathlib.Path]:
    """Write a wheel's parts beside it, `NAME.whl.part-1-of-4` and so on."""
    count = max(1, -(-wheel.stat().st_size // part_bytes))
    parts = []
    with wheel.open("rb") as whole:
        for number in range(1, count + 1):
            part = wheel.with_name(f"{wheel.name}.part-{number}-of-{count}")
            part.write_bytes(whole.read(part_bytes))
            parts.append(part)
    return parts


def join_wheels(folder: pathlib.Path, out: pathlib.Path) -> list[str]:
    """Write whole wheels to `out` of the parts in a folder; return those that lack a part."""
    parts: dict[str, dict[int, pathlib.Path]] = {}
    counts: dict[str, int] = {}
    for path in folder.iterdir():
        match = _PART.fullmatch(path.name)
        if match is not None:
            parts.setdefault(match["wheel"], {})[int(match["number"])] = path
            counts[match["wheel"]] = int(match["count"])
    incomplete = []
    for name, found in parts.items():
        if len(found) < counts[name]:
            incomplete.append(f"{name}: {len(found)} of {counts[name]} parts")
            continue
        with (out / name).open("wb") as whole:
            for number in sorted(found):
                whole.write(found[number].read_bytes())
    return incomplete


def install_wheels(folder: pathlib.Path, site: pathlib.Path) -> list[str]:
    """Install every wheel of a folder, cut or whole, into `site`; return their names.

    Raises:
        SystemExit: if one lacks a part, or pip fails.
    """
    site.mkdir(parents=True, exist_ok=True)
    joined = site.with_name(f"{site.name}-joined")
    joined.mkdir(exist_ok=True)
    incomplete = join_wheels(folder, joined)
    if incomplete:
        raise SystemExit(f"parts are missing in {folder}: {'; '.join(incomplete)}")
    wheels = sorted([*folder.glob("*.whl"), *joined.glob("*.whl")])
    if wheels:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        command += ["--no-compile", "--no-cache-dir", "--upgrade", "--target", str(site)]
        subprocess.run([*command, *map(str, wheels)], check=True)
    return [wheel.name for wheel in wheels]


def find_library_folders() -> Iterator[pathlib.Path]:
    """Yield folders that may hold CUDA's libraries: those of NVIDIA's wheels, and of torch."""
    for entry in map(pathlib.Path, sys.path):
        yield from sorted((entry / "nvidia").glob("*/lib"))
    torch = importlib.util.find_spec("torch")
    if torch is not None and torch.origin is not None:
        yield pathlib.Path(torch.origin).parent / "lib"
    yield from sorted(pathlib.Path("/usr/local").glob("cuda*/lib64"))
