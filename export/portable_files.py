"""The files of a portable folder, and what Optimum, transformers.js and onnxruntime-genai read there.

| file | read by | what it must say, as tried |
|---|---|---|
| `onnx/model.onnx`, `_fp16`, `_quantized`, `_q4` | all | Optimum wants one `*.onnx` in all folders, of whatever name |
| `onnx/model.onnx_data` and so on | all | transformers.js knows no other name for what lies beside the graph |
| `config.json` | Optimum, transformers.js | the sizes by GPT-2's own names; `transformers.js_config`: that there is external data, and which precision to take, since browsers look for q8 unless told |
| `tokenizer_config.json` | all | a class that old and new transformers have; without `model_input_names` it gives `token_type_ids`, which GPT-2 has not |
| `generation_config.json` | Optimum, transformers.js | what ends a text |
| `genai_config.json` | onnxruntime-genai | type `decoder`, with a cache that grows, not one of a fixed size |

The folder is a model folder too: `gpt2` has graphs of its own in it, `model.onnx.gpt2` and so on,
which read the same weights.
"""  # noqa: E501 (a table's row is a line)

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from export.config import CONFIG_FILE, GPT2Config, read_object
from export.manifest import GENERATION_FILE, as_bytes
from export.special_tokens import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from export.special_tokens import TokenFiles, read_token_files
from export.storage import Precision
from export.tokenizer import TokenizerFacts, adds_prefix_space

ONNX_FOLDER: Final = "onnx"
GENAI_FILE: Final = "genai_config.json"

# The names of the graph, and of the precision, in transformers.js (its `src/utils/dtypes.js`).
_STEMS: Final[Mapping[Precision, tuple[str, str]]] = {
    Precision.FP32: ("model", "fp32"),
    Precision.FP16: ("model_fp16", "fp16"),
    Precision.INT8: ("model_quantized", "q8"),
    Precision.INT4: ("model_q4", "q4"),
}
# Fields of generation_config.json that onnxruntime-genai has under the same names.
_SEARCH_FIELDS: Final = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")
_CODE_OF_ITS_OWN: Final = "auto_map"  # which does not come along


def portable_graph(precision: Precision) -> PurePosixPath:
    """Return where the graph of a precision lies in a portable folder."""
    return PurePosixPath(ONNX_FOLDER, f"{_STEMS[precision][0]}.onnx")


def portable_data(precision: Precision) -> PurePosixPath:
    """Return where its weights lie."""
    return PurePosixPath(f"{portable_graph(precision)}_data")


PORTABLE_FILES: Final = frozenset(
    {
        *(ONNX_FOLDER, TOKENIZER_CONFIG_FILE, GENAI_FILE),
        *(str(name(p)) for p in Precision for name in (portable_graph, portable_data)),
    }
)


def write_portable_descriptions(
    tokenizer_source: Path,
    folder: Path,
    config: GPT2Config,
    facts: TokenizerFacts,
    precision: Precision,
) -> list[str]:
    """Complete what `export.manifest.write_descriptions` has written, for the other programs.

    Returns a sentence for each thing that these programs will do in another way.

    Raises:
        CheckpointError: if the tokenizer's files are damaged.
        OSError: if it cannot be written.
    """
    generation = _describe_generation(folder, facts)
    files = read_token_files(tokenizer_source)
    written = {
        CONFIG_FILE: _describe_model(read_object(folder / CONFIG_FILE), config, precision),
        GENERATION_FILE: generation,
        TOKENIZER_CONFIG_FILE: _describe_tokenizer(files, config, facts),
        GENAI_FILE: _describe_for_genai(config, facts, generation, precision),
    }
    for name, content in written.items():
        (folder / name).write_bytes(as_bytes(content))
    return list(_find_differences(tokenizer_source, facts))


def _describe_model(
    raw: Mapping[str, Any], config: GPT2Config, precision: Precision
) -> dict[str, Any]:
    """Return config.json, with the sizes under the names that every program knows."""
    sizes = ("n_layer", "n_head", "n_embd", "n_positions", "vocab_size")
    kept = {name: value for name, value in raw.items() if name != _CODE_OF_ITS_OWN}
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        **kept,
        **{name: getattr(config, name) for name in sizes},
        "transformers.js_config": {
            "dtype": _STEMS[precision][1],
            "use_external_data_format": True,
        },
    }


def _describe_generation(folder: Path, facts: TokenizerFacts) -> dict[str, Any]:
    """Return generation_config.json, with what begins and ends a text as `gpt2` has it."""
    path = folder / GENERATION_FILE
    own = dict(read_object(path)) if path.is_file() else {}
    return own | _describe_ends(facts)


def _describe_ends(facts: TokenizerFacts) -> dict[str, Any]:
    ends, bos = list(facts.special.eos_token_ids), facts.special.bos_token_id
    ids = {"bos_token_id": bos, "eos_token_id": ends[0] if len(ends) == 1 else ends or None}
    return {name: value for name, value in ids.items() if value is not None}


def _describe_tokenizer(
    files: TokenFiles, config: GPT2Config, facts: TokenizerFacts
) -> dict[str, Any]:
    """Return tokenizer_config.json: the checkpoint's own settings, and what is missing there."""
    bos, ends = facts.special.bos_token_id, facts.special.eos_token_ids
    roles = {"bos_token": bos, "eos_token": ends[0] if ends else None}
    texts = {
        role: facts.special.tokens[token_id].text
        for role, token_id in roles.items()
        if token_id is not None
    }
    entries = [(entry.field or "", entry.text) for entry in reversed(files.named)]
    named = {field: text for field, text in entries if field.endswith("_token")}
    own = {name: value for name, value in files.settings.items() if name != _CODE_OF_ITS_OWN}
    return {
        "clean_up_tokenization_spaces": False,  # else "it ." becomes "it."
        "model_max_length": config.n_positions,
        **{role: text for role, text in texts.items() if text is not None},
        **named,
        **own,
        "add_prefix_space": adds_prefix_space(facts.tokenizer),
        # It takes everything from tokenizer.json; transformers 4 and 5 have it, and 4 alone or 5
        # alone what checkpoints name.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _describe_for_genai(
    config: GPT2Config, facts: TokenizerFacts, generation: Mapping[str, Any], precision: Precision
) -> dict[str, Any]:
    ends = facts.special.eos_token_ids
    pad = generation.get("pad_token_id")
    model = {
        "type": "decoder",
        **_describe_ends(facts),
        "pad_token_id": pad if isinstance(pad, int) else ends[0] if ends else 0,
        "context_length": config.n_positions,
        "vocab_size": config.vocab_size,
        "decoder": {
            "filename": str(portable_graph(precision)),
            "session_options": {"provider_options": []},
            "hidden_size": config.n_embd,
            "head_size": config.head_dim,
            "num_attention_heads": config.n_head,
            "num_key_value_heads": config.n_head,
            "num_hidden_layers": config.n_layer,
            "inputs": {
                **{name: name for name in ("input_ids", "attention_mask", "position_ids")},
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
        },
    }
    search = {name: generation[name] for name in _SEARCH_FIELDS if name in generation}
    search |= {"max_length": config.n_positions, "past_present_share_buffer": False}
    return {"model": model, "search": search}


def _find_differences(tokenizer_source: Path, facts: TokenizerFacts) -> Iterator[str]:
    if facts.missing_ids:
        count = sum(last - first + 1 for first, last in facts.missing_ids)
        yield f"other programs may draw the {count} ids that the tokenizer lacks"
    if facts.start_ids and not (tokenizer_source / "tokenizer.json").is_file():
        names = ", ".join(repr(facts.tokenizer.id_to_token(i)) for i in facts.start_ids)
        yield f"other programs do not put {names} before a prompt, as gpt2 does"
