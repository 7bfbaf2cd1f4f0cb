"""How much of a trained model's quality the lower precisions keep."""

import pathlib

import numpy as np
import pytest
from tokenizers import Tokenizer

from export.config import read_config
from export.storage import STORAGES, Precision
from tests.export.graph_session import GraphSession
from tests.model_folders import ModelFolders

_STARTER = pathlib.Path(__file__).parents[2] / "gpt2cli" / "starter"
# Hans Christian Andersen, The Princess and the Pea, as translated in 1914 (public domain).
_TEXT = """\
Once upon a time there was a prince who wanted to marry a princess; but she would have to be a \
real princess. He travelled all over the world to find one, but nowhere could he get what he \
wanted. There were princesses enough, but it was difficult to find out whether they were real \
ones. There was always something about them that was not as it should be. So he came home again \
and was sad, for he would have liked very much to have a real princess. One evening a terrible \
storm came on; there was thunder and lightning, and the rain poured down in torrents. Suddenly a \
knocking was heard at the city gate, and the old king went to open it. It was a princess \
standing out there in front of the gate. But, good gracious! what a sight the rain and the wind \
had made her look. The water ran down from her hair and clothes; it ran down into the toes of \
her shoes and out again at the heels. And yet she said that she was a real princess."""


def find_perplexity(folders: ModelFolders, precision: Precision) -> float:
    """Return the perplexity of the text after `<|endoftext|>`."""
    folder = folders.convert(_STARTER, precision)
    graph = GraphSession(folder, read_config(folder), dtype=STORAGES[precision].activations)
    ids = [0, *Tokenizer.from_file(str(_STARTER / "tokenizer.json")).encode(_TEXT).ids]
    logits = graph.run_text(ids)[:-1].astype(np.float64)  # [S - 1, V]
    peaks = logits.max(axis=-1)
    totals = peaks + np.log(np.exp(logits - peaks[:, None]).sum(axis=-1))
    logprobs = logits[np.arange(len(logits)), ids[1:]] - totals
    return float(np.exp(-logprobs.mean()))


@pytest.fixture(scope="module")
def exact(model_folders: ModelFolders) -> float:
    """Return the perplexity in fp32."""
    return find_perplexity(model_folders, Precision.FP32)


@pytest.mark.parametrize(
    ("precision", "rise"), [(Precision.FP16, 0.001), (Precision.INT8, 0.01), (Precision.INT4, 0.06)]
)
def test_the_starters_perplexity_hardly_rises(
    model_folders: ModelFolders, exact: float, precision: Precision, rise: float
) -> None:
    """Twice to three times what is measured over 16,000 tokens: this text has 200."""
    assert 1 - rise <= find_perplexity(model_folders, precision) / exact <= 1 + rise
