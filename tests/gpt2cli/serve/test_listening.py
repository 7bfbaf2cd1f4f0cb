"""Where the server listens: ports, and Unix sockets with their files."""

import os
import pathlib
import socket
import stat
import sys

import pytest

from gpt2cli.errors import OutputError
from gpt2cli.serve.config import ServeConfig
from gpt2cli.serve.listening import listening

posix = pytest.mark.skipif(sys.platform == "win32", reason="has no Unix sockets")


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_port_0_takes_a_free_one_and_tells_it(host: str, address: str) -> None:
    with listening(ServeConfig(host=host, port=0)) as (listener, told):
        port = listener.getsockname()[1]
        assert told == f"http://{address}:{port}"
        socket.create_connection((host, port)).close()


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OutputError) as error, listening(ServeConfig(port=port)):
            pass
    told = f"cannot listen at 127.0.0.1, port {port}: Address already in use"
    assert str(error.value) == told


@posix
def test_a_unix_socket_is_its_owners_and_is_gone_at_the_end(tmp_path: pathlib.Path) -> None:
    """One that a killed server left is replaced; one in use is not."""
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    before = os.umask(0)
    try:
        with listening(ServeConfig(unix=path)) as (_, told):
            assert told == f"unix:{path}"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            with (
                pytest.raises(OutputError, match="Address already in use"),
                listening(ServeConfig(unix=path)),
            ):
                pass
            assert path.exists()
    finally:
        assert os.umask(before) == 0
    assert not path.exists()


@posix
def test_a_file_is_never_replaced(tmp_path: pathlib.Path) -> None:
    """Neither at the beginning nor at the end, if it has taken the socket's place."""
    path = tmp_path / "file"
    path.write_text("mine")
    with pytest.raises(OutputError, match="no socket"), listening(ServeConfig(unix=path)):
        pass
    assert path.read_text() == "mine"
    path.unlink()
    with listening(ServeConfig(unix=path)):
        path.unlink()
        path.write_text("mine")
    assert path.read_text() == "mine"
