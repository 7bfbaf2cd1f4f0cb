"""The options that `gpt2 serve` alone has."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpt2cli.config import batch_size_option
from gpt2cli.declarations import option
from gpt2cli.errors import UsageError
from gpt2cli.option_kinds import NAME, Range

_SERVER: Final = "Server"
_REQUESTS: Final = "Requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Where the server listens and whom it answers, and what a request may take.

    Raises:
        UsageError: if others than this machine could use it, and nothing was said about keys.
    """

    host: str = option("127.0.0.1", "Address or name to listen at.", _SERVER, kind=NAME)
    port: int = option(
        8080, "Port to listen at; 0 takes a free one, which stderr names.", _SERVER,
        within=Range(0, 65535),
    )  # fmt: skip
    unix: Path | None = option(
        None, "Listen at a Unix socket, which only you can use, and at no port.", _SERVER
    )
    api_key: tuple[str, ...] = option(
        (), "Answer only those who send this key; repeatable. Other users of this machine can see "
        "it in the list of processes: --api-key-file is safer.", _SERVER, kind=NAME, metavar="KEY",
        secret=True,
    )  # fmt: skip
    api_key_file: Path | None = option(
        None, "Answer only those who send one of the keys in FILE, one per line.", _SERVER
    )
    no_key: bool = option(
        False, "Let everyone who reaches --host use the model. Default: --host takes a key, unless "
        "it is this machine alone.", _SERVER,
    )  # fmt: skip
    cors: tuple[str, ...] = option(
        (), "Let web pages of this origin use the server, such as https://example.org; repeatable.",
        _SERVER, kind=NAME, metavar="ORIGIN",
    )  # fmt: skip
    grace: float = option(
        30.0, "Seconds that running requests have to finish after Ctrl-C or SIGTERM.", _SERVER,
        within=Range(0),
    )  # fmt: skip
    batch_size: int | None = batch_size_option("How many completions run at once.")
    max_waiting: int = option(
        256, "Most requests that wait for their turn; further ones are refused (429).", _REQUESTS,
        within=Range(1),
    )  # fmt: skip
    max_tokens_limit: int = option(
        4096, "Most tokens that a request may ask for in each completion.", _REQUESTS,
        within=Range(1),
    )  # fmt: skip
    timeout: float = option(
        600.0, "Seconds after which a request that runs is cut short.", _REQUESTS,
        within=Range(0), off="0: never",
    )  # fmt: skip

    def __post_init__(self) -> None:
        keyed = bool(self.api_key) or self.api_key_file is not None
        if keyed and self.no_key:
            raise UsageError(option="no_key", expected="no {api_key} together with it")
        if self.unix is None and not is_loopback(self.host) and not keyed and not self.no_key:
            expected = "{api_key_file} FILE, or {no_key}, where others can reach the server"
            raise UsageError(option="host", expected=expected, found=self.host)


def is_loopback(host: str) -> bool:
    """Tell whether an address or name is this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
