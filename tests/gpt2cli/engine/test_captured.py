"""What libraries print in a block reaches nobody, and what comes after it does."""

import os
import subprocess
import sys

import pytest

from gpt2cli.engine.captured import captured


def test_all_that_is_printed_in_the_block_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    """By Python on stdout, and on both descriptors by whatever else; in any order."""
    print("before", flush=True)
    with captured() as found:
        print("a")
        os.write(1, b"c\n")
        os.write(2, b"d\n")
        subprocess.run(["sh", "-c", "echo e; echo f >&2"], check=True)
    print("after")
    assert capfd.readouterr() == ("before\nafter\n", "")
    assert sorted(found.text.split()) == ["a", "c", "d", "e", "f"]


def test_streams_come_back_when_the_block_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """The exception passes."""
    with pytest.raises(OSError, match="boom"), captured():
        print("lost")
        raise OSError("boom")
    print("result")
    os.write(2, b"note\n")
    assert capfd.readouterr() == ("result\n", "note\n")


def test_what_waits_in_a_buffer_is_not_caught(capfd: pytest.CaptureFixture[str]) -> None:
    """It was written before the block, by the user's program."""
    sys.stdout.write("waiting")
    with captured() as found:
        pass
    sys.stdout.flush()
    assert (found.text, capfd.readouterr().out) == ("", "waiting")


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_closed_streams_stay_closed(closed: str) -> None:
    """A program started without them can still try a device."""
    code = (
        "import os\n"
        "from gpt2cli.engine.captured import captured\n"
        "with captured() as found:\n"
        "    os.write(1, b'x')\n"
        "assert found.text == 'x'\n"
    )
    done = subprocess.run(["sh", "-c", f'"$0" -c "$1" {closed}', sys.executable, code], check=False)
    assert done.returncode == 0


def test_bytes_that_are_no_text_are_caught(capfd: pytest.CaptureFixture[str]) -> None:
    """A library may write in any encoding."""
    with captured() as found:
        os.write(1, b"\xff")
    assert found.text == "\ufffd"
