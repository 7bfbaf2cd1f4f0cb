"""What goes wrong with a request, as a status and OpenAI's error object."""

from collections.abc import Mapping
from typing import Any, Final

from gpt2cli.errors import DeviceError, Gpt2Error, ModelError, PromptError

_INVALID: Final = "invalid_request_error"
_SERVER: Final = "server_error"
RETRY_SECONDS: Final = 1


class Fault(Exception):  # noqa: N818 - it is what the client did, or what happened to it
    """A request that is not answered as it asks."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        """`param`: the field that is wrong, as the client calls it."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    @property
    def headers(self) -> dict[str, str]:
        """The headers that go with the status."""
        if self.status in (429, 503):
            return {"Retry-After": str(RETRY_SECONDS)}
        return {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}

    @property
    def as_json(self) -> dict[str, Any]:
        """OpenAI's error object."""
        kind = _INVALID if self.status < 500 else _SERVER
        kind = "rate_limit_error" if self.status == 429 else kind
        told = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": told}


def explain(error: Exception, names: Mapping[str, str] | None = None) -> Fault:
    """Return what a request's error is to its client; `names`: what it calls an option.

    An error that is none of ours is told without its words, which may say anything.
    """
    if isinstance(error, Fault):
        return error
    if not isinstance(error, Gpt2Error):
        return Fault(500, f"the server failed ({type(error).__name__}); try again")
    if isinstance(error, ModelError | DeviceError):
        return Fault(500, f"the model failed: {error}")

    def spell(field: str) -> str:
        return (names or {}).get(field, field)

    param = spell(error.option) if error.option else None
    if param is None and isinstance(error, PromptError):
        param = "prompt"
    return Fault(400, error.tell(spell), param=param)
