"""Claims about `gpt2 chat` as scripts use it, in this process and with real models."""

import json
import pathlib
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from typer.testing import Result

from export.convert import convert
from gpt2cli.conversations import own_template, replies
from gpt2cli.conversations.conversation import read_conversation
from tests.checkpoints import CheckpointShape, write_checkpoint
from tests.gpt2cli.runner import error_line, invoke, stdin_of
from tests.model_folders import ModelFolders
from tests.vectors.chat_cases import CASES, write_chat_case
from tests.vectors.chat_cases import OWN_SIZE as CHAT_OWN_SIZE
from tests.vectors.chat_cases import VOCAB_SIZE as CHAT_VOCAB_SIZE

_STDIN: Final = 0
SCRIPT: Final = "Hello, who are you?\nWhat do you like?\nGood night!\n"

Chat = Callable[..., Result]


@pytest.fixture
def chat(starter_folder: pathlib.Path) -> Chat:
    """Return the function that runs a script of short replies by the starter."""

    def run(script: str | bytes, *options: str | pathlib.Path, model: object = None) -> Result:
        data = script.encode() if isinstance(script, str) else script
        given = [str(option) for option in options]
        with stdin_of(data):
            return invoke("chat", "-m", str(model or starter_folder), "-n", "8", *given)

    return run


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_without_any_message_no_model_is_needed(chat: Chat, tmp_path: pathlib.Path) -> None:
    """It ends at once, and writes nothing; not even the session's file."""
    session = tmp_path / "session.json"
    result = chat("", "--session", session, model="/no/such")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert not session.exists()


def test_the_same_script_and_seed_give_the_same_replies(chat: Chat) -> None:
    """Without a seed each run is another; the records tell the seeds."""
    first, again = (records(chat(SCRIPT, "--json", "--seed", "5")) for _ in range(2))
    assert first == again
    assert [record["seed"] for record in first] == [5, 6, 7]
    other = records(chat(SCRIPT, "--json"))
    assert [r["completion"] for r in other] != [r["completion"] for r in first]
    assert len({record["seed"] for record in other}) == 3


def test_the_seed_that_was_told_gives_a_reply_back(chat: Chat) -> None:
    """Set before /regen, though the turn has a number and another seed was tried meanwhile."""
    script = f"{SCRIPT}/set seed 77\n/regen\n/set seed 7\n/regen\n"
    *_, told, other, again = records(chat(script, "--seed", "5", "--json"))
    assert [told["seed"], other["seed"], again["seed"]] == [7, 77, 7]
    assert again == told
    assert other["completion"] != told["completion"]


def test_text_and_records_say_the_same(chat: Chat) -> None:
    """One record a turn, with the fields of `generate --json` and what the model saw."""
    text = chat(SCRIPT, "--seed", "5")
    made = records(chat(SCRIPT, "--seed", "5", "--json"))
    assert (text.exit_code, text.stderr) == (0, "")
    assert text.stdout == "".join(f"{record['completion']}\n" for record in made)
    assert [record["prompt"] for record in made] == SCRIPT.splitlines()
    assert [record["index"] for record in made] == [0, 1, 2]
    generated = invoke("generate", "-m", made[0]["model"], "-n", "1", "--json", "x")
    assert made[0].keys() - json.loads(generated.stdout).keys() == {"context"}


def test_what_comes_to_nothing_makes_the_exit_code_1_and_the_rest_goes_on(chat: Chat) -> None:
    """A command that is none, no UTF-8, a message that is too long, quotes that are not closed."""
    long = "word " * 600
    script = f"/nosuch\nHello\n{long}\n".encode() + b'caf\xe9\nBye\r\n"""\nA\nB'
    result = chat(script, "--json")
    assert result.exit_code == 1
    assert [record["prompt"] for record in records(result)] == ["Hello", "Bye", "A\nB"]
    places = [line.split(": ")[2] for line in result.stderr.splitlines()]
    assert places == ["line 1", "line 3", "line 4"]
    assert "there is no command /nosuch" in result.stderr
    assert "tokens, the model takes 512" in result.stderr


def test_the_model_sees_the_system_text_and_the_names(chat: Chat) -> None:
    r"""\n is understood in them as in other options."""
    result = chat(
        "/context\nHi\n/context\n",
        *("--system", r"A wood.\nNight.", "--user-name", "Ann", "--bot-name", "Fox"),
    )
    assert result.stderr.startswith("A wood.\nNight.\n\n")
    assert "Night.\n\nAnn: Hi\nFox:" in result.stderr


@pytest.mark.parametrize("template", ["auto", "dialogpt", "transcript"])
def test_the_model_chooses_the_template_unless_the_user_does(
    chat: Chat, model_folders: ModelFolders, template: str
) -> None:
    """A checkpoint whose config.json is DialoGPT's."""
    params = {"task_specific_params": {"conversational": {"max_length": 1000}}}
    model = model_folders(config=params)
    result = chat("a\n/context\n/show\n", "--template", template, "-n", "0", model=model)
    seen = "User: a\nBot:\n" if template == "transcript" else "a<|endoftext|><|endoftext|>\n"
    assert seen in result.stderr


# The model's own chat template

CHATML_SEEN: Final = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def chatml_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a model whose makers write conversations as ChatML."""
    folder = tmp_path_factory.mktemp("chatml")
    shape = CheckpointShape(2, 2, 32, 128, CHAT_VOCAB_SIZE, seed=5)
    write_checkpoint(folder / "source", shape)
    write_chat_case(folder / "source", replace(CASES["chatml"], config={}))
    convert(folder / "source", folder / "model")
    return folder / "model"


def test_the_models_own_template_is_used(chat: Chat, chatml_folder: pathlib.Path) -> None:
    """The model sees it, a reply ends with its token, and the record can be replayed."""
    result = chat("a\n/context\n/show\n", "--json", model=chatml_folder)
    [record] = records(result)
    assert CHATML_SEEN in result.stderr
    assert re.search(r"^template +model$", result.stderr, re.MULTILINE)
    assert record["options"]["stop_token"] == [CHAT_OWN_SIZE + 1]  # <|im_end|>
    with stdin_of(result.stdout.encode()):
        assert invoke("replay", "-m", str(chatml_folder), "-").exit_code == 0


def test_a_session_keeps_the_form(
    chat: Chat, chatml_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Unless the user wants another one; the model must have it."""
    session = ("--session", tmp_path / "session.json")
    chat("a\n", *session, "--template", "transcript", model=chatml_folder)
    result = chat("/context\n", *session, model=chatml_folder)
    assert result.stderr.startswith("User: a\nBot:")
    result = chat("/context\n", *session, "--template", "model", model=chatml_folder)
    assert CHATML_SEEN in result.stderr
    assert read_conversation(session[1]).template == "model"
    result = chat("b\n", *session)
    assert result.exit_code == 2
    told = "--template: expected transcript or dialogpt, found a model without a chat template"
    assert error_line(result) == told


def test_without_jinja_the_template_is_not_used(
    chat: Chat, chatml_folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says so; who asks for it gets an error."""
    monkeypatch.setattr(own_template, "find_lack", lambda: "jinja2, which is not installed")
    monkeypatch.setattr(replies, "find_lack", own_template.find_lack)
    result = chat("/context\n/show\n", model=chatml_folder)
    told = "gpt2: the model's chat template is not used: that needs jinja2, which is not installed"
    assert result.stderr.startswith(f"{told} (pip install 'jinja2>=3.1.6')\n")
    assert "transcript" in result.stderr
    result = chat("a\n", "--template", "model", model=chatml_folder)
    assert result.exit_code == 1
    assert error_line(result).startswith("the model's chat template needs jinja2")


@pytest.mark.parametrize(
    "options",
    [["--top-p", "2"], ["--template", "x"], ["--bot-name", "User"], ["--user-name", r"a\nb"]],
)
def test_a_wrong_option_is_told_before_anything_is_read(chat: Chat, options: list[str]) -> None:
    """As a usage error, though nothing would be said."""
    result = chat("", *options, model="/no/such")
    assert result.exit_code == 2
    assert options[0] in error_line(result) or "--bot-name" in error_line(result)


def test_an_option_that_means_nothing_to_the_model_is_told_at_the_beginning(chat: Chat) -> None:
    result = chat("Hi\n", "--logit-bias", "no such token=1")
    assert result.exit_code == 2
    assert error_line(result).startswith("--logit-bias: expected an id or a text of one token")


# Sessions


def test_a_session_is_taken_up_again(chat: Chat, tmp_path: pathlib.Path) -> None:
    """With its turns, names and system text; the turns go on counting."""
    path = tmp_path / "session.json"
    chat(SCRIPT, "--session", path, "--seed", "5", "--system", "A wood.", "--bot-name", "Fox")
    [record] = records(chat("And you?\n", "--session", path, "--seed", "5", "--json"))
    assert (record["index"], record["seed"]) == (3, 8)
    conversation = read_conversation(path)
    assert (conversation.system, conversation.bot_name) == ("A wood.", "Fox")
    assert [turn.message for turn in conversation.turns] == [*SCRIPT.splitlines(), "And you?"]
    assert [turn.seed for turn in conversation.turns] == [5, 6, 7, 8]


@pytest.mark.parametrize("how", ["session", "load"])
def test_a_file_without_the_models_tokens_says_once_that_replies_may_differ(
    chat: Chat, tmp_path: pathlib.Path, how: str
) -> None:
    """Of an older version, or with a reply that was changed by hand; then they are known."""
    path, told = tmp_path / "session.json", "may differ from those of an unbroken chat"
    chat("Hi\nHo\n", "--session", path)
    kept = json.loads(path.read_bytes())
    for name, value in (("ids", []), ("reply", "else")):
        kept["turns"] = [turn | {name: value} for turn in kept["turns"]]
        path.write_text(json.dumps(kept | {"gpt2_chat": 1}), encoding="utf-8")
        script = "a\n" if how == "session" else f"/load {path}\n/save {path}\n"
        options = ["--session", path] if how == "session" else []
        assert [chat(script, *options).stderr.count(told) for _ in range(2)] == [1, 0]


def test_what_is_given_counts_for_a_session_too(chat: Chat, tmp_path: pathlib.Path) -> None:
    """Other names, and no system text; the turns stay."""
    path = tmp_path / "session.json"
    chat("Hi\n", "--session", path, "--system", "A wood.", "--bot-name", "Fox")
    chat("Ho\n", "--session", path, "--system", "", "--bot-name", "Owl")
    conversation = read_conversation(path)
    assert (conversation.system, conversation.bot_name) == ("", "Owl")
    assert len(conversation.turns) == 2


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plain", "is not a saved conversation"),
        ("missing/x", "cannot write"),
        (".", "is a directory, expected a file"),
        ("newer", "version 3, known are 1 and 2"),
    ],
)
def test_a_session_that_cannot_be_kept_is_told_before_anything_is_said(
    chat: Chat, tmp_path: pathlib.Path, name: str, reason: str
) -> None:
    """Exit code 1; what stood there stays, also where the script would load another such file."""
    (tmp_path / "plain").write_text("precious")
    (tmp_path / "newer").write_text('{"gpt2_chat": 3}')
    script = f"/load {tmp_path / 'newer'}\nHi\n/load {tmp_path / 'plain'}\n"
    result = chat(script, "--session", tmp_path / name)
    assert result.exit_code == 1
    assert reason in error_line(result)
    assert {path.name for path in tmp_path.iterdir()} == {"plain", "newer"}
    assert (tmp_path / "plain").read_text() == "precious"


def test_a_new_session_is_there_before_its_first_reply(chat: Chat, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "session.json"
    assert chat("/nosuch\n", "--session", path).exit_code == 1
    assert read_conversation(path).turns == ()
