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
    """Return the smallest model's folder."""
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


@pytest.mark.parametrize("wanted", [0, 1, 5])
@pytest.mark.parametrize("length", [1, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT])
@pytest.mark.parametrize("overflow", ["stop", "slide", "error"])
def test_every_length_around_the_limit_has_a_defined_result(
    small: pathlib.Path, overflow: str, length: int, wanted: int
) -> None:
    """All that was asked for, as much as fits, or an error that names the numbers."""
    arguments = ["z" * length, "-n", str(wanted), "--overflow", overflow]
    fits = length + wanted <= LIMIT
    if (overflow == "stop" and length > LIMIT) or (overflow == "error" and not fits):
        result = invoke("generate", "-m", small, *arguments)

        line = error_line(result)
        assert result.exit_code == 1
        assert f"{length} tokens" in line
        assert str(LIMIT) in line
        return

    record = run_json(small, *arguments)

    assert record["prompt_tokens"] == length
    cut = overflow == "slide" and wanted and length >= LIMIT  # keeps 16 of 33 tokens
    assert record.get("truncated_prompt_tokens") == (length - 16 if cut else None)
    whole = fits or overflow == "slide"
    expected = (wanted, "length") if whole else (LIMIT - length, "context")
    assert (record["completion_tokens"], record["finish_reason"]) == expected


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
    result = invoke(
        *("generate", "-m", small, "z" * 40, "-n", "1", "--overflow", "slide", "-N", samples)
    )

    assert result.stderr == (
        "gpt2: left out 24 of the prompt's 40 tokens and kept its end: the model takes 33\n"
    )


def test_the_last_of_an_option_given_twice_counts(small: pathlib.Path) -> None:
    """As in every program: an alias can be overridden."""
    record = run_json(small, "a", "-n", "1", "-n", "2", "--seed", "1", "--seed", "2")

    assert (record["completion_tokens"], record["seed"]) == (2, 2)


def test_greedy_is_temperature_zero(small: pathlib.Path) -> None:
    """The same text whatever the seed."""
    greedy = run(small, "a", "-n", "9", "--ignore-eos", "--greedy", "--seed", "1")

    assert greedy == run(small, "a", "-n", "9", "--ignore-eos", "-t", "0", "--seed", "2")
    assert greedy == run(small, "a", "-n", "9", "--ignore-eos", "-k", "1", "--seed", "3")


class TestStops:
    """Claims about --stop, on the greedy story of the starter."""

    @staticmethod
    def tell(model: pathlib.Path, *stops: str) -> str:
        """Return the completion with these stops."""
        options = [word for stop in stops for word in ("--stop", stop)]
        return run(model, "Once upon", "--greedy", "-n", "60", "--no-echo", *options)[:-1]

    @pytest.mark.parametrize(("begin", "length"), [(0, 9), (1, 1), (17, 2), (40, 9)])
    def test_the_completion_ends_before_the_stop(
        self, starter_folder: pathlib.Path, story: str, begin: int, length: int
    ) -> None:
        """No part of it is shown, wherever it stands in its tokens."""
        stop = story[begin : begin + length]

        assert self.tell(starter_folder, stop) == story.partition(stop)[0]

    def test_text_that_only_begins_like_a_stop_is_shown(
        self, starter_folder: pathlib.Path, story: str
    ) -> None:
        """Also where the completion ends in the midst of it."""
        assert self.tell(starter_folder, f"{story[5:15]}~", f"{story[-3:]}~") == story

    def test_the_first_of_several_stops_ends_it(
        self, starter_folder: pathlib.Path, story: str
    ) -> None:
        """Each --stop adds one; the record names the one that it was."""
        early, late = story[10:16], story[30:36]
        result = invoke(
            *("generate", "-m", starter_folder, "Once upon", "--greedy", "-n", "60", "--json"),
            *("--stop", late, "--stop", "~~", "--stop", early),
        )

        record = json.loads(result.stdout)
        assert record["completion"] == story.partition(early)[0]
        assert (record["finish_reason"], record["stop_sequence"]) == ("stop", early)

    def test_a_newline_is_written_as_an_escape(self, starter_folder: pathlib.Path) -> None:
        r"""--stop '\n' ends the completion at its first line."""
        whole = run(starter_folder, "Once upon", "--greedy", "-n", "256", "--no-echo")[:-1]
        assert "\n" in whole

        first = run(starter_folder, "Once upon", "--greedy", "-n", "256", "--no-echo", "-s", r"\n")

        assert first == whole.partition("\n")[0] + "\n"


class TestOutput:
    """Claims about --output."""

    def test_the_file_has_the_result_and_the_umask_of_a_new_file(
        self, small: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        """Nothing else is in the folder then."""
        plain = tmp_path / "plain"
        plain.touch()
        file = tmp_path / "out"

        assert run(small, "a", "-n", "0", "-o", str(file)) == ""

        assert file.read_bytes() == b"a\n"
        assert file.stat().st_mode == plain.stat().st_mode
        assert {path.name for path in tmp_path.iterdir()} == {"plain", "out"}

    def test_a_file_that_cannot_be_written_is_told_before_the_model_is_loaded(
        self, tmp_path: pathlib.Path
    ) -> None:
        """One line; the model that is named here does not exist."""
        result = invoke("generate", "-m", "/missing", "a", "-o", tmp_path / "missing" / "out")

        assert result.exit_code == 1
        told = f"cannot write {tmp_path / 'missing' / 'out'}: No such file or directory"
        assert error_line(result) == told

    def test_a_name_as_long_as_names_can_be_is_fine(
        self, small: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        """The temporary file beside it has a shorter one."""
        file = tmp_path / ("a" * 255)

        run(small, "a", "-n", "0", "-o", str(file))

        assert file.read_bytes() == b"a\n"

    def test_json_goes_there_too(self, small: pathlib.Path, tmp_path: pathlib.Path) -> None:
        """All samples' records."""
        file = tmp_path / "out.jsonl"

        run(small, "a", "-n", "1", "-N", "9", "--json", "-o", str(file))

        records = [json.loads(line) for line in file.read_text().splitlines()]
        assert [record["sample"] for record in records] == list(range(9))

    def test_a_dash_is_stdout(self, small: pathlib.Path) -> None:
        """As it is stdin for --file."""
        assert run(small, "a", "-n", "0", "-o", "-") == "a\n"


class TestSettings:
    """Claims about whose settings are taken: the user's, then the model's own, then built in."""

    @pytest.fixture
    def model(
        self, small: pathlib.Path, tmp_path: pathlib.Path, request: pytest.FixtureRequest
    ) -> pathlib.Path:
        """Return a model folder with this generation_config.json."""
        folder = tmp_path / "model"
        shutil.copytree(small, folder)
        (folder / "generation_config.json").write_text(json.dumps(request.param))
        return folder

    @pytest.mark.parametrize("model", [{"max_new_tokens": 3, "top_k": 1}], indirect=True)
    def test_the_models_own_settings_are_taken_and_told(self, model: pathlib.Path) -> None:
        """`--stats` says which they are."""
        result = invoke("generate", "-m", model, "a", "--ignore-eos", "--json", "--stats")

        assert json.loads(result.stdout)["completion_tokens"] == 3
        assert (
            "from the model's generation_config.json: top_k 1, max_new_tokens 3"
            in result.stderr.splitlines()
        )

    @pytest.mark.parametrize("model", [{"max_new_tokens": 3, "top_k": 1}], indirect=True)
    def test_the_users_settings_come_first(self, model: pathlib.Path) -> None:
        """Then nothing is the model's, and `--stats` says nothing of it."""
        result = invoke(
            *("generate", "-m", model, "a", "--ignore-eos", "--json", "--stats"),
            *("-n", "2", "-k", "0"),
        )

        assert json.loads(result.stdout)["completion_tokens"] == 2
        assert "generation_config" not in result.stderr

    @pytest.mark.parametrize("model", [{"max_new_tokens": -3}, {"top_k": "x"}], indirect=True)
    def test_a_wrong_one_is_an_error_of_the_model(self, model: pathlib.Path) -> None:
        """Exit code 1, not the 2 of the user's own mistakes."""
        result = invoke("generate", "-m", model, "a")

        assert result.exit_code == 1
        assert "generation_config.json: " in error_line(result)

    @pytest.mark.parametrize("model", [{"max_new_tokens": -3}], indirect=True)
    def test_a_wrong_one_does_not_matter_where_the_user_said_it(self, model: pathlib.Path) -> None:
        """So the user can go on without mending the folder."""
        assert run(model, "a", "-n", "0") == "a\n"


class TestReports:
    """Claims about --stats and --quiet."""

    def test_stats_come_on_stderr_also_when_quiet(self, small: pathlib.Path) -> None:
        """Speeds with their conditions, counts and the seed; stdout has the result alone."""
        result = invoke(
            *("generate", "-m", small, "zzz", "-n", "5", "--ignore-eos", "--greedy"),
            *("--seed", "7", "--stats", "--quiet"),
        )

        first, *others = result.stderr.splitlines()
        assert first.startswith(f"model {small}, fp32 on cpu, ")
        assert first.endswith("context 33 tokens")
        assert any(line.startswith("prefill 3 tokens in ") for line in others)
        assert any(line.startswith("decode 4 tokens in ") for line in others)
        assert "seed 7" in others
        assert result.stdout.startswith("zzz")

    def test_no_token_has_no_time(self, small: pathlib.Path) -> None:
        """With `-n 0` neither a first token nor a rate is told."""
        result = invoke("generate", "-m", small, "a", "-n", "0", "--stats")

        assert "first token" not in result.stderr
        assert "decode" not in result.stderr


class TestPrompts:
    """Claims about the prompt on its way into the model."""

    def test_a_special_token_is_text_unless_it_is_allowed(
        self, starter_folder: pathlib.Path
    ) -> None:
        """One token or many; either way the record has the user's words."""
        text = "a<|endoftext|>b"
        plain = run_json(starter_folder, text, "-n", "0")
        special = run_json(starter_folder, text, "-n", "0", "--allow-special")

        assert plain["prompt_tokens"] > 3
        assert special["prompt_tokens"] == 3
        assert plain["prompt"] == special["prompt"] == text

    def test_a_prompt_may_begin_with_a_dash_after_two_dashes(self, small: pathlib.Path) -> None:
        """As in every program."""
        assert run(small, "-n", "0", "--", "--help") == "--help\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/missing/folder", "/missing/folder"),
        ("gpt2-smal", "did you mean"),
        ("[bold]x", "'[bold]x'"),
        ("a\x1b[31m\nb", r"\x1b"),
    ],
)
def test_an_unknown_model_is_an_error_of_one_line(name: str, expected: str) -> None:
    """Whatever its name holds."""
    result = invoke("generate", "-m", name, "--offline", "a")

    assert result.exit_code == 1
    assert expected in error_line(result)
