"""Checks and measures CUDA on a machine that may not reach the network. A table, and JSON.

    python tests/bench/cuda.py --output cuda.json [--wheels FOLDER] [--dry-run] [--seconds 300]

One command, unattended: it installs the wheels in FOLDER (by default those beside this file) into
a folder of its own, also a wheel that was cut into parts, and takes CUDA's libraries from NVIDIA's
wheels or an installed torch. --dry-run executes every step on the CPU, with a small model.

    python tests/bench/cuda.py --cut onnxruntime_gpu-….whl --part-megabytes 50
    python tests/bench/cuda.py --stash /tmp/parts --wheels FOLDER

The first cuts a wheel; the second only lays parts and wheels aside in a place that later calls
keep, where not all of them can be carried at once: the last call names that place with --wheels.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Final

_ROOT: Final = pathlib.Path(__file__).resolve().parents[2]
_MEGABYTE: Final = 1 << 20


def main() -> None:
    """Prepare, then run the steps in an interpreter that sees what was installed."""
    options = _parse()
    sys.path.insert(0, str(_ROOT))
    from tests.bench import cuda_wheels

    if options.cut is not None:
        for part in cuda_wheels.cut_wheel(options.cut, options.part_megabytes * _MEGABYTE):
            print(part)
        return
    if options.stash is not None:
        options.stash.mkdir(parents=True, exist_ok=True)
        for path in [*options.wheels.glob("*.whl"), *options.wheels.glob("*.whl.part-*")]:
            shutil.copy(path, options.stash)
            print(f"laid aside {path.name}")
        return
    with tempfile.TemporaryDirectory() as work:
        site = pathlib.Path(work) / "site"
        for name in cuda_wheels.install_wheels(options.wheels, site):
            print(f"installed {name}", file=sys.stderr)
        command = [sys.executable, "-m", "tests.bench.cuda_run", "--work", work]
        command += ["--output", str(options.output.resolve()), "--seconds", str(options.seconds)]
        command += ["--device", options.device, *(["--dry-run"] if options.dry_run else [])]
        paths = [str(site), str(_ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        # For the programs that the steps call too: what is installed here is not beside ours.
        libraries = [str(folder) for folder in cuda_wheels.find_library_folders()]
        libraries.append(os.environ.get("LD_LIBRARY_PATH", ""))
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
        raise SystemExit(
            subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode
        )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("cuda.json"))
    parser.add_argument("--wheels", type=pathlib.Path, default=here, metavar="FOLDER")
    parser.add_argument("--device", default="cuda", metavar="cuda[:N]")
    parser.add_argument("--seconds", type=float, default=300.0, help="after which no step begins")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--stash", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--cut", type=pathlib.Path, metavar="WHEEL")
    parser.add_argument("--part-megabytes", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
