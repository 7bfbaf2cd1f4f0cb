"""Claims about files and folders that take their names only when they are whole."""

import os
import pathlib
import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

import pytest

from export import whole
from export.whole import put_back, remove_leftovers, replacing, replacing_folder
from tests.export.conversions import lay, list_tree
from tests.killing import killed_everywhere

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names by /proc")
posix = pytest.mark.skipif(sys.platform == "win32", reason="locks and links of POSIX")

OLD = {"out": None, "out/a": b"old", "out/b": b"old"}
NEW = {"out": None, "out/a": b"new", "out/c": b"new"}


def write_file(path: pathlib.Path) -> None:
    """Write a file with new content."""
    with replacing(path) as file:
        file.write(b"ne")
        file.write(b"w")


def write_folder(path: pathlib.Path) -> None:
    """Write a folder with new content."""
    with replacing_folder(path) as partial:
        (partial / "a").write_bytes(b"new")
        (partial / "c").write_bytes(b"new")


def lay_anew(folder: pathlib.Path, content: dict[str, bytes | None]) -> None:
    """Make a folder that has this and nothing else in it."""
    shutil.rmtree(folder, ignore_errors=True)
    lay(folder, {"": None, **content})


def visible(folder: pathlib.Path) -> dict[str, bytes | None]:
    """Return what a user sees of a folder."""
    return {name: content for name, content in list_tree(folder).items() if name[0] != "."}


@posix
@pytest.mark.parametrize("write", [write_file, write_folder])
def test_an_exception_as_something_is_made_leaves_nothing_beside_it(
    tmp_path: pathlib.Path, write: Callable[[pathlib.Path], None]
) -> None:
    """As a signal raises it, in the moment in which a file or folder is there."""
    lay_anew(tmp_path / "w", {})
    count = 0
    while raises_after(count, lambda: write(tmp_path / "w" / "out")):
        assert list_tree(tmp_path / "w").keys() <= NEW.keys(), count
        lay_anew(tmp_path / "w", {})
        count += 1
    assert count > 0


def raises_after(number: int, work: Callable[[], None]) -> bool:
    """Interrupt work after it has opened or made so many; tell whether it was."""
    left = number

    def count(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_return" and called in (os.open, os.mkdir):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(count)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@posix
@pytest.mark.parametrize(
    ("write", "old", "new"),
    [
        (write_file, {}, {"out": b"new"}),
        (write_file, {"out": b"old"}, {"out": b"new"}),
        (write_folder, {}, NEW),
        (write_folder, OLD, NEW),
    ],
    ids=["a file", "a file that is replaced", "a folder", "a folder that is replaced"],
)
def test_a_kill_at_any_step_leaves_the_old_or_the_new_and_the_next_run_cleans(
    tmp_path: pathlib.Path,
    write: Callable[[pathlib.Path], None],
    old: dict[str, bytes | None],
    new: dict[str, bytes | None],
) -> None:
    """Never a part of one, never neither, and nothing beside it once the next one has run."""
    out = tmp_path / "in" / "out"
    for _ in killed_everywhere(lambda: lay_anew(out.parent, old), lambda: write(out)):
        assert visible(out.parent) in (old, new)
        write(out)
        assert list_tree(out.parent) == new


@posix
def test_where_names_cannot_be_exchanged_the_next_use_puts_the_old_one_back(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be gone after a kill between two renames; who looks for it mends that."""
    monkeypatch.setattr("export.whole._exchange", lambda one, other: False)
    out = tmp_path / "in" / "out"
    gone = 0
    for _ in killed_everywhere(lambda: lay_anew(out.parent, OLD), lambda: write_folder(out)):
        missing = not out.exists()
        gone += missing
        assert put_back(out) == missing
        assert visible(out.parent) in (OLD, NEW)
        write_folder(out)
        assert list_tree(out.parent) == NEW
    assert gone


@posix
@pytest.mark.parametrize("write", [replacing, replacing_folder])
def test_what_a_living_process_writes_is_no_leftover(
    tmp_path: pathlib.Path, write: Callable[[pathlib.Path], AbstractContextManager[object]]
) -> None:
    """Two may write the same name at once; the last to end has it."""
    with write(tmp_path / "out"):
        [first] = tmp_path.iterdir()
        with write(tmp_path / "out"):
            remove_leftovers(tmp_path)
            assert first.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@posix
@pytest.mark.parametrize(
    ("name", "goes"),
    [
        (".out.abcd_123.partial", True),
        (".out.x.abcd_123.partial", False),  # of out.x
        (".out.abcd_1234.partial", False),
        (".other.abcd_123.partial", False),
        ("out.abcd_123.partial", False),
        (".out.abcd_123.partial\n", False),
    ],
)
def test_only_leftovers_of_the_same_name_go(tmp_path: pathlib.Path, name: str, goes: bool) -> None:
    """What other programs call alike is not touched."""
    (tmp_path / name).touch()
    write_file(tmp_path / "out")
    assert (tmp_path / name).exists() != goes


@posix
def test_a_link_in_the_place_of_a_leftover_is_not_followed(tmp_path: pathlib.Path) -> None:
    """Somebody may lay it in a folder that all can write."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / ".out.abcd_123.partial").symlink_to(tmp_path / "precious")
    write_folder(tmp_path / "out")
    assert (tmp_path / "precious" / "file").exists()


@posix
@pytest.mark.parametrize(("age", "goes"), [(3500, False), (3700, True)])
def test_where_there_are_no_locks_an_hour_tells(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, age: int, goes: bool
) -> None:
    """As on some network file systems."""
    leftover = tmp_path / ".out.abcd_123.partial"
    leftover.touch()
    os.utime(leftover, (time.time() - age,) * 2)
    monkeypatch.setattr("export.whole.lock", lambda descriptor, wait=False: None)
    write_file(tmp_path / "out")
    assert leftover.exists() != goes


@pytest.mark.parametrize("name", ["n" * 255, "日" * 85, "a\nb"])
def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: pathlib.Path, name: str) -> None:
    """255 bytes; the name until then is no longer."""
    write_file(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of what is synced and renamed from now on, by names."""
    found: list[str] = []
    sync, rename, replace = os.fsync, os.rename, os.replace
    exchange = whole._exchange

    def short(path: object) -> str:
        return re.sub(r"\.\w{8}\.", ".X.", pathlib.Path(str(path)).name)

    def note(kind: str, done: Callable[..., Any]) -> Callable[..., Any]:
        def noted(one: Any, *other: Any) -> Any:
            paths = (one, *other) if other else (pathlib.Path(f"/proc/self/fd/{one}").readlink(),)
            found.append(" ".join([kind, *map(short, paths)]))
            return done(one, *other)

        return noted

    monkeypatch.setattr(os, "fsync", note("sync", sync))
    monkeypatch.setattr(os, "rename", note("rename", rename))
    monkeypatch.setattr(os, "replace", note("rename", replace))
    monkeypatch.setattr(whole, "_exchange", note("exchange", exchange))
    return found


@linux
def test_what_takes_a_name_is_on_disk_before_and_the_name_after(
    tmp_path: pathlib.Path, steps: list[str]
) -> None:
    """So a power cut at any moment leaves the old or the new."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "part").write_bytes(b"x")
    whole.give_name(folder / "part", folder / "loaded")  # as a file that was downloaded
    assert steps == ["sync part", "rename part loaded", "sync in"]
    steps.clear()
    write_file(folder / "out")
    assert steps == ["sync .out.X.partial", "rename .out.X.partial out", "sync in"]
    (folder / "out").unlink()
    for kind in ("rename", "exchange"):
        steps.clear()
        write_folder(folder / "out")
        assert sorted(steps[:2]) == ["sync a", "sync c"]
        assert steps[2:] == ["sync .out.X.partial", f"{kind} .out.X.partial out", "sync in"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, GeneratorExit])
def test_after_an_exception_all_is_as_it_was(
    tmp_path: pathlib.Path, error: type[BaseException]
) -> None:
    """Whatever it was; it goes on to who wrote."""
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(error), replacing(path) as file:
        file.write(b"new")
        raise error

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("old", [None, 0o600, 0o640, 0o666])
def test_a_file_has_the_mode_that_the_user_wants(
    tmp_path: pathlib.Path, umask: int, old: int | None
) -> None:
    """That of the file it replaces; a new one not that of a temporary file. The mask stays."""
    path = tmp_path / "out"
    if old is not None:
        path.touch()
        path.chmod(old)
    before = os.umask(umask)
    try:
        write_file(path)
    finally:
        after = os.umask(before)
    assert after == umask
    assert path.stat().st_mode & 0o777 == (0o666 & ~umask if old is None else old)


def test_a_file_that_is_protected_stays(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its folder would let a new one take its name."""
    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK)  # root may write all
    with pytest.raises(PermissionError), replacing(path) as file:
        file.write(b"new")
    assert path.read_text() == "old"


@posix
def test_a_chain_of_links_is_followed(tmp_path: pathlib.Path) -> None:
    """To the file in another folder, beside which the temporary one lies."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to(tmp_path / "folder" / "c")
    with replacing(tmp_path / "a") as file:
        file.write(b"x")
        assert len(list((tmp_path / "folder").iterdir())) == 1

    assert (tmp_path / "folder" / "c").read_bytes() == b"x"
    assert (tmp_path / "a").is_symlink()


@posix
def test_a_circle_of_links_is_an_error(tmp_path: pathlib.Path) -> None:
    """Nothing is left."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError), replacing(tmp_path / "a" / "x"):
        pass

    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
