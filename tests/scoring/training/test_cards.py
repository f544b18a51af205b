"""Cards: what stands beside the weights of a model that a recipe made."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scoring.language_models import resolve
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.training.cards import measure_model, write_card, write_distillation_card, write_finetuning_card
from scoring.training.miniatures import BUNDLED, MINIATURES, TOKENS_PER_STEP, VOCABULARY
from scoring.training.settings import Distillation
from tests.scoring.families import tiny, tiny_folder
from tests.scoring.training.conftest import sentences

HELD_OUT = sentences(2, seed=1)
SIZES = {
    "GPT-2": ("GPT2LMHeadModel", 400, "41,344", "byte-level BPE", "log-perplexity", "5.991"),
    "BERT": ("BertForMaskedLM", 240, "29,328", "WordPiece", "pseudo-log-perplexity", "5.481"),
}


def copy_model(name: str, folder: Path) -> Path:
    """A tiny model in a folder of the test's own, where its card may go."""
    return Path(shutil.copytree(tiny_folder(name), folder))


def measure(name: str) -> tuple[float, int]:
    """Nats a token of the held-out texts, and how many tokens they have."""
    tokens = np.concatenate([row.tokens for row in token_log_likelihoods(tiny(name), HELD_OUT, LikelihoodSettings())])
    return -float(tokens.mean(dtype=np.float64)), len(tokens)


def read_table(folder: Path) -> list[str]:
    """The rows of a card's table without its head."""
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ")][1:]


@pytest.mark.parametrize("name", ["GPT-2", "BERT"])
def test_the_card_of_a_miniature_says_how_large_it_is_what_it_knows_and_how_it_was_made(name, tmp_path):
    folder = copy_model(name, tmp_path / "plumb-tiny")
    class_name, vocabulary, parameters, tokenizer, quantity, uniform = SIZES[name]
    nats, tokens = measure(name)
    # A text without a token that can be scored is not counted.
    assert write_card(folder, [*HELD_OUT, ""], steps=1500, tokens_per_step=2048, seed=3) == pytest.approx(nats)
    assert read_table(folder) == [
        f"| architecture | {class_name}, 2 layers, 4 heads, hidden size 32, context 96 tokens |",
        f"| parameters | {parameters}, stored in half precision |",
        f"| tokenizer | {tokenizer}, {vocabulary} entries, lower-cased, trained on the same text |",
        f"| held-out {quantity} | **{nats:.3f} nats a token** (2 documents, {tokens} tokens) |",
        f"| a uniform model | {uniform} nats a token |",
        "| training | 1,500 steps of about 2,048 tokens, seed 3 |",
    ]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"\n# plumb-tiny\n\nA miniature {name} language model that comes with Plumbline" in card
    assert card.endswith("    python -m scoring.training.miniatures --data DATA --only plumb-tiny --seed 3\n")


@pytest.mark.parametrize("spec", MINIATURES, ids=lambda spec: spec.name)
def test_a_bundled_miniature_is_what_its_recipe_says(spec):
    architecture, _, tokenizer, *_, training = read_table(BUNDLED / spec.name)
    assert f" {spec.layers} layers, {spec.hidden // 64} heads, hidden size {spec.hidden}," in architecture
    assert architecture.endswith(f" context {spec.context} tokens |")
    assert f" {VOCABULARY:,} entries, " in tokenizer
    assert training == f"| training | {spec.steps:,} steps of about {TOKENS_PER_STEP:,} tokens, seed 0 |"


def test_the_card_of_a_student_says_what_it_learnt_of_whom(tmp_path):
    folder = copy_model("GPT-2", tmp_path / "draft")
    origin = replace(resolve(str(folder)), location=str(tmp_path / "teacher"), revision="sha256:0e94")
    settings = Distillation(
        temperature=2.0, language_modelling_weight=0.5, hidden_weight=0.1, context=16, pretraining_steps=1000, batch=4
    )
    texts, log = [Path("a/one.txt"), Path("two.txt")], [{"loss": 2.5}, {"loss": 1.23456}]
    nats, tokens = measure("GPT-2")
    value = write_distillation_card(folder, "student", HELD_OUT, origin, settings, settings.loop(30), 100, texts, log)
    assert value == pytest.approx(nats)
    assert read_table(folder) == [
        "| teacher | teacher, sha256:0e94 |",
        "| architecture | GPT2LMHeadModel, 2 layers, 4 heads, hidden size 32, context 96 tokens |",
        "| parameters | 41,344 |",
        "| tokenizer | the teacher's, 400 entries |",
        f"| held-out log-perplexity | **{nats:.3f} nats a token** (2 documents, {tokens} tokens) |",
        "| stage 1 | language modelling, 1,000 steps (40.00 epochs) |",
        "| stage 2 | soft targets of the teacher (cross-entropy, temperature 2) + 0.5 x language modelling "
        "+ 0.1 x hidden states (mean squared error), 30 steps (1.20 epochs) |",
        "| a step | 4 texts of at most 16 tokens; AdamW, learning rate up to 0.0005, float32 |",
        "| loss at the end | 1.235 nats a token |",
        "| start | random, seed 0 |",
    ]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlanguage: en\nlibrary_name: transformers\n---\n\n# student\n\nA student of teacher, ")
    assert "\n## Text\n\n- one.txt\n- two.txt\n\n" in card


def test_a_student_of_a_hub_model_names_it_whole_with_its_licence_and_only_the_losses_that_weigh(tmp_path):
    folder = copy_model("GPT-2", tmp_path / "draft")
    origin = replace(resolve(str(folder)), source="hub", location="org/teacher", licence="mit")
    settings = Distillation(context=16)
    write_distillation_card(folder, "student", HELD_OUT, origin, settings, settings.loop(30), 240, [Path("a.txt")], [])
    table = read_table(folder)
    assert table[0].startswith("| teacher | org/teacher, ")
    assert (
        table[6] == "| stage 2 | soft targets of the teacher (cross-entropy, temperature 1), 30 steps (1.00 epochs) |"
    )
    assert table[8] == "| loss at the end | unknown nats a token |"
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("---\nlicense: mit\nlanguage: en\n")


@pytest.mark.parametrize(
    ("source", "location", "base"), [("hub", "org/base", "org/base"), ("folder", "/models/base", "base")]
)
def test_the_card_of_a_fine_tuned_model_says_what_it_learnt_and_how_much_better_it_became(
    source, location, base, tmp_path
):
    origin = replace(resolve(str(tiny_folder("GPT-2"))), source=source, location=location, revision="abc123")
    corpus = {"corpus": "été.txt", "sha256": "f00d", "count": 1200, "long": 1100, "distinct": 1000, "repeats": 3}
    parts = {"train": 700, "test": 200, "validation": 100}
    training = {"epochs": 5, "steps": 1094, "effective_batch": 32, "learnt_context": 64, "learning_rate": 5e-5}
    figures = {"shortest": 40, "seed": 2, "held_out": 3.25, "base_held_out": 4.5}
    write_finetuning_card(tmp_path, origin, name="base-été", **corpus, **parts, **training, **figures)
    assert read_table(tmp_path) == [
        f"| base | {base}, abc123 |",
        "| architecture | GPT2LMHeadModel, 2 layers, 4 heads, hidden size 32, context 96 tokens |",
        "| parameters | 41,344 |",
        "| corpus | été.txt, sha256 f00d |",
        "| texts | 1,200 read, 1,100 long enough (40 characters), 1,000 distinct, 3 shortened |",
        "| parts | 700 to train, 200 to test, 100 to validate |",
        "| training | 5 epochs, 1,094 steps of 32 rows of 64 tokens |",
        "| optimiser | AdamW, learning rate up to 5e-05, seed 2 |",
        "| log-perplexity of its test part | **3.250 nats a token** (4.500 before) |",
    ]
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlanguage: en\nlibrary_name: transformers\n---\n\n# base-été\n")


def test_texts_without_a_token_measure_no_model():
    with pytest.raises(ValueError, match="no held-out text has a token that can be scored: give longer texts"):
        measure_model(tiny("GPT-2"), [""])
