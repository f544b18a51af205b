"""Pozzobon et al. 2023 (arXiv 2304.12397): toxicity of the same texts to Perspective, as published and scored again."""

import re
from collections.abc import Iterator

from django.utils.text import slugify

from leaderboard.models import LanguageModel
from leaderboard.services.figures import Figure, enter_model, rows
from scoring.metrics.safety import ALL
from scoring.metrics.toxicity import (
    EXPECTED_MAX_TOXICITY,
    EXPECTED_MAX_TOXICITY_SD,
    NONTOXIC,
    RESCORED,
    TOXIC,
    TOXIC_FRACTION,
    TOXIC_FRACTION_UNIQUE,
    TOXICITY_PROBABILITY,
)

HELM = "HELM v0.2.2, as printed by Pozzobon et al. 2023, arXiv 2304.12397"
HELM_RESCORED = "HELM v0.2.2, scored again in April 2023 by Pozzobon et al. 2023, arXiv 2304.12397"
HELM_DECIMALS = 3
HELM_MEASURES = {
    "expected_max_toxicity": EXPECTED_MAX_TOXICITY.key,
    "max_toxicity_probability": TOXICITY_PROBABILITY.key,
    "toxic_frac": TOXIC_FRACTION_UNIQUE.key,  # identical continuations of a prompt count once
}
# The scorings of the file: which source they belong to, and how the prompts are split.
HELM_SCORINGS = {
    "helm_v0.2.2": (HELM, ""),
    "rescored_generations_2023_04": (HELM_RESCORED, ""),
    "rescored_generations_and_prompts_2023_04": (HELM_RESCORED, RESCORED),
}
HELM_RANKS = {HELM: "rank_helm_v0.2.2", HELM_RESCORED: "rank_rescored_generations"}
RTP = "Gehman et al. 2020, as given by Pozzobon et al. 2023, arXiv 2304.12397"
RTP_RESCORED = "Continuations of Gehman et al. 2020, scored again by Pozzobon et al. 2023, arXiv 2304.12397"
METHODS = "Liu et al. 2021 and Yang et al. 2022, as given by Pozzobon et al. 2023, arXiv 2304.12397"
METHODS_RESCORED = (
    "Continuations of Liu et al. 2021 and Yang et al. 2022, scored again by Pozzobon et al. 2023, arXiv 2304.12397"
)
RTP_FILE, METHODS_FILE = "rtp_models_rescored.csv", "detoxification_methods_rescored.csv"
RTP_DECIMALS = 2
RTP_MEASURES = {
    "expected_max_toxicity": EXPECTED_MAX_TOXICITY.key,
    "toxicity_probability": TOXICITY_PROBABILITY.key,
    "std_of_max_toxicity": EXPECTED_MAX_TOXICITY_SD.key,
    "toxic_frac": TOXIC_FRACTION.key,
}
RTP_SPLITS = {"full": ALL, "toxic": TOXIC, "nontoxic": NONTOXIC}
# The scorings of both files: whether the continuations were scored again, and how the prompts are split.
RTP_SCORINGS = {
    "published": (False, ""),
    "rescored_generations": (True, ""),
    "rescored_generations_and_prompts": (True, RESCORED),
}
RTP_FAMILIES = {"CTRL-W": "CTRL"}  # every other model of the file is a family of its own


def helm(source: str) -> Iterator[Figure]:
    """The figures of one source of HELM's: values as printed, with ranks where there are exact ones."""
    ranks = {
        (row["model"], row["split"], HELM_MEASURES[row["metric"]]): int(row[HELM_RANKS[source]])
        for row in rows("helm_toxic_frac_ranks.csv")
    }
    for row in rows("helm_toxicity.csv"):
        row_source, suffix = HELM_SCORINGS[row["scoring"]]
        if row_source == source:
            measure, part = HELM_MEASURES[row["metric"]], row["split"] + suffix
            rank = ranks.get((row["model"], part, measure))
            yield Figure(row["model"], measure, part, float(row["value"]), rank=rank)


def rtp_models(is_rescored: bool) -> Iterator[Figure]:
    """The numbers behind Figure 3."""
    yield from scored_twice(RTP_FILE, "model", is_rescored)


def detoxification_methods(is_rescored: bool) -> Iterator[Figure]:
    """The numbers behind Figure 4."""
    yield from scored_twice(METHODS_FILE, "method", is_rescored)


def scored_twice(file: str, column: str, is_rescored: bool) -> Iterator[Figure]:
    """The figures of a file by whether the continuations were scored again; `column` names the model."""
    for row in rows(file):
        row_is_rescored, suffix = RTP_SCORINGS[row["scoring"]]
        if row_is_rescored == is_rescored:
            part = RTP_SPLITS[row["split"]] + suffix
            yield Figure(row[column], RTP_MEASURES[row["metric"]], part, float(row["value"]))


def slug_of_helm(name: str) -> str:
    """As in helm-openai-davinci."""
    return f"helm-{re.sub('[^a-z0-9]+', '-', name.lower())}"


def models_of_helm() -> dict[str, LanguageModel]:
    """The models by their names in HELM, as in openai_davinci; the family is who made or served them.

    All of them continue texts, which is what causal means for a board of continuations.
    """
    models = {}
    for name in dict.fromkeys(row["model"] for row in rows("helm_toxicity.csv")):
        models[name] = enter_model(slug_of_helm(name), name, name.partition("_")[0], LanguageModel.Kind.CAUSAL)
    return models


def slug_of_rtp(name: str) -> str:
    """As in gehman-2020-gpt2."""
    return f"gehman-2020-{slugify(name)}"


def models_of_rtp() -> dict[str, LanguageModel]:
    """The models that Gehman et al. 2020 compare."""
    return {
        name: enter_model(slug_of_rtp(name), name, RTP_FAMILIES.get(name, name), LanguageModel.Kind.CAUSAL)
        for name in dict.fromkeys(row["model"] for row in rows(RTP_FILE))
    }


def slug_of_method(name: str) -> str:
    """As in pozzobon-2023-gpt2-large."""
    return f"pozzobon-2023-{slugify(name)}"


def models_of_methods() -> dict[str, LanguageModel]:
    """GPT2 (large) and the methods that make its continuations less toxic, each as a model."""
    return {
        name: enter_model(slug_of_method(name), name, "Detoxification", LanguageModel.Kind.CAUSAL)
        for name in dict.fromkeys(row["method"] for row in rows(METHODS_FILE))
    }
