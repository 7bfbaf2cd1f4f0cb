"""`gpt2 chat` in pipes: scripts, other programs that talk with it, and what may cut it short."""

import json
import pathlib

from gpt2cli.conversations.conversation import read_conversation
from tests.e2e.program import Finished, Program, finish, press_ctrl_c, read_until, send

_CHAT = ("chat", "-m", "starter", "--seed", "5", "-n", "8")
_ENDLESS = ("-n", "1000000", "--ignore-eos", "--overflow", "slide")


def test_without_any_input_it_ends_at_once(fresh_program: Program) -> None:
    """No model is looked for, none is exported (llama.cpp PR 22874)."""
    assert fresh_program.run("chat", "--json") == Finished(0, b"", "")


def test_a_message_is_answered_before_the_next_is_sent(program: Program) -> None:
    """Another program may talk with it; at its end of the pipe it ends."""
    with program.start(*_CHAT, "--json", stdin=b"") as process:
        for index in range(3):
            send(process, b"Hello\n")
            record = json.loads(read_until(process.stdout, b"\n"))
            assert record["index"] == index
        assert finish(process) == Finished(0, b"", "")


def test_ctrl_c_ends_a_script_with_what_was_made(program: Program) -> None:
    """130; the line is finished, nothing more is said."""
    with program.start(*_CHAT, *_ENDLESS, stdin=b"") as process:
        send(process, b"Hello\n" * 50)
        begun = read_until(process.stdout, b" ")
        press_ctrl_c(process)
        done = finish(process)
    assert (done.code, done.err) == (130, "")
    assert (begun + done.out).endswith(b"\n")


def test_a_session_survives_its_process(program: Program, tmp_path: pathlib.Path) -> None:
    """Killed in its third turn it has two; the next process goes on with the third."""
    path = tmp_path / "session.json"
    with program.start(*_CHAT, "--session", str(path), stdin=b"") as process:
        endless = b"/set ignore-eos on\n/set overflow slide\n/set max-new-tokens 1000000\n"
        send(process, b"One\nTwo\n" + endless + b"Three\n")
        read_until(process.stderr, b"max-new-tokens 1000000\n")
        process.kill()
    assert [turn.message for turn in read_conversation(path).turns] == ["One", "Two"]
    done = program.run(*_CHAT, "--session", str(path), "--json", stdin=b"Three\n")
    record = json.loads(done.out)
    assert (record["index"], record["seed"]) == (2, 7)
    assert len(read_conversation(path).turns) == 3


def test_a_process_for_each_turn_gives_the_text_of_one_process(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """By real processes."""
    turns = [b"Hi\n", b"Who are you?\n"]
    path = str(tmp_path / "session.json")
    parts = [program.run(*_CHAT, "--session", path, stdin=turn).out for turn in turns]
    assert b"".join(parts) == program.run(*_CHAT, stdin=b"".join(turns)).out


def test_a_full_disk_loses_the_session_and_not_the_chat(
    program: Program, tmp_path: pathlib.Path
) -> None:
    """Each turn that could not be kept is told; what was kept stays whole."""
    path, script = tmp_path / "session.json", tmp_path / "script"
    script.write_text("Hello, who are you?\n" * 9)
    options = " ".join((*_CHAT, "-q", "--session", str(path)))
    done = program.run_shell(f'ulimit -f 1; "$GPT2" {options} < {script} | cat; exit 0')
    assert 0 < len(read_conversation(path).turns) < 9
    assert f"cannot write {path}: File too large" in done.err
    assert len(done.out.splitlines()) >= 9
