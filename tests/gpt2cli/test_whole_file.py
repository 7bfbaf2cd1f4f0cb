"""Claims about files that take their names only when they are whole; more in `test_result`."""

import os
import pathlib
import sys

import pytest

from gpt2cli.errors import OutputError
from gpt2cli.whole_file import replacing

posix = pytest.mark.skipif(sys.platform == "win32", reason="links and modes of POSIX")


def test_the_name_is_taken_at_the_end(tmp_path: pathlib.Path) -> None:
    """Until then what stood there is seen, and afterwards nothing else is left."""
    path = tmp_path / "out"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


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
def test_a_new_file_has_the_mode_that_the_user_wants(tmp_path: pathlib.Path, umask: int) -> None:
    """Not the private one of a temporary file; the process's mask stays."""
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "out"):
            pass
    finally:
        after = os.umask(before)

    assert after == umask
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o666 & ~umask


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_replaced_gives_its_mode(tmp_path: pathlib.Path, mode: int) -> None:
    """Private stays private."""
    path = tmp_path / "out"
    path.touch()
    path.chmod(mode)
    with replacing(path):
        pass

    assert path.stat().st_mode & 0o777 == mode


def test_a_file_that_is_protected_stays(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its folder would let a new one take its name."""
    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK)  # root may write all
    with pytest.raises(OutputError, match="Permission denied"), replacing(path) as file:
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
    with pytest.raises(OutputError, match="cannot write"), replacing(tmp_path / "a" / "x"):
        pass

    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
