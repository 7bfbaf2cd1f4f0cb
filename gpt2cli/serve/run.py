"""Runs the server: listens, loads the model, and works until a signal ends it."""

import math
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final

from gpt2cli.config import BeamConfig, DraftConfig, ModelConfig, ReportConfig
from gpt2cli.conversations.config import FormConfig
from gpt2cli.conversations.replies import open_chat
from gpt2cli.draft_loading import load_with_draft
from gpt2cli.openai.asking import find_names
from gpt2cli.prompt_options import look_up_texts
from gpt2cli.serve.config import ServeConfig
from gpt2cli.serve.endpoints import Endpoints
from gpt2cli.serve.guard import Guard, read_keys
from gpt2cli.serve.listening import Speaker, listening
from gpt2cli.serve.runner import Runner
from gpt2cli.serve.service import Service
from gpt2cli.serve.web import make_app
from gpt2cli.settings import Given, Settings
from gpt2cli.terminal.interrupt import ENDINGS, signals_taken
from gpt2cli.terminal.notes import Notes

_PREPARING: Final = 4  # threads, so that a constraint that takes long to compile delays few


def run_server(settings: Settings, form: ServeConfig) -> None:
    """Serve until Ctrl-C or SIGTERM; this thread is the engine's, another one speaks HTTP.

    Raises:
        Gpt2Error: whatever is wrong with the options, the model or the address.
        KeyboardInterrupt: at a second Ctrl-C.
    """
    guard = Guard(form, read_keys(form))
    with ExitStack() as stack:
        notes = stack.enter_context(Notes(quiet=settings.make(ReportConfig).quiet))
        listener, address = stack.enter_context(listening(form))
        executor = ThreadPoolExecutor(_PREPARING, thread_name_prefix="prepare")
        stack.callback(executor.shutdown, wait=False, cancel_futures=True)
        endpoints = Endpoints(executor)
        speaker = Speaker(listener, lambda: make_app(endpoints, guard, notes.note), notes.note)
        stack.enter_context(speaker)
        service = open_service(settings, form, notes, speaker)
        endpoints.service = service
        stored, device = service.model.stored, service.model.engine.device
        notes.pause()
        with _ended_by_signals(service.runner, form.grace, notes):  # as soon as it says it is ready
            name = f"{stored.name} ({stored.folder.precision} on {device})"
            notes.note(f"serving {name} at {address}")
            service.runner.run()


def open_service(settings: Settings, form: ServeConfig, notes: Notes, speaker: Speaker) -> Service:
    """Load the model, and find what is wrong with the options before any request comes."""
    asked, beams = settings.make(ModelConfig), settings.make(BeamConfig).beams
    model = load_with_draft(
        asked,
        settings.make(DraftConfig),
        max_slots=form.batch_size,
        min_slots=beams,
        listener=notes,
    )
    settings = settings.with_model(model.stored.folder.generation_config)
    if settings.values["max_new_tokens"] > form.max_tokens_limit:
        settings = settings.over({"max_new_tokens": Given(form.max_tokens_limit)})
    look_up_texts(settings, model.tokenizer, model.engine.shape)
    runner = Runner(
        model.engine,
        model.tokenizer,
        model.sampler,
        call_soon=speaker.call_soon,
        drafting=model.drafting,
        max_waiting=form.max_waiting,
        timeout=form.timeout or math.inf,
        tell=notes.note,
    )
    names = find_names(asked.model, model.stored.name)
    chat = open_chat(settings.make(FormConfig), model.stored.folder, notes.note)
    service = Service(model, settings, form, runner, chat, names, asked)
    # So that what is wrong with it is told now.
    chat.write(chat.opening, model.tokenizer, allow_special=False)
    return service


@contextmanager
def _ended_by_signals(runner: Runner, grace: float, notes: Notes) -> Iterator[None]:
    came: list[int] = []

    def take(number: int) -> None:
        if came and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not came:
            runner.end(grace)
            if runner.running:
                notes.note(f"finishing what runs, in {grace:g} s; Ctrl-C again ends at once")
        came.append(number)

    with signals_taken(take, (signal.SIGINT, *ENDINGS)):
        yield
