"""Claims about --verbose and --log-file."""

import json
import pathlib
import re

import pytest

from gpt2cli.config import OF_A_PROMPT, SETTABLE, ReportConfig
from gpt2cli.declarations import options_of
from gpt2cli.serve.config import ServeConfig
from gpt2cli.setting_sources import find_settings
from gpt2cli.terminal.logs import log_opened
from gpt2cli.terminal.notes import Notes
from tests.gpt2cli.runner import error_line, invoke
from tests.gpt2cli.test_options import Keep
from tests.model_folders import ModelFolders

_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 \d+ "


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


def test_verbose_tells_what_ran_and_no_text(
    small: pathlib.Path, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options with their source, the folder, the graph, speeds; stdout is as ever."""
    path = keep("quiet = true\nseed = 3\n")
    monkeypatch.setenv("GPT2_TOP_K", "5")
    options = ("generate", "-m", small, "zebra", "-n", "9", "--stop", "quagga", "--no-echo")
    plain, told = invoke(*options), invoke(*options, "-v")
    assert (told.stdout, plain.stderr) == (plain.stdout, "")
    lines = told.stderr.splitlines()
    assert all(re.match(r"gpt2: \[\d+\.\d{3} s\] ", line) for line in lines)
    for expected in (
        ": generate",
        f"seed 3 ({path}: seed)",
        "top_k 5 (GPT2_TOP_K)",
        "max_new_tokens 9 (command line), stop 1 not shown (command line)",
        f"in {small}, found in",
        "graph model_cpu.onnx on cpu (CPUExecutionProvider), onnxruntime",
        "prefill ",
        "seed 3",
        ": done",
    ):
        assert expected in told.stderr
    assert "zebra" not in told.stderr and "quagga" not in told.stderr
    assert plain.stdout.strip() not in told.stderr


def test_a_log_file_gets_the_lines_of_each_run_with_their_time(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Notes and errors too, also those that --quiet keeps from stderr."""
    log = tmp_path / "log"
    options = ("-q", "--log-file", log)
    assert invoke("generate", "-m", small, "z", "--ignore-eos", *options).exit_code == 0
    failed = invoke("score", "-m", tmp_path / "missing", "z", *options)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert all(re.match(_STAMP, line) for line in lines)
    told = [re.sub(_STAMP, "", line) for line in lines]
    assert "stopped at the model's limit of 33 tokens; --overflow slide goes on" in told
    assert f"error: {error_line(failed)}" in told
    assert [line.rpartition(": ")[2] for line in told if "ended after" in line] == [
        "done",
        "failed",
    ]


def test_what_stats_shows_is_not_told_twice(small: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """But the file has it."""
    log = tmp_path / "log"
    options = ("-n", "2", "-v", "--stats", "--log-file", log)
    result = invoke("generate", "-m", small, "z", *options)
    assert (result.stderr.count("prefill 1 tok"), log.read_text().count("prefill 1 tok")) == (1, 1)


def test_no_key_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    options = [*options_of(ServeConfig), *options_of(ReportConfig)]
    settings = find_settings(options, {"api_key": ("hush", "hushed"), "verbose": True}, own=False)
    with log_opened(settings, "serve"):
        Notes().note("ready")
    told = capsys.readouterr().err
    assert "api_key 2 not shown (command line)" in told and "hush" not in told
    assert told.count("ready") == 1


def test_an_option_whose_name_says_key_is_secret() -> None:
    """Unless it names a file, or is a switch."""
    groups = {*SETTABLE, *OF_A_PROMPT, ServeConfig}
    options = [option for group in groups for option in options_of(group)]
    keys = [o.field for o in options if re.search("key|password|secret", o.field)]
    secret = [o.field for o in options if o.secret]
    assert set(keys) - {"api_key_file", "no_key"} == set(secret) == {"api_key"}


def test_a_log_that_cannot_be_written_is_an_error(
    small: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Before anything is made; nor may it be the result's own file."""
    missing = tmp_path / "no" / "log"
    result = invoke("generate", "-m", small, "z", "--log-file", missing)
    assert result.exit_code == 1
    assert error_line(result) == f"--log-file: cannot write {missing}: No such file or directory"
    same = tmp_path / "out"
    result = invoke("generate", "-m", small, "z", "--log-file", same, "-o", same)
    assert (result.exit_code, same.exists()) == (2, False)
    assert error_line(result) == "--log-file: expected another file than --output"


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="it stands for a full disk")
def test_a_log_on_a_full_disk_is_told_once_and_costs_nothing_else(small: pathlib.Path) -> None:
    result = invoke("generate", "-m", small, "z", "-n", "2", "--json", "--log-file", "/dev/full")
    assert json.loads(result.stdout)["completion_tokens"] == 2
    assert result.stderr == "gpt2: cannot write /dev/full any more\n"


def test_verbose_and_quiet_contradict(small: pathlib.Path) -> None:
    """Side by side; else the nearer one counts."""
    result = invoke("generate", "-m", small, "z", "-v", "-q")
    assert error_line(result) == "--verbose: expected no --quiet together with it"


def test_the_log_ends_with_its_command(small: pathlib.Path) -> None:
    """The next one in the same process tells nothing."""
    invoke("generate", "-m", small, "z", "-n", "1", "-v")
    assert invoke("generate", "-m", small, "z", "-n", "1").stderr == ""
