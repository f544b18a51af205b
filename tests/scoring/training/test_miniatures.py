"""The recipe of the bundled models, made small: what comes of it loads, has learnt, and is the same for a seed."""

import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from scoring.language_models import load_files
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.training import miniatures
from scoring.training.miniatures import Miniature, train
from tests.scoring.training.conftest import sentences

VOCABULARY = 600
DOCUMENTS = sentences(300, seed=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miniatures, "VOCABULARY", VOCABULARY)
    monkeypatch.setattr(miniatures, "TOKENS_PER_STEP", 512)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_a_miniature_is_of_its_shape_in_half_precision_and_has_learnt(kind: str, tmp_path: Path):
    spec = Miniature(kind, layers=1, hidden=64, steps=40, peak_rate=5e-3)
    assert train(spec, DOCUMENTS, tmp_path, seed=0) > 0
    assert {str(tensor.dtype) for tensor in load_file(tmp_path / "model.safetensors").values()} == {"torch.float16"}
    model = load_files(tmp_path, spec.name)
    architecture = model.architecture
    assert (architecture.kind, architecture.layers, architecture.context) == (kind, 1, spec.context)
    likelihoods = token_log_likelihoods(model, sentences(20, seed=2), LikelihoodSettings())
    assert np.mean([text.log_perplexity for text in likelihoods]) < 0.9 * math.log(VOCABULARY), "better than a guess"


def test_the_same_seed_gives_the_same_miniature_and_another_another(tmp_path: Path):
    spec = Miniature("causal", layers=1, hidden=64, steps=2, peak_rate=5e-3)
    for name, seed in (("first", 0), ("again", 0), ("other", 1)):
        train(spec, DOCUMENTS, tmp_path / name, seed)
    weights = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "again", "other")}
    assert weights["first"] == weights["again"] != weights["other"]
    tokenizers = {(tmp_path / name / "tokenizer.json").read_bytes() for name in ("first", "other")}
    assert len(tokenizers) == 1
