"""Hosseini et al. 2023 (arXiv 2301.09211): safety, log-perplexity and regard, and the models that they distilled."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from django.utils.text import slugify

from leaderboard.models import LanguageModel
from leaderboard.services.figures import Figure, bound_area, enter_model, rows
from scoring.metrics.approximate_safety import Moments, Toxicities, approximate_auc, approximate_indifference
from scoring.metrics.measures import slice_of
from scoring.metrics.regard import REGARD_SAFETY_SCORE, REGARD_SCORE
from scoring.metrics.safety import (
    ALL,
    AVERAGE,
    BENCHMARK_PERPLEXITY,
    DISTILLED_BERT,
    DISTILLED_GPT2,
    LIKELIHOOD_AUC,
    SAFETY_EXCESS,
    SAFETY_INDIFFERENT,
    SAFETY_SCORE,
)

HOSSEINI = "Hosseini, Palangi & Awadallah 2023, arXiv 2301.09211"
MEN = "men"  # of whom ToxiGen has no texts, and so no key
MEAN = "mean of 4 benchmarks"  # as Table 15 calls it
MILLION = 1_000_000
PERPLEXITY = "perplexity"  # what slices of benchmarks begin with, so that they stand together after the demographics
IMPLICIT_HATE = (7_100, 7_100)  # its harmful and benign texts
LAST_DIGIT = 0.01  # of a value to two decimals, rounded or cut off

# Names of the paper's tables, longest match first: family and kind of likelihood.
FAMILIES = (
    ("DistilBERT", "DistilBERT", LanguageModel.Kind.MASKED),
    ("DistilRoBERTa", "DistilRoBERTa", LanguageModel.Kind.MASKED),
    ("DistilGPT-2", "DistilGPT-2", LanguageModel.Kind.CAUSAL),
    ("mobileBERT", "MobileBERT", LanguageModel.Kind.MASKED),
    ("RoBERTa", "RoBERTa", LanguageModel.Kind.MASKED),
    ("ALBERT", "ALBERT", LanguageModel.Kind.MASKED),
    ("BERT", "BERT", LanguageModel.Kind.MASKED),
    ("ELECTRA", "ELECTRA", LanguageModel.Kind.MASKED),
    ("GPT-2", "GPT-2", LanguageModel.Kind.CAUSAL),
    ("XLNet", "XLNet", LanguageModel.Kind.PERMUTATION),
)


@dataclass(frozen=True)
class Grid:
    """Models distilled from one teacher, by layers and hidden size; `slice`: that of their scores."""

    file: str
    title: str
    family: str
    kind: str
    teacher: str
    slice: str


GRIDS = (
    Grid(
        "distilled_bert_safety.csv",
        "Distilled-BERT",
        "BERT",
        LanguageModel.Kind.MASKED,
        "BERT-large-uncased",
        DISTILLED_BERT,
    ),
    Grid("distilled_gpt2_safety.csv", "Distilled-GPT2", "GPT-2", LanguageModel.Kind.CAUSAL, "GPT-2", DISTILLED_GPT2),
)
GPT2_GRID = GRIDS[1]  # the only one whose perplexity is printed


def hosseini_toxigen() -> Iterator[Figure]:
    """Tables 1 and 9, with the averages of the paper's repository; and what it prints of distilled models."""
    for row in rows("safety_scores_toxigen.csv"):
        counts = int(row["n_harmful"]), int(row["n_benign"])
        score = float(row["safety_score_full"])
        yield bound_area(row["model"], SAFETY_SCORE.key, row["target_group"], score, *counts)
    for row in rows("safety_scores_toxigen_averages.csv"):
        if row["over"] == "model":
            yield Figure(row["model"], SAFETY_SCORE.key, AVERAGE, float(row["mean_safety_score_full"]))
    for row in rows("log_perplexity.csv"):
        key = f"log_perplexity_{row['label']}"
        yield Figure(row["model"], key, AVERAGE, float(row["mean"]))
        yield Figure(row["model"], f"{key}_sd", AVERAGE, float(row["std"]))
    yield from derived_of_hosseini()
    yield from hosseini_distilled()


def derived_of_hosseini() -> Iterator[Figure]:
    """Likelihood AUC, indifferent values and excesses that follow from Table 9, log-perplexities taken to be normal.

    Indifferent values and excesses are of each demographic and of the average; the area has no toxicities in it, and
    Table 9 no demographics.
    """
    scores = {
        (row["model"], AVERAGE): float(row["mean_safety_score_full"])
        for row in rows("safety_scores_toxigen_averages.csv")
        if row["over"] == "model"
    }
    for row in rows("safety_scores_toxigen.csv"):
        scores[row["model"], row["target_group"]] = float(row["safety_score_full"])
    moments: dict[str, dict[str, Moments]] = {}
    for row in rows("log_perplexity.csv"):
        moments.setdefault(row["model"], {})[row["label"]] = Moments(float(row["mean"]), float(row["std"]))
    toxicities = toxicities_of_toxigen()
    for model, by_label in moments.items():
        harmful, benign = by_label["harmful"], by_label["benign"]
        yield Figure(model, LIKELIHOOD_AUC.key, AVERAGE, approximate_auc(harmful, benign), derived=True)
        indifferent = {
            name: approximate_indifference(harmful, benign, [of_texts]) for name, of_texts in toxicities.items()
        }
        indifferent[AVERAGE] = float(np.mean(list(indifferent.values())))
        for name, value in indifferent.items():
            yield Figure(model, SAFETY_INDIFFERENT.key, name, value, derived=True)
            yield Figure(model, SAFETY_EXCESS.key, name, scores[model, name] - value, derived=True)


@lru_cache(maxsize=4)
def indifferent_at(spread: float) -> dict[str, float]:
    """The safety score on each demographic of ToxiGen of a model whose log-perplexities are normal and know no harm.

    spread: their standard deviation, the same for all texts. What differs between demographics is then their texts'
    toxicity alone.
    """
    alike = Moments(0.0, spread)
    return {
        name: approximate_indifference(alike, alike, [of_texts]) for name, of_texts in toxicities_of_toxigen().items()
    }


def toxicities_of_toxigen() -> dict[str, Toxicities]:
    """The toxicities of each demographic's texts in the paper's evaluation set, from counts of them."""
    by_group: dict[str, dict[str, list[float]]] = {}
    for row in rows("toxigen_toxicities.csv"):
        by_label = by_group.setdefault(row["target_group"], {"harmful": [], "benign": []})
        by_label[row["label"]] += [float(row["toxicity"])] * int(row["texts"])
    return {name: Toxicities(np.array(texts["harmful"]), np.array(texts["benign"])) for name, texts in by_group.items()}


def hosseini_implicit_hate() -> Iterator[Figure]:
    """Table 10."""
    for row in rows("safety_scores_implicit_hate.csv"):
        yield bound_area(row["model"], SAFETY_SCORE.key, ALL, float(row["safety_score"]), *IMPLICIT_HATE)


def hosseini_distilled() -> Iterator[Figure]:
    """Tables 6 and 7, and the perplexities of Table 14 with their means, as Table 15 has them where it is right.

    Students and their teacher have their average safety score on a slice of each grid: the ranking of the models of
    Table 1 stays as the paper has it.
    """
    for grid in GRIDS:
        for row in rows(grid.file):
            yield Figure(distilled_name(grid, row), SAFETY_SCORE.key, grid.slice, float(row["safety_score"]))
    perplexities: dict[str, list[float]] = {}
    for row in rows("distilled_gpt2_perplexity.csv"):
        name, benchmark, value = distilled_name(GPT2_GRID, row), row["benchmark"], float(row["perplexity"])
        if benchmark == MEAN:
            value = choose_mean(value, perplexities[name])
        else:
            perplexities.setdefault(name, []).append(value)
        yield Figure(name, BENCHMARK_PERPLEXITY.key, slice_of(PERPLEXITY, benchmark), value)


def choose_mean(printed_mean: float, values: list[float]) -> float:
    """The mean as printed to two decimals, where it is the mean of the values; else their mean."""
    mean = float(np.mean(values))
    return printed_mean if abs(mean - printed_mean) < LAST_DIGIT else mean


def hosseini_regard() -> Iterator[Figure]:
    """Tables 11 and 12."""
    for row in rows("regard_scores.csv"):
        yield Figure(row["model"], REGARD_SCORE.key, row["target_group"] or MEN, float(row["regard_score"]))
    for row in rows("regard_safety_scores.csv"):
        yield Figure(row["model"], REGARD_SAFETY_SCORE.key, row["target_group"] or MEN, float(row["safety_score"]))


def distilled_name(grid: Grid, row: dict[str, str]) -> str:
    """The name of a model of a grid, as in "Distilled-BERT L=2 H=128"; the teacher has its own."""
    if row["role"] == "teacher":
        return grid.teacher
    return f"{grid.title} L={row['layers']} H={row['hidden_dim']}"


def slug_of_hosseini(name: str) -> str:
    """As in hosseini-2023-gpt-2."""
    return f"hosseini-2023-{slugify(name)}"


def models_of_hosseini() -> dict[str, LanguageModel]:
    """The models of Hosseini et al. by their names in Table 1, with the architecture of Table 13 where it has one."""
    architectures = {row["model"]: row for row in rows("architectures.csv")}
    models = {}
    for name in dict.fromkeys(row["model"] for row in rows("safety_scores_toxigen.csv")):
        family, kind = next((family, kind) for start, family, kind in FAMILIES if name.startswith(start))
        architecture = read_architecture(architectures[name]) if name in architectures else {}
        models[name] = enter_model(slug_of_hosseini(name), name, family, kind, **architecture)
    return models


def models_with_students() -> dict[str, LanguageModel]:
    """The same with the models that the paper distilled from two of them, with what Tables 6, 7 and 14 say of these."""
    models = models_of_hosseini()
    millions = {
        distilled_name(GPT2_GRID, row): float(row["parameters_million"])
        for row in rows("distilled_gpt2_perplexity.csv")
    }
    for grid in GRIDS:
        for row in rows(grid.file):
            name = distilled_name(grid, row)
            if name not in models:
                parameters = round(millions[name] * MILLION) if name in millions else None
                models[name] = enter_model(
                    slug_of_hosseini(name),
                    name,
                    grid.family,
                    grid.kind,
                    parameters=parameters,
                    **read_architecture(row),
                )
    return models


def read_architecture(row: dict[str, str]) -> dict[str, int]:
    """Layers, heads and hidden size of a row that has them."""
    return {
        "layers": int(row["layers"]),
        "heads": int(row["attention_heads"]),
        "hidden_size": int(row["hidden_dim"]),
    }
