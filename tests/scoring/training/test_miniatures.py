"""The recipe of the bundled models, made small: what comes of it loads, has learnt, and is the same for a seed."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

from scoring.language_models import load_files
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.training import miniatures
from scoring.training.miniatures import Miniature, build, train
from scoring.training.tokenizers import train_bpe, train_wordpiece
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


@pytest.mark.parametrize(("kind", "train_tokenizer"), [("causal", train_bpe), ("masked", train_wordpiece)])
def test_a_miniature_learns_without_dropout(kind: str, train_tokenizer: Callable[..., PreTrainedTokenizerFast]):
    spec = Miniature(kind, layers=2, hidden=64, steps=1, peak_rate=1e-3)
    model = build(spec, train_tokenizer(DOCUMENTS, VOCABULARY, spec.context)).train()
    ids = torch.arange(5, 25)[None]
    with torch.no_grad():
        first, second = (model(input_ids=ids).logits for _ in range(2))
    assert first.abs().max() > 0
    assert torch.equal(first, second)


@torch.no_grad()
def test_a_masked_miniature_starts_with_queries_that_match_keys_and_with_small_layers():
    spec = Miniature("masked", layers=8, hidden=64, steps=1, peak_rate=1e-3)
    torch.manual_seed(0)
    model = build(spec, train_wordpiece(DOCUMENTS, VOCABULARY, spec.context))
    for layer in model.bert.encoder.layer:
        attention = layer.attention.self
        assert torch.equal(attention.query.weight, attention.key.weight)
        assert not torch.equal(attention.query.weight, attention.value.weight)
        for small, usual in ((layer.attention.output.dense, attention.value), (layer.output.dense, attention.query)):
            assert float(small.weight.std() / usual.weight.std()) == pytest.approx(0.25, rel=0.1)  # 1 / sqrt(2 x 8)


def test_only_the_miniatures_that_are_named_and_not_there_yet_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    trained: list[tuple[str, int]] = []

    def train_nothing(spec: Miniature, _documents: list[str], folder: Path, seed: int) -> float:
        trained.append((spec.name, seed))
        folder.mkdir()
        return 2.0

    def write_nothing(folder: Path, _held_out: list[str], **_options: int) -> float:
        (folder / "README.md").touch()
        return 1.5

    monkeypatch.setattr(miniatures, "load_corpus", lambda _data, _seed: (DOCUMENTS, []))
    monkeypatch.setattr(miniatures, "train", train_nothing)
    monkeypatch.setattr(miniatures, "write_card", write_nothing)
    command = ["miniatures", "--data", str(tmp_path), "--out", str(tmp_path), "--seed", "3"]
    names = [spec.name for spec in miniatures.MINIATURES]
    monkeypatch.setattr("sys.argv", [*command, "--only", names[4], names[1]])
    miniatures.main()
    assert trained == [(names[1], 3), (names[4], 3)]
    lines = [f"{name}: {words}" for name, _ in trained for words in ("trained in 2 s", "1.500 nats a token")]
    assert [line.removesuffix(" on held-out documents") for line in capsys.readouterr().out.splitlines()] == lines
    monkeypatch.setattr("sys.argv", command)
    miniatures.main()
    assert sorted(trained) == sorted((name, 3) for name in names)


def test_a_miniature_has_the_shape_of_its_family_with_a_head_for_each_64_of_its_width():
    spec = Miniature("causal", layers=3, hidden=128, steps=1, peak_rate=1e-3)
    tokenizer = train_bpe(DOCUMENTS, VOCABULARY, spec.context)
    causal = build(spec, tokenizer).config
    assert (causal.n_layer, causal.n_embd, causal.n_head, causal.n_positions) == (3, 128, 2, 256)
    assert (causal.vocab_size, causal.bos_token_id, causal.eos_token_id) == (
        len(tokenizer),
        tokenizer.bos_token_id,
        tokenizer.eos_token_id,
    )
    spec = Miniature("masked", layers=3, hidden=128, steps=1, peak_rate=1e-3)
    tokenizer = train_wordpiece(DOCUMENTS, VOCABULARY, spec.context)
    masked = build(spec, tokenizer).config
    assert (masked.num_hidden_layers, masked.hidden_size, masked.num_attention_heads) == (3, 128, 2)
    assert (masked.intermediate_size, masked.max_position_embeddings) == (512, 128)
    assert (masked.vocab_size, masked.pad_token_id) == (len(tokenizer), tokenizer.pad_token_id)
    assert masked.initializer_range == pytest.approx(1 / math.sqrt(128))


@torch.no_grad()
def test_positions_of_a_masked_miniature_start_as_waves_that_grow_longer_from_place_to_place():
    spec = Miniature("masked", layers=1, hidden=64, steps=1, peak_rate=1e-3)
    model = build(spec, train_wordpiece(DOCUMENTS, VOCABULARY, spec.context))
    positions = model.bert.embeddings.position_embeddings.weight.numpy()
    rates = 1000 ** -(np.arange(0, 64, 2) / 64)
    angles = np.arange(128)[:, None] * rates
    np.testing.assert_allclose(positions[:, 0::2], 0.2 * np.sin(angles), atol=1e-5)
    np.testing.assert_allclose(positions[:, 1::2], 0.2 * np.cos(angles), atol=1e-5)


def test_the_command_needs_data_and_knows_its_miniatures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for arguments, words in (
        ([], "the following arguments are required: --data"),
        (["--data", "x", "--only", "other"], "argument --only: invalid choice: 'other'"),
        (["--data", "x", "--seed", "one"], "argument --seed: invalid int value: 'one'"),
    ):
        monkeypatch.setattr("sys.argv", ["miniatures", *arguments])
        with pytest.raises(SystemExit):
            miniatures.main()
        assert words in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["miniatures", "--help"])
    with pytest.raises(SystemExit):
        miniatures.main()
    printed = capsys.readouterr().out
    assert "--data DATA [--out OUT] [--only NAME [NAME ...]] [--seed SEED]" in " ".join(printed.split())
    assert "\n    python -m scoring.training.miniatures --data DATA [--only NAME ...] [--seed 0]\n" in printed


def test_what_is_trained_has_a_card_with_the_steps_and_the_seed_and_weights_that_are_there_are_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    name = miniatures.MINIATURES[0].name
    (tmp_path / name).mkdir()
    (tmp_path / name / "model.safetensors").touch()
    cards: list[tuple] = []
    monkeypatch.setattr(miniatures, "BUNDLED", tmp_path)
    monkeypatch.setattr(miniatures, "load_corpus", lambda data, seed: (DOCUMENTS, [f"{data} {seed}"]))
    monkeypatch.setattr(miniatures, "train", None)
    monkeypatch.setattr(miniatures, "write_card", lambda *places, **figures: cards.append((*places, figures)) or 4.25)
    monkeypatch.setattr("sys.argv", ["miniatures", "--data", "data", "--out", str(tmp_path), "--only", name])
    miniatures.main()
    figures = {"steps": miniatures.MINIATURES[0].steps, "tokens_per_step": 512, "seed": 0}
    assert cards == [(tmp_path / name, ["data 0"], figures)]
    assert capsys.readouterr().out == f"{name}: 4.250 nats a token on held-out documents\n"
