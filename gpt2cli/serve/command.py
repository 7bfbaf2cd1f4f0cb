"""`gpt2 serve`: its options."""

from importlib.util import find_spec
from typing import Final

from gpt2cli.config import (
    OF_A_PROMPT,
    DraftConfig,
    ModelConfig,
    PresetConfig,
    ReportConfig,
    SampleConfig,
)
from gpt2cli.conversations.config import FormConfig
from gpt2cli.errors import PackageError
from gpt2cli.options import takes
from gpt2cli.serve.config import ServeConfig
from gpt2cli.settings import Settings

_NEEDED: Final = ("starlette", "uvicorn")


@takes(
    ServeConfig,
    FormConfig,
    *(group for group in OF_A_PROMPT if group is not SampleConfig),
    PresetConfig,
    ReportConfig,
    ModelConfig,
    DraftConfig,
    without={"stats"},
    max_new_tokens=16,
)
def serve(*, settings: Settings) -> None:
    """Keep a model loaded, and complete prompts over HTTP as OpenAI's API does.

    What a request does not say is as the options here say. The same seed gives the
    text of gpt2 generate. Ctrl-C lets running requests finish; a second one ends
    at once.

    For example:

    gpt2 serve -m starter --port 8000

    gpt2 serve -m starter --unix gpt2.socket --max-waiting 20
    """
    form = settings.make(ServeConfig)
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    if lacking:
        verb = "is" if len(lacking) == 1 else "are"
        raise PackageError(
            f"serve needs {' and '.join(lacking)}, which {verb} not installed",
            f"pip install {' '.join(lacking)}",
        )
    from gpt2cli.serve.run import run_server  # heavy: not for --help

    run_server(settings, form)
