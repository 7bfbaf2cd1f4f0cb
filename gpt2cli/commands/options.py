"""Declares every option once, in groups. None means that the user did not say."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from gpt2cli.commands.option_kinds import flag, number, option, pattern, text
from gpt2cli.errors import UsageError

_MODEL, _SAMPLING, _LIMITS, _REPORT = "Model", "Sampling", "Limits", "Input and output"
_SCORING: Final = "Scoring"
_CHAT: Final = "Conversation"
_BENCH: Final = "Measuring"
_MOST_THREADS: Final = 1024
MOST_SLOTS: Final = 256


class PrecisionChoice(StrEnum):
    """Values of --precision."""

    AUTO = "auto"
    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


class ExportPrecision(StrEnum):
    """Values of --precision where something is written."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


class TemplateChoice(StrEnum):
    """Values of --template."""

    AUTO = "auto"
    TRANSCRIPT = "transcript"
    DIALOGPT = "dialogpt"


class FormatChoice(StrEnum):
    """Values of --format."""

    JSONL = "jsonl"
    TEXT = "text"


class OverflowChoice(StrEnum):
    """Values of --overflow."""

    STOP = "stop"
    SLIDE = "slide"
    ERROR = "error"


# In two groups, and declared once.
_AllowSpecial = Annotated[
    bool,
    flag(
        _REPORT,
        "--allow-special",
        help="Read <|endoftext|> in prompts as the token, not as text. Default: as text.",
    ),
]
_Logprobs = Annotated[
    int | None,
    number(
        _REPORT, "--logprobs", kind=int,
        help="Tell of each token in a record its log-probability in the model's own distribution, "
        "and so many of the likeliest.",
        within="0 to 20", default="none",
    ),
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which model runs, and on what."""

    model: Annotated[
        str | None,
        option(
            _MODEL, "--model", "-m", metavar="NAME",
            help="Model to run: gpt2, gpt2-medium, gpt2-large, gpt2-xl, distilgpt2, starter, a hub "
            "id (owner/name), or a folder. Default gpt2, or the starter if that is out of reach.",
        ),
    ] = None  # fmt: skip
    revision: Annotated[
        str | None,
        option(
            _MODEL, "--revision", metavar="REV",
            help="Branch, tag or commit of a hub model. Default main.",
        ),
    ] = None  # fmt: skip
    precision: Annotated[
        PrecisionChoice,
        option(
            _MODEL, "--precision",
            help="Precision of the weights; fp16 is for CUDA. Default auto: fp32 on the CPU, fp16 "
            "on CUDA.",
        ),
    ] = PrecisionChoice.AUTO  # fmt: skip
    device: Annotated[
        str,
        option(
            _MODEL, "--device", metavar="auto|cpu|cuda|cuda:N",
            help="Where the model runs. Default auto: CUDA where a device answers, else the CPU.",
        ),
    ] = "auto"  # fmt: skip
    threads: Annotated[
        int | None,
        number(
            _MODEL, "--threads", kind=int, within=f"1 to {_MOST_THREADS}", default="all cores",
            help="CPU threads.",
        ),
    ] = None  # fmt: skip
    offline: Annotated[
        bool, flag(_MODEL, "--offline", help="Never ask the network. Default: only if needed.")
    ] = False

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= _MOST_THREADS:
            expected = f"a whole number 1 to {_MOST_THREADS}"
            raise UsageError(f"--threads: expected {expected}, found {self.threads}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How the next token is chosen."""

    temperature: Annotated[
        float | None,
        number(
            _SAMPLING, "--temperature", "-t", kind=float,
            help="Flattens (above 1) or sharpens (below 1) the distribution.",
            within="0 or more", off="0: greedy", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    top_k: Annotated[
        int | None,
        number(
            _SAMPLING, "--top-k", "-k", kind=int,
            help="Draw from the k most likely tokens only.",
            within="0 or more", off="0: off", default="40, or the model's own",
        ),
    ] = None  # fmt: skip
    top_p: Annotated[
        float | None,
        number(
            _SAMPLING, "--top-p", "-p", kind=float,
            help="Draw from the fewest tokens whose probabilities reach p.",
            within="between 0 and 1", off="1: off", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    min_p: Annotated[
        float | None,
        number(
            _SAMPLING, "--min-p", kind=float,
            help="Drop tokens less likely than p times the most likely one.",
            within="between 0 and 1", off="0: off", default="0.0, or the model's own",
        ),
    ] = None  # fmt: skip
    typical_p: Annotated[
        float | None,
        number(
            _SAMPLING, "--typical-p", kind=float,
            help="Draw from the most typical tokens whose probabilities reach p: neither too "
            "likely nor too surprising.",
            within="above 0, up to 1", off="1: off", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    repetition_penalty: Annotated[
        float | None,
        number(
            _SAMPLING, "--repetition-penalty", kind=float,
            help="Make tokens of prompt and completion less likely.",
            within="above 0", off="1: off", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    presence_penalty: Annotated[
        float | None,
        number(
            _SAMPLING, "--presence-penalty", kind=float,
            help="Subtract this from the logits of tokens that the completion has.",
            within="between -2 and 2", off="0: off", default="0.0",
        ),
    ] = None  # fmt: skip
    frequency_penalty: Annotated[
        float | None,
        number(
            _SAMPLING, "--frequency-penalty", kind=float,
            help="Subtract this from a token's logit for each time that the completion has it.",
            within="between -2 and 2", off="0: off", default="0.0",
        ),
    ] = None  # fmt: skip
    no_repeat_ngram: Annotated[
        int | None,
        number(
            _SAMPLING, "--no-repeat-ngram", kind=int,
            help="Draw no n tokens in a row that prompt or completion have already.",
            within="0 or more", off="0: off", default="0, or the model's own",
        ),
    ] = None  # fmt: skip
    logit_bias: Annotated[
        list[str] | None,
        text(
            _SAMPLING, "--logit-bias", metavar="ID_OR_TEXT=X",
            help="Add X, between -100 and 100, to the logit of a token: its id, or a text that is "
            r"just that token; repeatable; \n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    ban: Annotated[
        list[str] | None,
        text(
            _SAMPLING, "--ban", metavar="TEXT",
            help="Never complete this text, however it is cut into tokens; repeatable; "
            r"\n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    greedy: Annotated[
        bool, flag(_SAMPLING, "--greedy", help="Always take the most likely token (-t 0).")
    ] = False
    seed: Annotated[
        int | None,
        number(
            _SAMPLING, "--seed", kind=int, help="Seed of the draws.",
            within="0 to 2^53-1", default="random, told by --stats and --json",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How completions are searched for, where they are not drawn."""

    beams: Annotated[
        int | None,
        number(
            _SAMPLING, "--beams", kind=int,
            help="Search for the likeliest completions, so many side by side, instead of drawing "
            "them: -t, -k, -p and the like do nothing then, and text comes when all is done.",
            within=f"1 to {MOST_SLOTS}", off="1: off", default="1",
        ),
    ] = None  # fmt: skip
    length_penalty: Annotated[
        float | None,
        number(
            _SAMPLING, "--length-penalty", kind=float,
            help="With --beams: the power of a completion's length that the sum of its "
            "log-probabilities is divided by; more of it favours longer ones.",
            within="between -10 and 10", default="1.0",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Where a completion ends."""

    max_new_tokens: Annotated[
        int | None,
        number(
            _LIMITS, "--max-new-tokens", "-n", kind=int,
            help="Most tokens to generate, the prompt not counted.",
            within="0 or more", default="256 (chat 128), or the model's own",
        ),
    ] = None  # fmt: skip
    min_new_tokens: Annotated[
        int | None,
        number(
            _LIMITS, "--min-new-tokens", kind=int,
            help="Fewest tokens to generate: before them neither the model nor --stop ends the "
            "text.",
            within="0 or more", off="0: off", default="0, or the model's own",
        ),
    ] = None  # fmt: skip
    stop: Annotated[
        list[str] | None,
        text(
            _LIMITS, "--stop", "-s", metavar="TEXT",
            help=r"End before this text; repeatable; \n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    ignore_eos: Annotated[
        bool,
        flag(_LIMITS, "--ignore-eos", help="Go on when the model ends the text. Default: end."),
    ] = False
    overflow: Annotated[
        OverflowChoice,
        option(
            _LIMITS, "--overflow",
            help="At the model's context limit: stop there, slide on with the last half, or refuse "
            "up front (error). Default stop.",
        ),
    ] = OverflowChoice.STOP  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintOptions:
    """What a whole completion must be."""

    choice: Annotated[
        list[str] | None,
        text(
            _LIMITS, "--choice", metavar="TEXT",
            help=r"Complete with one of these texts; repeatable; \n and \t are understood. Most "
            "begin with a space. Default: any text.",
        ),
    ] = None  # fmt: skip
    regex: Annotated[
        str | None,
        pattern(
            _LIMITS, "--regex", metavar="PATTERN",
            help="Complete with what this matches from end to end, in the syntax of Rust's regex. "
            "Default: any text.",
        ),
    ] = None  # fmt: skip
    json_schema: Annotated[
        Path | None,
        option(
            _LIMITS, "--json-schema", metavar="FILE",
            help="Complete with JSON on one line that is valid under the schema in FILE. "
            "Default: any text.",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What is told beside the result."""

    stats: Annotated[
        bool, flag(_REPORT, "--stats", help="Tell speeds, counts and the seed on stderr.")
    ] = False
    quiet: Annotated[
        bool, flag(_REPORT, "--quiet", "-q", help="No notes and no progress on stderr.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Where the prompt comes from, beside the argument."""

    file: Annotated[
        Path | None,
        option(
            _REPORT,
            "--file",
            "-f",
            metavar="FILE",
            help="Read the prompt from FILE; - is stdin. Default: the argument, or stdin.",
        ),
    ] = None
    allow_special: _AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """What is written of the samples, and where."""

    samples: Annotated[
        int,
        number(
            _REPORT, "--samples", "-N", kind=int,
            help="How many completions, from one reading of the prompt.",
            within="1 or more", default="1",
        ),
    ] = 1  # fmt: skip
    separator: Annotated[
        str,
        text(
            _REPORT, "--separator", metavar="TEXT",
            help=r"Line between samples; \n and \t are understood. Default ---.",
        ),
    ] = "---"  # fmt: skip
    echo: Annotated[
        bool,
        flag(
            _REPORT, "--echo/--no-echo", help="Print the prompt before its completion. Default: do."
        ),
    ] = True
    json: Annotated[
        bool, flag(_REPORT, "--json", help="Print one JSON record per sample, not text.")
    ] = False
    logprobs: _Logprobs = None
    output: Annotated[
        Path | None,
        option(
            _REPORT, "--output", "-o", metavar="FILE",
            help="Write the result to FILE, whole or not at all; - is stdout. Default: stdout.",
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.logprobs is not None and not self.json:
            raise UsageError("--logprobs: expected --json too, whose records tell them")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInputOptions:
    """How the input of a batch is cut into records, and what they are."""

    jsonl: Annotated[
        bool,
        flag(
            _REPORT, "--jsonl",
            help='Records are JSON objects: {"prompt": …}, with "id" and any option by its long '
            "name with underscores. Default: for a FILE named .jsonl; else lines are prompts.",
        ),
    ] = False  # fmt: skip
    null: Annotated[
        bool, flag(_REPORT, "--null", "-0", help="Records end with NUL. Default: with a newline.")
    ] = False
    allow_special: _AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutputOptions:
    """What a batch writes, where, and how many records it runs at once."""

    samples: Annotated[
        int,
        number(
            _REPORT, "--samples", "-N", kind=int,
            help="How many completions of each prompt, as consecutive records.",
            within="1 or more", default="1",
        ),
    ] = 1  # fmt: skip
    format: Annotated[
        FormatChoice,
        option(
            _REPORT, "--format",
            help="Write JSON records, or completions alone, one a line, newlines escaped as \\n. "
            "Default jsonl.",
        ),
    ] = FormatChoice.JSONL  # fmt: skip
    logprobs: _Logprobs = None
    output: Annotated[
        Path | None,
        option(
            _REPORT, "--output", "-o", metavar="FILE",
            help="Write to FILE, with FILE.resume.json beside it. Default: stdout.",
        ),
    ] = None  # fmt: skip
    resume: Annotated[
        bool,
        flag(_REPORT, "--resume", help="Go on with the run that was writing FILE. Default: begin."),
    ] = False
    batch_size: Annotated[
        int | None,
        number(
            _REPORT, "--batch-size", kind=int, help="How many records run at once.",
            within=f"1 to {MOST_SLOTS}, or auto", unsaid="auto",
            default="auto: by cores and memory",
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.batch_size is not None and not 1 <= self.batch_size <= MOST_SLOTS:
            found = self.batch_size
            raise UsageError(f"--batch-size: expected 1 to {MOST_SLOTS}, or auto, found {found}")
        if self.logprobs is not None and self.format is not FormatChoice.JSONL:
            raise UsageError("--logprobs: expected --format jsonl, whose records tell them")
        if self.resume and self.output is None:
            raise UsageError("--resume: expected --output FILE, the file to go on with")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatFormOptions:
    """Who speaks, in what form the model sees it, and where it is kept."""

    user_name: Annotated[
        str | None,
        text(
            _CHAT, "--user-name", metavar="NAME",
            help="Your name in the transcript. Default User.",
        ),
    ] = None  # fmt: skip
    bot_name: Annotated[
        str | None,
        text(
            _CHAT, "--bot-name", metavar="NAME",
            help="The model's name in the transcript. Default Bot.",
        ),
    ] = None  # fmt: skip
    system: Annotated[
        str | None,
        text(
            _CHAT, "--system", metavar="TEXT",
            help="Text before the conversation, kept when old turns go. Default: none.",
        ),
    ] = None  # fmt: skip
    template: Annotated[
        TemplateChoice,
        option(
            _CHAT, "--template",
            help="Form in which the model sees the conversation: lines that begin with a name, or "
            "DialoGPT's. Default auto: DialoGPT's if the model's config.json says so.",
        ),
    ] = TemplateChoice.AUTO  # fmt: skip
    session: Annotated[
        Path | None,
        option(
            _CHAT, "--session", metavar="FILE",
            help="Keep the conversation in FILE after each turn, and take it up again from there. "
            "Default: it is not kept.",
        ),
    ] = None  # fmt: skip
    json: Annotated[
        bool, flag(_REPORT, "--json", help="Print one JSON record per turn, not text.")
    ] = False
    allow_special: _AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """How texts are scored."""

    stride: Annotated[
        int | None,
        number(
            _SCORING, "--stride", kind=int,
            help="How many tokens after another the windows of a long text begin. The smaller, the "
            "more context, and the slower.",
            within="1 or more, and less than the model's context", default="half of the context",
        ),
    ] = None  # fmt: skip
    top: Annotated[
        int,
        number(
            _SCORING, "--top", kind=int,
            help="Tell the N likeliest tokens at each place too.",
            within="0 or more", off="0: off", default="0",
        ),
    ] = 0  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """Where texts come from, beside the argument."""

    file: Annotated[
        list[Path] | None,
        option(
            _REPORT, "--file", "-f", metavar="FILE",
            help="Read a text from FILE; repeatable; - is stdin. Default: the argument, or stdin.",
        ),
    ] = None  # fmt: skip
    allow_special: _AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOutputOptions:
    """What is written of the scores, and where."""

    json: Annotated[bool, flag(_REPORT, "--json", help="Print one JSON record per text.")] = False
    output: Annotated[
        Path | None,
        option(
            _REPORT, "--output", "-o", metavar="FILE",
            help="Write the result to FILE, whole or not at all; - is stdout. Default: stdout.",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerOptions:
    """Whose tokens they are."""

    model: Annotated[
        str | None,
        option(
            _MODEL, "--model", "-m", metavar="NAME",
            help="Model whose tokens they are, as for generate. Default gpt2, or the starter if "
            "that is out of reach.",
        ),
    ] = None  # fmt: skip
    revision: Annotated[
        str | None,
        option(
            _MODEL, "--revision", metavar="REV",
            help="Branch, tag or commit of a hub model. Default main.",
        ),
    ] = None  # fmt: skip
    offline: Annotated[
        bool, flag(_MODEL, "--offline", help="Never ask the network. Default: only if needed.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensInputOptions:
    """Where a text or its ids come from, beside the arguments."""

    decode: Annotated[
        bool, flag(_REPORT, "--decode", "-d", help="From ids to text. Default: from text to ids.")
    ] = False
    file: Annotated[
        Path | None,
        option(
            _REPORT, "--file", "-f", metavar="FILE",
            help="Read from FILE; - is stdin. Default: the arguments, or stdin.",
        ),
    ] = None  # fmt: skip
    allow_special: _AllowSpecial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensOutputOptions:
    """What is written of a text's tokens: each on a line, or one of these.

    Raises:
        UsageError: if more than one is given.
    """

    ids: Annotated[bool, flag(_REPORT, "--ids", help="Print the ids alone, on one line.")] = False
    count: Annotated[bool, flag(_REPORT, "--count", help="Print how many tokens there are.")] = (
        False
    )
    json: Annotated[bool, flag(_REPORT, "--json", help="Print one JSON record.")] = False

    quiet: Annotated[bool, flag(_REPORT, "--quiet", "-q", help="No notes on stderr.")] = False

    @property
    def chosen(self) -> list[str]:
        """The forms that were asked for: one at most."""
        forms = {"--ids": self.ids, "--count": self.count, "--json": self.json}
        return [name for name, given in forms.items() if given]

    def __post_init__(self) -> None:
        if len(self.chosen) > 1:
            found = " and ".join(self.chosen)
            raise UsageError(f"expected one of --ids, --count and --json, found {found}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What is measured, how often, and how it is told."""

    rounds: Annotated[
        int,
        number(
            _BENCH, "--rounds", kind=int, help="How often each thing is measured.",
            within="1 or more", default="5",
        ),
    ] = 5  # fmt: skip
    prompt_length: Annotated[
        list[int] | None,
        number(
            _BENCH, "--prompt-length", kind=int,
            help="Tokens of a prompt whose prefill is measured; repeatable.",
            within="1 or more, up to the model's context",
            default="32, 128 and 512, as far as the context goes",
        ),
    ] = None  # fmt: skip
    batch_size: Annotated[
        list[int] | None,
        number(
            _BENCH, "--batch-size", kind=int,
            help="How many rows are decoded at once; repeatable.",
            within=f"1 to {MOST_SLOTS}", default="1, 8 and 16",
        ),
    ] = None  # fmt: skip
    json: Annotated[bool, flag(_REPORT, "--json", help="Print one JSON record, not a table.")] = (
        False
    )
    quiet: Annotated[bool, flag(_REPORT, "--quiet", "-q", help="No notes on stderr.")] = False

    def __post_init__(self) -> None:
        for size in self.batch_size or ():
            if not 1 <= size <= MOST_SLOTS:
                raise UsageError(f"--batch-size: expected 1 to {MOST_SLOTS}, found {size}")
