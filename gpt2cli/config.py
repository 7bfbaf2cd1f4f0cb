"""THE TABLE: every option that several commands share, declared once, in groups.

A group is a frozen dataclass that is checked when it is built. What a command alone has is declared
with the command, in the same way. `gpt2cli.declarations` says what a declaration holds.

To add a sampling option: declare it in `SamplingConfig`, and compute it in `gpt2cli.sampling`.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from gpt2cli.declarations import check_ranges, option, setting
from gpt2cli.option_kinds import (
    BIAS,
    DEVICE,
    FILE,
    NAME,
    PATTERN,
    SCHEMA,
    SERVER,
    TEXT,
    Range,
    one_of,
)
from gpt2cli.option_rules import check_together, given_constraints

# The panels of --help.
MODEL, SAMPLING, LIMITS, REPORT = "Model", "Sampling", "Limits", "Input and output"
REPORTING: Final = "Reporting"
SCORING: Final = "Scoring"

# A temperature below this is greedy: dividing by it leaves one token anyway (as in vLLM).
GREEDY_BELOW: Final = 1e-5
LARGEST_SEED: Final = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
MOST_SLOTS: Final = 256  # rows that run side by side
AUTO: Final = "auto"
PRECISIONS: Final = ("fp32", "fp16", "int8", "int4")

_ANY: Final = Range(0)  # 0 or more
_SHARE: Final = Range(0, 1)


class Group:
    """A group of options, which is checked when it is built.

    Raises:
        UsageError: naming the option, its range and the value found, or two that contradict.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        check_ranges(self)
        check_together(values_of(self))


class Overflow(StrEnum):
    """What happens when prompt and completion would have more than `n_positions` tokens."""

    STOP = "stop"  # the completion ends there
    SLIDE = "slide"  # the last half is kept and prefilled again; a long prompt loses its beginning
    ERROR = "error"  # refused before anything is generated


def adapter_option(panel: str, *, settable: bool = False) -> Any:
    """Declare --adapter, in a command's own panel."""
    return option(
        (), "Adapter made by peft to merge into the model: its folder or hub id; repeatable.",
        panel, kind=NAME, metavar="FOLDER_OR_ID", settable=settable,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig(Group):
    """Which model runs, and on what."""

    model: str | None = setting(
        None, "Model to run: gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, starter, a hub id "
        "(owner/name), or a folder.", MODEL,
        kind=NAME, short="-m", usual="gpt2, or the starter if gpt2 cannot be had",
    )  # fmt: skip
    revision: str | None = setting(
        None, "Branch, tag or commit of a hub model.", MODEL, kind=NAME, metavar="REV", usual="main"
    )
    step: int | None = setting(
        None, "Step of training, where a folder has several TensorFlow checkpoints.", MODEL,
        within=_ANY, usual="the newest",
    )  # fmt: skip
    adapter: tuple[str, ...] = adapter_option(MODEL, settable=True)
    precision: str = setting(
        AUTO, "Precision of the weights; fp16 is for CUDA.", MODEL,
        kind=one_of((AUTO, *PRECISIONS)), usual="auto: fp32 on the CPU, fp16 on CUDA",
    )  # fmt: skip
    device: str = setting(
        AUTO, "Where the model runs.", MODEL,
        kind=DEVICE, usual="auto: CUDA where it works, else the CPU",
    )  # fmt: skip
    threads: int | None = setting(
        None, "CPU threads.", MODEL, within=Range(1, 1024), usual="all cores"
    )
    offline: bool = setting(False, "Never use the network.", MODEL, off="only if needed")

    @property
    def names(self) -> dict[str, Any]:
        """What names the model, for JSON: words, whatever they mean now."""
        named = {"model": self.model, "revision": self.revision, "step": self.step}
        return {**named, "adapter": list(self.adapter)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftConfig(Group):
    """What proposes tokens, so that the model can check several at once."""

    draft: str = setting(
        "off", "On the CPU: let a draft propose tokens, which the model checks several at a time. "
        "The text stays the same, and comes sooner where the draft is often right. int8: the same "
        "model in int8; lookup: what followed the last words before; else a smaller model with the "
        "same vocabulary, by name or folder.", MODEL,
        kind=NAME, metavar="off|int8|lookup|NAME", off="off",
    )  # fmt: skip
    draft_tokens: int | None = setting(
        None, "Tokens that a draft proposes at once.", MODEL,
        within=Range(1, 7), usual="as many as pay, by measure",
    )  # fmt: skip

    @property
    def on(self) -> bool:
        """Whether there is a draft."""
        return self.draft != "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig(Group):
    """How the next token is chosen. Names and definitions are Hugging Face's, with exceptions.

    `presence_penalty` and `frequency_penalty` are as in vLLM; `top_n_sigma`, `xtc_…`, `dry_…`
    and `repeat_last_n` as in llama.cpp.
    """

    temperature: float = setting(
        1.0, "Flattens (above 1) or sharpens (below 1) the distribution.", SAMPLING,
        short="-t", within=_ANY, off="0: greedy", hugging_face="temperature",
    )  # fmt: skip
    top_k: int = setting(
        40, "Draw from the k most likely tokens only.", SAMPLING,
        short="-k", within=_ANY, off="0: off", hugging_face="top_k",
    )  # fmt: skip
    top_p: float = setting(
        1.0, "Draw from the fewest tokens whose probabilities reach p.", SAMPLING,
        short="-p", within=_SHARE, off="1: off", hugging_face="top_p",
    )  # fmt: skip
    min_p: float = setting(
        0.0, "Drop tokens less likely than p times the most likely one.", SAMPLING,
        within=_SHARE, off="0: off", hugging_face="min_p",
    )  # fmt: skip
    typical_p: float = setting(
        1.0, "Draw from the most typical tokens whose probabilities reach p: neither too likely "
        "nor too surprising.", SAMPLING,
        within=Range(0, 1, above=True), off="1: off", hugging_face="typical_p",
    )  # fmt: skip
    top_n_sigma: float = setting(
        0.0, "Draw from the tokens whose logits are within N standard deviations of the best.",
        SAMPLING, within=_ANY, off="0: off",
    )  # fmt: skip
    xtc_probability: float = setting(
        0.0, "Exclude top choices (XTC): with this probability, of the tokens that reach "
        "--xtc-threshold only the least likely stays.", SAMPLING, within=_SHARE, off="0: off",
    )  # fmt: skip
    xtc_threshold: float = setting(
        0.1, "Probability from which on a token is a top choice of XTC.", SAMPLING,
        within=Range(0, 0.5),
    )  # fmt: skip
    repetition_penalty: float = setting(
        1.0, "Make tokens that prompt or completion already have less likely.", SAMPLING,
        within=Range(0, above=True), off="1: off", hugging_face="repetition_penalty",
    )  # fmt: skip
    presence_penalty: float = setting(
        0.0, "Subtract this from the logits of tokens that the completion already has.", SAMPLING,
        within=Range(-2, 2), off="0: off",
    )  # fmt: skip
    frequency_penalty: float = setting(
        0.0, "Subtract this from a token's logit for each time that the completion has it.",
        SAMPLING, within=Range(-2, 2), off="0: off",
    )  # fmt: skip
    dry_multiplier: float = setting(
        0.0, "Against loops (DRY): subtract from the logit of a token that would go on with a "
        "repetition this times --dry-base to the power of its length above --dry-allowed-length.",
        SAMPLING, within=_ANY, off="0: off",
    )  # fmt: skip
    dry_base: float = setting(
        1.75, "How fast DRY grows with the length of a repetition.", SAMPLING, within=Range(1)
    )
    dry_allowed_length: int = setting(
        2, "Tokens that may be repeated before DRY begins.", SAMPLING, within=Range(1)
    )
    dry_sequence_breaker: tuple[str, ...] = setting(
        ("\n", ":", '"', "*"), "Text that no repetition reaches across for DRY, in place of the "
        r"default ones; repeatable; \n and \t are understood.", SAMPLING, kind=TEXT,
        usual="newline or colon or quote or asterisk",
    )  # fmt: skip
    repeat_last_n: int = setting(
        -1, "How many of the last tokens the three penalties and DRY look at.", SAMPLING,
        within=Range(-1), off="-1: all",
    )  # fmt: skip
    no_repeat_ngram: int = setting(
        0, "Never repeat a sequence of N tokens of prompt or completion.", SAMPLING,
        within=_ANY, off="0: off", hugging_face="no_repeat_ngram_size",
    )  # fmt: skip
    # Pairs of an id, or a text that is one token, and its bias. The range is OpenAI's: 100 all but
    # forces a token.
    logit_bias: tuple[tuple[str, float], ...] = setting(
        (), "Add X to the logit of a token: its id, or a text that is just that token; repeatable; "
        r"\n and \t are understood.", SAMPLING, kind=BIAS, within=Range(-100, 100),
    )  # fmt: skip
    ban: tuple[str, ...] = setting(
        (), "Never write this text, however it is split into tokens; repeatable; "
        r"\n and \t are understood.", SAMPLING, kind=TEXT,
    )  # fmt: skip
    greedy: bool = setting(False, "Always take the most likely token (-t 0).", SAMPLING)

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn at random; if not, the most likely one is taken."""
        return not self.greedy and self.temperature >= GREEDY_BELOW


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedConfig(Group):
    """Which random numbers are drawn."""

    seed: int | None = setting(
        None, "Seed of the random numbers.", SAMPLING,
        within=Range(0, LARGEST_SEED, words="0 to 2^53-1"),
        usual="random; --stats and --json show it",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamConfig(Group):
    """How a beam search runs."""

    beams: int = setting(
        1, "Search for the likeliest completions with N beams instead of drawing them: -t, -k, -p "
        "and the like have no effect, and the text appears at the end.", SAMPLING,
        within=Range(1, MOST_SLOTS), off="1: off",
    )  # fmt: skip
    length_penalty: float = setting(
        1.0, "With --beams: above 1 favours longer completions, below 1 shorter ones. A sum of "
        "log-probabilities is divided by the length to this power.", SAMPLING,
        within=Range(-10, 10),
    )  # fmt: skip

    @property
    def on(self) -> bool:
        """Whether this is a beam search."""
        return self.beams > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig(Group):
    """Where a completion ends."""

    max_new_tokens: int = setting(
        256, "Most tokens to generate, the prompt not counted.", LIMITS,
        short="-n", within=_ANY, usual="256 (chat 128)", hugging_face="max_new_tokens",
    )  # fmt: skip
    min_new_tokens: int = setting(
        0, "Fewest tokens to generate: before that neither the model nor --stop ends the text. "
        "A complete --choice, --regex or --json-schema still does.", LIMITS,
        within=_ANY, off="0: off", hugging_face="min_new_tokens",
    )  # fmt: skip
    stop: tuple[str, ...] = setting(
        (), r"End before this text; repeatable; \n and \t are understood.", LIMITS,
        kind=TEXT, short="-s",
    )  # fmt: skip
    stop_token: tuple[int, ...] = setting(
        (), "End where the model draws the token with this id; repeatable.", LIMITS,
        within=_ANY, metavar="ID",
    )  # fmt: skip
    include_stop: bool = setting(
        False,
        "Keep the --stop text or --stop-token that ends the completion (not in chat).",
        LIMITS,
    )
    max_time: float | None = setting(
        None, "End a completion after S seconds, with the token that is being made; a --seed does "
        "not bring the same end back.", LIMITS,
        within=Range(0, above=True), metavar="S", usual="no limit",
    )  # fmt: skip
    ignore_eos: bool = setting(False, "Continue when the model ends the text.", LIMITS, off="end")
    overflow: Overflow = setting(
        Overflow.STOP, "At the model's context limit: stop there, slide on with the last half, or "
        "refuse up front (error).", LIMITS, kind=one_of(Overflow),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintConfig(Group):
    """What the whole completion must be: at most one of the three."""

    choice: tuple[str, ...] = setting(
        (), r"Complete with one of these texts; repeatable; \n and \t are understood. Most begin "
        "with a space.", LIMITS, kind=TEXT, usual="any text",
    )  # fmt: skip
    regex: str | None = setting(
        None, "Complete with a text that this pattern matches from end to end, in the syntax of "
        "Rust's regex.", LIMITS, kind=PATTERN, usual="any text",
    )  # fmt: skip
    json_schema: str | None = option(
        None, "Complete with JSON on one line that is valid under the schema in FILE.", LIMITS,
        kind=SCHEMA, usual="any text",
    )  # fmt: skip

    @property
    def field(self) -> str | None:
        """The field of the option that is set; None if there is no constraint."""
        return next(iter(given_constraints(values_of(self))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleConfig(Group):
    """How many completions a prompt has, and what their records hold."""

    samples: int = option(
        1, "How many completions of each prompt.", REPORT, short="-N", within=Range(1)
    )
    logprobs: int | None = option(
        None, "Add to records each token's log-probability in the model's own distribution, and "
        "those of the N likeliest.", REPORT, within=Range(0, 20),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringConfig:
    """How texts are scored."""

    stride: int | None = option(
        None, "Distance in tokens between the starts of a long text's windows. A smaller one gives "
        "more context and is slower.", SCORING,
        within=Range(1, words="1 or more, and less than the model's context"),
        usual="half of the context",
    )  # fmt: skip
    top: int = option(
        0, "Also tell the N likeliest tokens at each index.", SCORING,
        within=Range(0), off="0: off",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig(Group):
    """How the user's text is read."""

    allow_special: bool = option(
        False, "Read <|endoftext|> in the text as the token, not as text. Default: as text.", REPORT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptConfig(Group):
    """Where a completion begins."""

    heal: bool = setting(
        False, "Draw the prompt's last token again, as the beginning of a longer one: for a prompt "
        "that ends within a word or with a space. Its text is not written twice.", SAMPLING,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportConfig(Group):
    """What is reported beside the result."""

    stats: bool = setting(False, "Report speed, memory and conditions on stderr.", REPORTING)
    quiet: bool = setting(False, "No notes and no progress on stderr.", REPORTING, short="-q")
    verbose: bool = setting(
        False, "Tell on stderr which options, model and graph are used, what the hub is asked, and "
        "how long each phase takes; no texts.", REPORTING, short="-v",
    )  # fmt: skip
    log_file: Any = option(  # a path
        None, "Add what --verbose tells, and all notes and errors, to FILE, with the time.", REPORT,
        kind=FILE,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig(Group):
    """Which server does the work, in place of this process."""

    server: str = setting(
        "off", "Let a running `gpt2 serve` do the work, if its model is the one that is asked for: "
        "the output is the same, without the time to load. --threads and --draft are its own.",
        MODEL, kind=SERVER, off="off: this process",
    )  # fmt: skip

    @property
    def on(self) -> bool:
        """Whether there is one."""
        return self.server != "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetConfig(Group):
    """Which of the user's presets is taken."""

    preset: str | None = option(
        None, "Take the options that `gpt2 config preset save NAME` kept; others beside it count "
        "more. GPT2_PRESET names one too.", REPORT, kind=NAME,
    )  # fmt: skip


def json_option(help: str) -> Any:  # noqa: A002
    """Declare --json, with a command's own help."""
    return option(False, help, REPORT)


def file_option(default: Any, help: str, usual: str) -> Any:  # noqa: A002
    """Declare --file, with a command's own help."""
    return option(default, help, REPORT, short="-f", usual=usual)


def stdin_option() -> Any:
    """Declare --stdin and --no-stdin; None: nothing was said."""
    return option(
        None, "Beside an argument: wait for what stdin holds, which comes first, or leave stdin "
        "alone (--no-stdin). Default: take a file, and a pipe that holds something by then.",
        REPORT,
    )  # fmt: skip


def batch_size_option(help: str) -> Any:  # noqa: A002
    """Declare --batch-size, with a command's own help."""
    return option(
        None, help, REPORT,
        within=Range(1, MOST_SLOTS), auto=AUTO, usual="auto: by cores and memory",
    )  # fmt: skip


def output_option(help: str = "Write the result to FILE, whole or not at all; - is stdout.") -> Any:  # noqa: A002
    """Declare --output."""
    return option(None, help, REPORT, short="-o", usual="stdout")


# The options that a single prompt of a batch can have of its own.
OF_A_PROMPT: Final = (
    SamplingConfig, SeedConfig, BeamConfig, PromptConfig, GenerationConfig, ConstraintConfig,
    SampleConfig, TextConfig,
)  # fmt: skip
# The options that the environment and the config file can hold, as far as they are a `setting`.
SETTABLE: Final = (
    ModelConfig, DraftConfig, ServerConfig, SamplingConfig, SeedConfig, BeamConfig, PromptConfig,
    GenerationConfig, ConstraintConfig, ReportConfig,
)  # fmt: skip


def values_of(*groups: Any) -> dict[str, Any]:
    """Return the values of groups by field."""
    return {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
