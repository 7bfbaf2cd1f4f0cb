"""The panels of --help, and what several groups of options have in common."""

from typing import Annotated, Final

from gpt2cli.commands.option_kinds import number, option, switch

MODEL, SAMPLING, LIMITS, REPORT = "Model", "Sampling", "Limits", "Input and output"
REPORTING: Final = "Reporting"
SCORING: Final = "Scoring"
CHAT: Final = "Conversation"
BENCH: Final = "Measuring"
EXPORT: Final = "Export"
MOST_SLOTS: Final = 256

# In several groups each, and declared once.
Quiet = Annotated[
    bool, switch(REPORTING, "--quiet", "-q", help="No notes and no progress on stderr.")
]
Offline = Annotated[
    bool, switch(MODEL, "--offline", help="Never ask the network.", off="only if needed")
]
AllowSpecial = Annotated[
    bool,
    option(
        REPORT,
        "--allow-special",
        help="Read <|endoftext|> in the text as the token, not as text. Default: as text.",
    ),
]

Logprobs = Annotated[
    int | None,
    number(
        REPORT, "--logprobs", kind=int,
        help="Add to records each token's log-probability in the model's own distribution, and "
        "those of the N likeliest.",
        within="0 to 20", default="none",
    ),
]  # fmt: skip
