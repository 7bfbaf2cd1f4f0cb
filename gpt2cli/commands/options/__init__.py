"""Declares every option once, in groups. None means that the user did not say."""

from gpt2cli.commands.options.batch import BatchInputOptions, BatchOutputOptions, FormatChoice
from gpt2cli.commands.options.bench import BenchOptions
from gpt2cli.commands.options.chat import ChatFormOptions, TemplateChoice
from gpt2cli.commands.options.generate import OutputOptions, PromptOptions, ReportOptions
from gpt2cli.commands.options.limits import ConstraintOptions, LimitOptions, OverflowChoice
from gpt2cli.commands.options.model import (
    ExportPrecision,
    ModelOptions,
    PrecisionChoice,
    TokenizerOptions,
)
from gpt2cli.commands.options.panels import MOST_SLOTS
from gpt2cli.commands.options.sampling import SamplingOptions, SearchOptions
from gpt2cli.commands.options.score import ScoreOutputOptions, ScoringOptions, TextOptions
from gpt2cli.commands.options.tokens import TokensInputOptions, TokensOutputOptions

__all__ = [
    "MOST_SLOTS",
    "BatchInputOptions",
    "BatchOutputOptions",
    "BenchOptions",
    "ChatFormOptions",
    "ConstraintOptions",
    "ExportPrecision",
    "FormatChoice",
    "LimitOptions",
    "ModelOptions",
    "OutputOptions",
    "OverflowChoice",
    "PrecisionChoice",
    "PromptOptions",
    "ReportOptions",
    "SamplingOptions",
    "ScoreOutputOptions",
    "ScoringOptions",
    "SearchOptions",
    "TemplateChoice",
    "TextOptions",
    "TokenizerOptions",
    "TokensInputOptions",
    "TokensOutputOptions",
]
