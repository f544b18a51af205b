"""The miniatures that come with Plumbline: real, small, and described by a card."""

import re

import pytest

from scoring.language_models import BUNDLED, list_bundled, resolve
from scoring.training.miniatures import MINIATURES, TOKENS_PER_STEP, VOCABULARY

CARDS = {folder.name: (folder / "README.md").read_text(encoding="utf-8") for folder in list_bundled()}


def held_out(card: str) -> float:
    return float(re.search(r"\*\*([\d.]+) nats a token\*\*", card).group(1))


def uniform(card: str) -> float:
    return float(re.search(r"a uniform model \| ([\d.]+) nats", card).group(1))


def test_three_causal_and_three_masked_ones_take_less_than_30_mb():
    kinds = [resolve(str(folder)).architecture.kind for folder in list_bundled()]
    assert kinds.count("causal") >= 3
    assert kinds.count("masked") >= 3
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*") if path.is_file()) < 30e6


@pytest.mark.parametrize("name", CARDS)
def test_a_card_names_text_licence_and_a_log_perplexity_far_below_a_uniform_models(name):
    card = CARDS[name]
    assert "CC BY-SA" in card
    assert "WikiText-2" in card
    assert "BOLD" in card
    assert held_out(card) < uniform(card) - 3


def test_the_recipe_makes_what_comes_with_plumbline():
    assert sorted(miniature.name for miniature in MINIATURES) == sorted(CARDS)
    for miniature in MINIATURES:
        architecture, card = resolve(str(BUNDLED / miniature.name)).architecture, CARDS[miniature.name]
        assert (architecture.layers, architecture.hidden_size) == (miniature.layers, miniature.hidden)
        assert (architecture.kind, architecture.context) == (miniature.kind, miniature.context)
        assert f"| {miniature.steps:,} steps of about {TOKENS_PER_STEP:,} tokens, seed 0 |" in card
        assert f"{VOCABULARY:,} entries" in card


@pytest.mark.parametrize("architecture", ["gpt2", "bert"])
def test_a_larger_miniature_predicts_held_out_text_better(architecture):
    folders = [folder for folder in list_bundled() if architecture in folder.name]
    by_size = sorted(folders, key=lambda folder: resolve(str(folder)).architecture.parameters)
    values = [held_out(CARDS[folder.name]) for folder in by_size]
    assert values == sorted(values, reverse=True)
