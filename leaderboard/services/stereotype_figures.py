"""Nadeem et al. 2021 (arXiv 2004.09456), Vig et al. 2020 (arXiv 2004.12265): stereotypes, from their repositories."""

from collections.abc import Iterator

from leaderboard.models import LanguageModel
from leaderboard.services.figures import Figure, enter_model, rows
from scoring.metrics.measures import slice_of
from scoring.metrics.safety import ALL
from scoring.metrics.sentence_triples import MEASURES as TRIPLE_MEASURES
from scoring.metrics.total_effect import FILTERED_TOTAL_EFFECT, TOTAL_EFFECT

NADEEM = "Nadeem, Bethke & Reddy 2021, arXiv 2004.09456"
VIG = "Vig et al. 2020, arXiv 2004.12265"
EFFECT_KEYS = {"no": TOTAL_EFFECT.key, "yes": FILTERED_TOTAL_EFFECT.key}
OVERALL = "overall"
# Beginnings of models' names: family and kind of likelihood.
FAMILIES = (
    ("gpt2", "GPT-2", LanguageModel.Kind.CAUSAL),
    ("distilgpt2", "DistilGPT-2", LanguageModel.Kind.CAUSAL),
    ("transfo-xl", "Transformer-XL", LanguageModel.Kind.CAUSAL),
    ("bert", "BERT", LanguageModel.Kind.MASKED),
    ("roberta", "RoBERTa", LanguageModel.Kind.MASKED),
    ("xlnet", "XLNet", LanguageModel.Kind.PERMUTATION),
)


def nadeem_stereoset() -> Iterator[Figure]:
    """The results on the development set, of each domain in each task and overall."""
    for row in rows("stereoset_dev.csv"):
        task, domain = row["task"], row["domain"]
        whole = domain == OVERALL
        name = ALL if task == OVERALL else task if whole else slice_of(task, domain)
        for key in TRIPLE_MEASURES:
            yield Figure(row["model"], key, name, float(row[key]))


def vig_effects(evaluation_set: str) -> Iterator[Figure]:
    """The total effects on a set, over all pairs and over the filtered ones."""
    for row in rows("total_effects.csv"):
        if row["evaluation_set"] == evaluation_set:
            key = EFFECT_KEYS[row["filtered"]]
            yield Figure(row["model"], key, row["statistic"], float(row["total_effect"]), int(row["pairs"]))


def slug_of_nadeem(name: str) -> str:
    """As in nadeem-2021-gpt2."""
    return f"nadeem-2021-{name}"


def slug_of_vig(name: str) -> str:
    """As in vig-2020-gpt2."""
    return f"vig-2020-{name}"


def models_of_nadeem() -> dict[str, LanguageModel]:
    """The models by their names on a hub."""
    return {name: _enter(slug_of_nadeem(name), name) for name in _names("stereoset_dev.csv")}


def models_of_vig() -> dict[str, LanguageModel]:
    """The models by their names on a hub."""
    return {name: _enter(slug_of_vig(name), name) for name in _names("total_effects.csv")}


def _names(file: str) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows(file)))


def _enter(slug: str, name: str) -> LanguageModel:
    family, kind = next((family, kind) for start, family, kind in FAMILIES if name.startswith(start))
    return enter_model(slug, name, family, kind)
