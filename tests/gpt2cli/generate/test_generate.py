"""Claims about `gpt2 generate`, in this process: limits, stops, files, settings, statistics."""

import json
import pathlib
import shutil
from typing import Any

import pytest

from tests.gpt2cli.runner import error_line, invoke
from tests.model_folders import ModelFolders

TOLD = "gpt2: stopped at the model's limit of 33 tokens; --overflow slide goes on"
LIMIT = 33  # n_positions of the small model; each z is a token


@pytest.fixture(scope="module")
def small(model_folders: ModelFolders) -> pathlib.Path:
    return model_folders()


def run(model: pathlib.Path, *arguments: str) -> str:
    """Return the text of a run that must succeed in silence."""
    result = invoke("generate", "-m", model, "-q", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.fixture(scope="module")
def story(starter_folder: pathlib.Path) -> str:
    """Return a greedy completion of the starter, from which stops are cut."""
    return run(starter_folder, "Once upon", "--greedy", "-n", "60", "--no-echo")[:-1]


def run_json(model: pathlib.Path, *arguments: str) -> dict[str, Any]:
    """Return the one record of a run that must succeed."""
    result = invoke("generate", "-m", model, "--json", "--ignore-eos", *arguments)
    assert result.exit_code == 0
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def test_a_completion_that_time_ended_is_told(small: pathlib.Path) -> None:
    """At least one token is made, however short the time."""
    result = invoke("generate", "-m", small, "z", "--max-time", "0.000001", "--json")
    assert result.stderr == "gpt2: stopped after 1e-06 s\n"
    assert json.loads(result.stdout)["completion_tokens"] == 1


@pytest.mark.parametrize(("prompt", "hints"), [("z ", 1), ("z", 0), ("z\n", 0), ("", 0)])
def test_a_space_at_the_end_of_a_prompt_is_hinted_at(
    small: pathlib.Path, prompt: str, hints: int
) -> None:
    """A word brings its own: the model has seldom seen one after a space."""
    result = invoke("generate", "-m", small, prompt, "-n", "1", "--json")
    told = [line for line in result.stderr.splitlines() if "ends with a space" in line]
    assert len(told) == hints


@pytest.mark.parametrize(
    ("overflow", "length", "made", "reason", "truncated"),
    [
        ("stop", 32, 1, "context", None),
        ("slide", 99, 5, "length", 83),
        ("error", 28, 5, "length", None),
    ],
)
def test_what_the_limit_leaves_of_five_tokens_is_in_the_record(
    small: pathlib.Path, overflow: str, length: int, made: int, reason: str, truncated: int | None
) -> None:
    """A prompt that slides keeps 16 of 33 tokens."""
    record = run_json(small, "z" * length, "-n", "5", "--overflow", overflow)
    assert (record["prompt_tokens"], record["completion_tokens"]) == (length, made)
    assert record["finish_reason"] == reason
    assert record.get("truncated_prompt_tokens") == truncated


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [TOLD]),
        (["-N", "3"], [TOLD]),
        (["-q"], []),
        (["--overflow", "slide", "-n", "40"], []),
        (["-n", "2"], []),
    ],
    ids=["one", "several", "quiet", "slide", "short"],
)
def test_a_completion_that_met_the_models_limit_is_told_in_one_line(
    small: pathlib.Path, options: list[str], expected: list[str]
) -> None:
    """Once for all samples; not where it ended for another reason; not when quiet."""
    result = invoke("generate", "-m", small, "a", "--ignore-eos", *options)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == expected


@pytest.mark.parametrize("samples", ["1", "2"])
def test_what_was_left_out_of_a_prompt_is_told_in_one_line(
    small: pathlib.Path, samples: str
) -> None:
    """Of forty tokens the last half of 33 stay: with both numbers, once for all samples."""
    options = ("-n", "1", "--overflow", "slide", "-N", samples)
    assert invoke("generate", "-m", small, "z" * 40, *options).stderr == (
        "gpt2: left out 24 of the prompt's 40 tokens and kept its end: the model takes 33\n"
    )


def test_the_last_of_an_option_given_twice_counts(small: pathlib.Path) -> None:
    """As in every program: an alias can be overridden."""
    record = run_json(small, "a", "-n", "1", "-n", "2", "--seed", "1", "--seed", "2")
    assert (record["completion_tokens"], record["seed"]) == (2, 2)


def test_greedy_is_temperature_zero(small: pathlib.Path) -> None:
    greedy = run(small, "a", "-n", "9", "--ignore-eos", "--greedy", "--seed", "1")
    assert greedy == run(small, "a", "-n", "9", "--ignore-eos", "-t", "0", "--seed", "2")
    assert greedy == run(small, "a", "-n", "9", "--ignore-eos", "-k", "1", "--seed", "3")


class TestStops:
    """Claims about --stop, on the greedy story of the starter."""

    def test_the_first_of_several_stops_ends_it(
        self, starter_folder: pathlib.Path, story: str
    ) -> None:
        """Each --stop adds one; the record names the one that it was."""
        early, late = story[10:16], story[30:36]
        record = run_json(
            *(starter_folder, "Once upon", "--greedy", "-n", "60"),
            *("--stop", late, "--stop", "~~", "--stop", early),
        )
        assert record["completion"] == story.partition(early)[0]
        assert (record["finish_reason"], record["stop_sequence"]) == ("stop", early)

    def test_a_newline_is_written_as_an_escape(self, starter_folder: pathlib.Path) -> None:
        r"""--stop '\n' ends the completion at its first line."""
        options = ("Once upon", "--greedy", "-n", "256", "--no-echo")
        line, newline, _ = run(starter_folder, *options).removesuffix("\n").partition("\n")
        assert newline
        assert run(starter_folder, *options, "-s", r"\n") == f"{line}\n"


class TestOutput:
    """Claims about --output."""

    def test_the_file_has_the_result_and_the_umask_of_a_new_file(
        self, small: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        """All samples' records, and nothing else is in the folder; names may be long."""
        plain, file = tmp_path / "plain", tmp_path / ("a" * 255)
        plain.touch()
        assert run(small, "a", "-n", "1", "-N", "9", "--json", "-o", str(file)) == ""
        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert [record["sample"] for record in records] == list(range(9))
        assert file.stat().st_mode == plain.stat().st_mode
        assert {path.name for path in tmp_path.iterdir()} == {"plain", file.name}

    def test_a_file_that_cannot_be_written_is_told_before_the_model_is_loaded(
        self, tmp_path: pathlib.Path
    ) -> None:
        """One line; the model that is named here does not exist."""
        file = tmp_path / "missing" / "out"
        result = invoke("generate", "-m", "/missing", "a", "-o", file)
        assert result.exit_code == 1
        assert error_line(result) == f"cannot write {file}: No such file or directory"

    def test_a_dash_is_stdout(self, small: pathlib.Path) -> None:
        assert run(small, "a", "-n", "0", "-o", "-") == "a\n"


class TestSettings:
    """Claims about whose settings are taken: the user's, then the model's own, then built in."""

    @staticmethod
    def make(small: pathlib.Path, folder: pathlib.Path, own: dict[str, Any]) -> pathlib.Path:
        """Return a model folder with this generation_config.json."""
        model = pathlib.Path(shutil.copytree(small, folder / "model"))
        (model / "generation_config.json").write_text(json.dumps(own))
        return model

    @pytest.mark.parametrize(
        ("options", "made", "told"),
        [
            ([], 3, ["from the model's generation_config.json: top_k 1, max_new_tokens 3"]),
            (["-n", "2", "-k", "0"], 2, []),
        ],
    )
    def test_the_users_settings_come_before_the_models_own(
        self,
        small: pathlib.Path,
        tmp_path: pathlib.Path,
        options: list[str],
        made: int,
        told: list[str],
    ) -> None:
        model = self.make(small, tmp_path, {"max_new_tokens": 3, "top_k": 1})
        usual = ("generate", "-m", model, "a", "--ignore-eos", "--json", "--stats")
        result = invoke(*usual, *options)
        assert json.loads(result.stdout)["completion_tokens"] == made
        lines = result.stderr.splitlines()
        assert [line for line in lines if "generation_config" in line] == told

    @pytest.mark.parametrize("own", [{"max_new_tokens": -3}, {"max_new_tokens": "x"}])
    def test_a_wrong_one_is_an_error_of_the_model_unless_the_user_said_it(
        self, small: pathlib.Path, tmp_path: pathlib.Path, own: dict[str, Any]
    ) -> None:
        """Exit code 1, not the 2 of the user's own mistakes; nobody has to mend the folder."""
        model = self.make(small, tmp_path, own)
        result = invoke("generate", "-m", model, "a")
        assert result.exit_code == 1
        assert "generation_config.json: " in error_line(result)
        assert run(model, "a", "-n", "0") == "a\n"


def test_stats_come_on_stderr_also_when_quiet(small: pathlib.Path) -> None:
    """Speeds with their conditions, counts and the seed; stdout has the result alone."""
    options = ("--ignore-eos", "--greedy", "--seed", "7", "--stats", "--quiet")
    result = invoke("generate", "-m", small, "zzz", "-n", "5", *options)
    first, *others = result.stderr.splitlines()
    assert first.startswith(f"model {small}, fp32 on cpu, ")
    assert first.endswith("context 33 tokens")
    assert any(line.startswith("prefill 3 tokens in ") for line in others)
    assert any(line.startswith("decode 4 tokens in ") for line in others)
    assert "seed 7" in others
    assert result.stdout.startswith("zzz")


def test_a_special_token_is_text_unless_it_is_allowed(starter_folder: pathlib.Path) -> None:
    """One token or many; either way the record has the user's words."""
    text = "a<|endoftext|>b"
    plain = run_json(starter_folder, text, "-n", "0")
    special = run_json(starter_folder, text, "-n", "0", "--allow-special")
    assert special["prompt_tokens"] == 3 < plain["prompt_tokens"]
    assert plain["prompt"] == special["prompt"] == text


def test_a_prompt_may_begin_with_a_dash_after_two_dashes(small: pathlib.Path) -> None:
    assert run(small, "-n", "0", "--", "--help") == "--help\n"


@pytest.mark.parametrize(
    ("name", "expected"), [("[bold]x", "'[bold]x'"), ("a\x1b[31m\nb", r"\x1b")]
)
def test_an_unknown_model_is_an_error_of_one_line(name: str, expected: str) -> None:
    result = invoke("generate", "-m", name, "--offline", "a")
    assert result.exit_code == 1
    assert expected in error_line(result)
