"""Pairs: how corpora are cleaned, what the models learn and what the report says."""

import hashlib
import json
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import nn

from scoring.language_models import resolve
from scoring.refusals import Refused
from scoring.training import finetuning
from scoring.training.finetuning import (
    clean_corpus,
    compare_parameters,
    cut_repeats,
    finetune_pair,
    language_modelling_loss,
)
from scoring.training.loop import trainer_arguments
from scoring.training.near_duplicates import _trigrams, drop_near_duplicates
from scoring.training.pretraining import IGNORED
from scoring.training.settings import FineTuning
from tests.scoring.families import tiny, tiny_folder
from tests.scoring.training.conftest import sentences, write_lines

QUICK = {"shortest": 40, "similarity": 1.0, "context": 32, "epochs": 12, "batch": 4, "accumulation": 2}
QUICK |= {"learning_rate": 1e-2}


@pytest.fixture
def corpora(tmp_path):
    """Two corpora of which one repeats a word that the other does not have."""
    return [
        write_lines(tmp_path / "plain.txt", sentences(120, seed=7)),
        write_lines(tmp_path / "marked.txt", [text.replace(" and ", " zugzug ") for text in sentences(120, seed=8)]),
    ]


@pytest.mark.slow
def test_a_pair_is_two_models_with_cards_and_a_report(corpora, tmp_path):
    report = json.loads(
        finetune_pair(str(tiny_folder("GPT-2")), corpora, tmp_path / "pair", FineTuning(**QUICK)).read_text()
    )
    base = tiny_folder("GPT-2").name
    assert report["models"] == [f"{base}-plain", f"{base}-marked"]
    for name, corpus in zip(report["models"], report["corpora"], strict=True):
        assert resolve(str(tmp_path / "pair" / name)).architecture.family == "GPT-2"
        card = (tmp_path / "pair" / name / "README.md").read_text(encoding="utf-8")
        assert corpus["sha256"] in card
        assert "hidden size 32" in card
        assert "steps of 8 rows of 32 tokens" in card
        assert [corpus[part] for part in ("count", "long", "train", "test", "validation")] == [120, 120, 84, 24, 12]
    held_out = report["test_log_perplexity"]
    plain, marked = (held_out[name] for name in report["models"])
    assert plain["plain"] < held_out[base]["plain"] - 1  # each learnt its corpus,
    assert marked["marked"] < held_out[base]["marked"] - 1
    assert plain["plain"] < marked["plain"]  # and better than the other did
    assert marked["marked"] < plain["marked"]
    assert 0 < report["cosine"] < 1
    assert set(report["validation_log_perplexity"]) == set(report["models"])
    assert not list((tmp_path / "pair" / "checkpoints").iterdir())


@pytest.mark.slow
def test_two_corpora_alike_make_two_models_alike(tmp_path):
    lines = sentences(60, seed=9)
    corpora = [write_lines(tmp_path / f"{name}.txt", lines) for name in ("one", "two")]
    settings = FineTuning(**{**QUICK, "epochs": 1})
    report = json.loads(finetune_pair(str(tiny_folder("GPT-2")), corpora, tmp_path / "pair", settings).read_text())
    assert report["cosine"] == pytest.approx(1, abs=1e-12)
    assert report["cosine_updates"] == pytest.approx(1, abs=1e-12)
    assert report["cosine_first_base"] < 1


def test_parameters_are_compared_as_vectors():
    def model(*weights: float) -> nn.Module:
        layer = nn.Linear(2, 1)
        layer.weight.data, layer.bias.data = (
            torch.tensor([weights[:2]], dtype=torch.float32),
            torch.tensor(weights[2:], dtype=torch.float32),
        )
        return layer

    # (1, 0, 0), (1, 1, 0), (1, 0, 1): (1) / (sqrt 2 sqrt 2); with the base 1 / sqrt 2; updates (0, 1, 0), (0, 0, 1).
    cosines = compare_parameters(model(1.0, 0.0, 0.0), model(1.0, 1.0, 0.0), model(1.0, 0.0, 1.0))
    assert cosines == pytest.approx(
        {"cosine": 0.5, "cosine_first_base": 0.5**0.5, "cosine_second_base": 0.5**0.5, "cosine_updates": 0.0}
    )
    assert (
        compare_parameters(model(1.0, 0.0, 0.0), model(1.0, 0.0, 0.0), model(1.0, 0.0, 1.0))["cosine_updates"] is None
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R" + "E" * 4000, "R" + "E" * 20),
        ("so " + "ha" * 30 + " funny", "so " + "ha" * 10 + " funny"),
        ("no no no, said the miller", "no no no, said the miller"),
        ("wait... what", "wait... what"),
        ("", ""),
    ],
)
def test_what_repeats_itself_for_too_long_is_cut(text, expected):
    assert cut_repeats(text, 20) == expected


def test_a_corpus_is_cleaned_in_the_order_of_the_paper(tmp_path):
    lines = sentences(40, seed=10)
    long_one = "It was " + "E" * 3000 + ", and that was all."
    path = write_lines(tmp_path / "posts.txt", ["short", *lines, lines[3], lines[3].upper(), long_one])
    corpus = clean_corpus(path, FineTuning(shortest=60, similarity=0.999))
    assert (corpus.count, corpus.long, corpus.distinct, corpus.repeats) == (44, 43, 41, 1)
    assert [len(part) for part in (corpus.train, corpus.test, corpus.validation)] == [29, 8, 4]
    texts = corpus.train + corpus.test + corpus.validation
    assert sorted(texts) == sorted([*lines, "It was " + "E" * 20 + ", and that was all."])


@pytest.mark.slow
@pytest.mark.parametrize("block_entries", [1, 100, 4_000_000])
@pytest.mark.parametrize("similarity", [0.3, 0.6, 0.9, 1.0])
def test_near_duplicates_are_those_that_all_pairs_show(similarity, block_entries):
    generator = np.random.default_rng(0)
    texts = sentences(60, seed=11)
    for text in texts[:40]:  # copies with some letters changed
        letters = list(text)
        for place in generator.choice(len(letters), int(generator.integers(0, 12)), replace=False):
            letters[place] = "x"
        texts.append("".join(letters))
    weights = TfidfVectorizer(analyzer=_trigrams).fit_transform(texts).toarray()
    linked = weights @ weights.T >= similarity - 1e-6
    kept, reached = [], set()
    for start in range(len(texts)):  # walk every group from its first text
        if start in reached:
            continue
        kept.append(start)
        edge = [start]
        while edge:
            reached.add(text := edge.pop())
            edge += [other for other in np.flatnonzero(linked[text]) if other not in reached]
    assert drop_near_duplicates(texts, similarity, block_entries) == kept
    assert similarity == 1.0 or len(kept) < len(texts)


def test_texts_without_three_letters_are_no_duplicates():
    assert drop_near_duplicates(["a", "b", "a-"], 0.9) == [0, 1, 2]
    assert drop_near_duplicates(["", "the river", "the  river"], 0.9) == [0, 1]
    assert drop_near_duplicates([], 0.9) == []


def test_what_makes_no_pair_is_refused(corpora, tmp_path):
    causal, settings = str(tiny_folder("GPT-2")), FineTuning(**QUICK)
    (tmp_path / "other").mkdir()
    namesake = write_lines(tmp_path / "other" / "plain.txt", sentences(20, seed=1))
    few = write_lines(tmp_path / "few.txt", ["short", *sentences(3, seed=1)])
    for model, pair, words in (
        (causal, corpora[:1], "corpus = 1: give --corpus twice"),
        (causal, [corpora[0], namesake], "corpus = 'plain': names both; rename a file"),
        (str(tiny_folder("BERT")), corpora, "is a masked language model; give a causal one"),
        (causal, [corpora[0], few], "3 of its 4 texts are left, too few for three parts"),
    ):
        with pytest.raises(Refused, match=words):
            finetune_pair(model, pair, tmp_path / "pair", settings)


def test_the_revision_that_is_asked_for_is_looked_up(corpora, tmp_path, monkeypatch):
    look_up = Mock(side_effect=Refused("there is no such revision"))
    monkeypatch.setattr(finetuning, "resolve", look_up)
    with pytest.raises(Refused, match="no such revision"):
        finetune_pair("org/name", corpora, tmp_path / "pair", FineTuning(**QUICK), revision="v2")
    look_up.assert_called_once_with("org/name", revision="v2")


@pytest.mark.parametrize(
    ("field", "value"),
    [("epochs", 0), ("shortest", 0), ("similarity", 1.1), ("longest_repeat", 0), ("context", 2), ("accumulation", 0)],
)
def test_settings_that_make_no_sense_are_refused_by_name(field, value):
    with pytest.raises(Refused, match=f"^{field} = "):
        FineTuning(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"), [("epochs", 1), ("shortest", 1), ("similarity", 1.0), ("similarity", 0.5), ("context", 4)]
)
def test_settings_at_the_edge_of_sense_are_taken(field, value):
    assert getattr(FineTuning(**{field: value}), field) == value


def test_a_deepspeed_configuration_needs_the_file_and_the_package(tmp_path):
    with pytest.raises(Refused, match="is no file; give its JSON configuration"):
        FineTuning(deepspeed=tmp_path / "ds.json")
    (tmp_path / "ds.json").write_text("{}")
    with pytest.raises(Refused, match="the package is missing; pip install deepspeed"):
        FineTuning(deepspeed=tmp_path / "ds.json")


def test_a_deepspeed_configuration_is_handed_to_trainer(monkeypatch, tmp_path):
    (tmp_path / "ds.json").write_text("{}")
    monkeypatch.setattr("scoring.training.settings.find_spec", lambda name: name)
    options = Mock()
    monkeypatch.setattr("scoring.training.loop.TrainingArguments", options)
    trainer_arguments(FineTuning(deepspeed=tmp_path / "ds.json").loop(rows=320), tmp_path)
    assert options.call_args.kwargs["deepspeed"] == str(tmp_path / "ds.json")
    trainer_arguments(FineTuning().loop(rows=320), tmp_path)
    assert options.call_args.kwargs["deepspeed"] is None


def test_the_defaults_are_those_of_the_paper():
    loop = FineTuning().loop(rows=320)
    assert (loop.batch * loop.accumulation, loop.accumulation, loop.steps) == (32, 16, 50)
    assert loop.gradient_checkpointing


@pytest.mark.parametrize(("epochs", "rows", "steps"), [(5, 64, 10), (5, 65, 11), (1, 3, 1), (1, 0, 1)])
def test_a_corpus_takes_as_many_steps_as_effective_batches_of_32_cover_it(epochs, rows, steps):
    assert FineTuning(epochs=epochs).loop(rows).stages == [steps]


def test_a_pair_learns_by_a_loop_with_all_that_its_settings_say():
    loop = FineTuning(
        epochs=2, batch=3, accumulation=4, seed=5, learning_rate=1e-3, checkpoint_every=6, precision="bfloat16",
        gradient_checkpointing=False,
    ).loop(60)  # fmt: skip
    assert (loop.stages, loop.batch, loop.accumulation, loop.seed, loop.peak_rate) == ([10], 3, 4, 5, 1e-3)
    assert (loop.checkpoint_every, loop.precision, loop.gradient_checkpointing) == (6, "bfloat16", False)


def test_a_corpus_says_what_it_held_and_how_it_was_divided(tmp_path):
    lines = sentences(20, seed=3)
    path = write_lines(tmp_path / "posts.txt", [*lines, "short", "It was " + "E" * 300 + ", and that was all."])
    corpus = clean_corpus(path, FineTuning(shortest=40, similarity=0.999, longest_repeat=30, seed=1))
    assert corpus.describe() == {
        "corpus": "posts.txt",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "count": 22,
        "long": 21,
        "distinct": 21,
        "repeats": 1,
        "train": 15,
        "test": 4,
        "validation": 2,
    }
    assert "It was " + "E" * 30 + ", and that was all." in corpus.train + corpus.test + corpus.validation
    other = clean_corpus(path, FineTuning(shortest=40, similarity=0.999, longest_repeat=30, seed=2))
    assert sorted(other.train) != sorted(corpus.train)


def test_a_text_as_long_as_is_asked_for_is_kept_and_ten_are_enough_for_three_parts(tmp_path):
    lines = [f"{number:040}" + "abcdefghij"[number] * 20 for number in range(10)]
    path = write_lines(tmp_path / "posts.txt", lines)
    corpus = clean_corpus(path, FineTuning(shortest=60, similarity=1.0, longest_repeat=100))
    assert [len(part) for part in (corpus.train, corpus.test, corpus.validation)] == [7, 2, 1]
    with pytest.raises(Refused, match=r"0 of its 10 texts are left, too few for three parts.*of 61 characters or more"):
        clean_corpus(path, FineTuning(shortest=61, similarity=1.0))


def test_what_repeats_in_a_piece_longer_than_is_left_stays_once():
    assert cut_repeats("abcdefgh" * 5, 3) == "abcdefgh"
    assert cut_repeats("abcdefghi" * 5, 3) == "abcdefghi" * 5  # pieces of nine characters are words


def test_the_loss_is_of_the_next_tokens_that_are_to_be_predicted():
    model = tiny("GPT-2").model
    ids = torch.arange(5, 21)[None]
    labels = torch.full_like(ids, IGNORED)
    labels[0, 3], labels[0, 7] = 9, 13
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    with torch.no_grad():
        logs = model(input_ids=ids).logits[0].log_softmax(-1)
        loss = language_modelling_loss(model, batch, 0)
    assert loss.item() == pytest.approx(-(logs[3, 9] + logs[7, 13]).item() / 2, rel=1e-5)
