"""What requests to /tokenize and /detokenize ask for, and their answers, as vLLM has them."""

from typing import Any, Final

from gpt2cli.errors import Gpt2Error
from gpt2cli.openai.faults import Fault, explain
from gpt2cli.openai.fields import MOST_CHARACTERS, SWITCH, Fields, is_id, read_object
from gpt2cli.serve.service import Service
from gpt2cli.spelling import describe_piece

_MOST_IDS: Final = MOST_CHARACTERS


def tokenize(data: bytes, service: Service) -> dict[str, Any]:
    """Return the ids of a text, and each with its own text, as `gpt2 tokens --json` does.

    Raises:
        Fault: naming the field that is wrong.
    """
    fields = Fields(read_object(data), {})
    fields.refuse_unknown(("model", "prompt"), options=("allow_special",))
    service.check_model(fields.read("model", str, service.model.stored.name, "a text"))
    text = fields.read("prompt", str, None, "a text")
    if text is None or len(text) > MOST_CHARACTERS:
        expected = f"a text of at most {MOST_CHARACTERS} characters"
        raise Fault(400, f"prompt: expected {expected}", param="prompt")
    special = fields.read("allow_special", bool, False, SWITCH)
    tokenizer = service.model.tokenizer
    try:
        ids = tokenizer.encode_text(text, allow_special=special, begins=True)
    except Gpt2Error as error:
        raise explain(error) from error
    pieces = [{"id": i, **describe_piece(tokenizer.spell(i))} for i in ids]
    limit = service.model.engine.shape.n_positions
    return {"count": len(ids), "max_model_len": limit, "tokens": ids, "pieces": pieces}


def detokenize(data: bytes, service: Service) -> dict[str, Any]:
    """Return the text of ids; U+FFFD stands for what is no UTF-8.

    Raises:
        Fault: naming the field that is wrong.
    """
    fields = Fields(read_object(data), {})
    fields.refuse_unknown(("model", "tokens"), options=())
    service.check_model(fields.read("model", str, service.model.stored.name, "a text"))
    ids = fields.read("tokens", list, None, "token ids")
    if ids is None or len(ids) > _MOST_IDS or not all(map(is_id, ids)):
        raise Fault(400, "tokens: expected token ids", param="tokens")
    try:
        return {"prompt": service.model.tokenizer.decode(ids).decode("utf-8", "replace")}
    except Gpt2Error as error:
        fault = explain(error)
        raise Fault(400, str(fault), param="tokens") from error
