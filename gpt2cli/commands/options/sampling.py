"""How the next token is chosen, or a completion searched for."""

from dataclasses import dataclass
from typing import Annotated

from gpt2cli.commands.option_kinds import number, switch, text
from gpt2cli.commands.options.panels import MOST_SLOTS, SAMPLING


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How the next token is chosen."""

    temperature: Annotated[
        float | None,
        number(
            SAMPLING, "--temperature", "-t", kind=float,
            help="Flattens (above 1) or sharpens (below 1) the distribution.",
            within="0 or more", off="0: greedy", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    top_k: Annotated[
        int | None,
        number(
            SAMPLING, "--top-k", "-k", kind=int,
            help="Draw from the k most likely tokens only.",
            within="0 or more", off="0: off", default="40, or the model's own",
        ),
    ] = None  # fmt: skip
    top_p: Annotated[
        float | None,
        number(
            SAMPLING, "--top-p", "-p", kind=float,
            help="Draw from the fewest tokens whose probabilities reach p.",
            within="between 0 and 1", off="1: off", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    min_p: Annotated[
        float | None,
        number(
            SAMPLING, "--min-p", kind=float,
            help="Drop tokens less likely than p times the most likely one.",
            within="between 0 and 1", off="0: off", default="0.0, or the model's own",
        ),
    ] = None  # fmt: skip
    typical_p: Annotated[
        float | None,
        number(
            SAMPLING, "--typical-p", kind=float,
            help="Draw from the most typical tokens whose probabilities reach p: neither too "
            "likely nor too surprising.",
            within="above 0, up to 1", off="1: off", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    repetition_penalty: Annotated[
        float | None,
        number(
            SAMPLING, "--repetition-penalty", kind=float,
            help="Make tokens of prompt and completion less likely.",
            within="above 0", off="1: off", default="1.0, or the model's own",
        ),
    ] = None  # fmt: skip
    presence_penalty: Annotated[
        float | None,
        number(
            SAMPLING, "--presence-penalty", kind=float,
            help="Subtract this from the logits of tokens that the completion has.",
            within="between -2 and 2", off="0: off", default="0.0",
        ),
    ] = None  # fmt: skip
    frequency_penalty: Annotated[
        float | None,
        number(
            SAMPLING, "--frequency-penalty", kind=float,
            help="Subtract this from a token's logit for each time that the completion has it.",
            within="between -2 and 2", off="0: off", default="0.0",
        ),
    ] = None  # fmt: skip
    no_repeat_ngram: Annotated[
        int | None,
        number(
            SAMPLING, "--no-repeat-ngram", kind=int,
            help="Never repeat a sequence of N tokens of prompt or completion.",
            within="0 or more", off="0: off", default="0, or the model's own",
        ),
    ] = None  # fmt: skip
    logit_bias: Annotated[
        list[str] | None,
        text(
            SAMPLING, "--logit-bias", metavar="ID_OR_TEXT=X",
            help="Add X, between -100 and 100, to the logit of a token: its id, or a text that is "
            r"just that token; repeatable; \n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    ban: Annotated[
        list[str] | None,
        text(
            SAMPLING, "--ban", metavar="TEXT",
            help="Never write this text, however it is split into tokens; repeatable; "
            r"\n and \t are understood. Default: none.",
        ),
    ] = None  # fmt: skip
    greedy: Annotated[
        bool, switch(SAMPLING, "--greedy", help="Always take the most likely token (-t 0).")
    ] = False
    seed: Annotated[
        int | None,
        number(
            SAMPLING, "--seed", kind=int, help="Seed of the draws.",
            within="0 to 2^53-1", default="random, told by --stats and --json",
        ),
    ] = None  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How completions are searched for, where they are not drawn."""

    beams: Annotated[
        int | None,
        number(
            SAMPLING, "--beams", kind=int,
            help="Search for the likeliest completions with N beams instead of drawing them: -t, "
            "-k, -p and the like have no effect, and the text appears at the end.",
            within=f"1 to {MOST_SLOTS}", off="1: off", default="1",
        ),
    ] = None  # fmt: skip
    length_penalty: Annotated[
        float | None,
        number(
            SAMPLING, "--length-penalty", kind=float,
            help="With --beams: above 1 favours longer completions, below 1 shorter ones. A sum of "
            "log-probabilities is divided by the length to this power.",
            within="between -10 and 10", default="1.0",
        ),
    ] = None  # fmt: skip
