"""Published figures: from the CSV files of `leaderboard/published/` to entries with a provenance of their own."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result, Scoring, Work
from leaderboard.services.audit import record
from leaderboard.services.publish import publish_standings
from leaderboard.services.versions import fingerprint, next_number
from scoring.metrics.safety import ALL, AVERAGE, SAFETY_SCORE
from scoring.metrics.toxicity import EXPECTED_MAX_TOXICITY, RESCORED, TOXIC_FRACTION_UNIQUE, TOXICITY_PROBABILITY

FOLDER = Path(__file__).parent.parent / "published"
HOSSEINI = "Hosseini, Palangi & Awadallah 2023, arXiv 2301.09211"
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
class Figure:
    """One published number."""

    model: str
    measure: str
    slice: str
    value: float
    n: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Publication:
    """What one source prints of one metric.

    `slug` is that of a language model by its name in the figures; `models` enters them, and gives them by that name.
    """

    metric: str
    source: str
    figures: Callable[[], Iterator[Figure]]
    slug: Callable[[str], str]
    models: Callable[[], dict[str, LanguageModel]]
    decimals: int | None = None


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a published file, values as printed."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def hosseini_toxigen() -> Iterator[Figure]:
    """Tables 1 and 9, with the averages of the paper's repository."""
    for row in rows("safety_scores_toxigen.csv"):
        n = int(row["n_harmful"]) + int(row["n_benign"])
        yield Figure(row["model"], SAFETY_SCORE.key, row["target_group"], float(row["safety_score_full"]), n)
    for row in rows("safety_scores_toxigen_averages.csv"):
        if row["over"] == "model":
            yield Figure(row["model"], SAFETY_SCORE.key, AVERAGE, float(row["mean_safety_score_full"]))
    for row in rows("log_perplexity.csv"):
        key = f"log_perplexity_{row['label']}"
        yield Figure(row["model"], key, AVERAGE, float(row["mean"]))
        yield Figure(row["model"], f"{key}_sd", AVERAGE, float(row["std"]))


def hosseini_implicit_hate() -> Iterator[Figure]:
    """Table 10."""
    for row in rows("safety_scores_implicit_hate.csv"):
        yield Figure(row["model"], SAFETY_SCORE.key, ALL, float(row["safety_score"]), 14_200)


def helm(source: str) -> Iterator[Figure]:
    """The figures of one source of HELM's: values as printed, with ranks where there are exact ones."""
    ranks = {
        (row["model"], row["split"], HELM_MEASURES[row["metric"]]): int(row[HELM_RANKS[source]])
        for row in rows("helm_toxic_frac_ranks.csv")
    }
    for row in rows("helm_toxicity.csv"):
        of, suffix = HELM_SCORINGS[row["scoring"]]
        if of == source:
            measure, part = HELM_MEASURES[row["metric"]], row["split"] + suffix
            rank = ranks.get((row["model"], part, measure))
            yield Figure(row["model"], measure, part, float(row["value"]), rank=rank)


def seed_published() -> list[MetricVersion]:
    """Enter all published figures, once. Returns their metric versions."""
    return [publish(publication) for publication in PUBLICATIONS]


@transaction.atomic
def publish(publication: Publication) -> MetricVersion:
    """The published version with the figures of `publication`; made and ranked if there is none yet."""
    metric, source = Metric.objects.get(slug=publication.metric), publication.source
    found = MetricVersion.objects.filter(metric=metric, provenance=Provenance.PUBLISHED, source=source).first()
    if found:
        return found
    version = MetricVersion.objects.create(
        metric=metric,
        number=next_number(metric),
        provenance=Provenance.PUBLISHED,
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint=fingerprint({"published": source}),
        formula_version=metric.formula.version,
        source=source,
        decimals=publication.decimals,
    )
    figures, models = list(publication.figures()), publication.models()
    now = timezone.now()
    made = Scoring.objects.bulk_create(
        Scoring(model=models[name], metric_version=version, state=Work.State.DONE, scored_at=now, finished_at=now)
        for name in dict.fromkeys(figure.model for figure in figures)
    )
    scorings = {scoring.model.pk: scoring for scoring in made}
    Result.objects.bulk_create(
        Result(
            scoring=scorings[models[figure.model].pk],
            measure=figure.measure,
            slice=figure.slice,
            value=figure.value,
            n=figure.n,
            published_rank=figure.rank,
        )
        for figure in figures
    )
    publish_standings(version)
    record(
        "publish version",
        f"metric {metric.slug}",
        {"version": version.number, "entries": len(scorings), "source": source},
    )
    return version


def slug_of_hosseini(name: str) -> str:
    """As in hosseini-2023-gpt-2."""
    return f"hosseini-2023-{slugify(name)}"


def models_of_hosseini() -> dict[str, LanguageModel]:
    """The models of Hosseini et al. by their names in Table 1, with the architecture of Table 13 where it has one."""
    architectures = {row["model"]: row for row in rows("architectures.csv")}
    models = {}
    for name in dict.fromkeys(row["model"] for row in rows("safety_scores_toxigen.csv")):
        family, kind = next((family, kind) for start, family, kind in FAMILIES if name.startswith(start))
        known: dict[str, Any] = architectures.get(name, {})
        models[name], _ = LanguageModel.objects.get_or_create(
            slug=slug_of_hosseini(name),
            defaults={
                "name": name,
                "family": family,
                "kind": kind,
                "source": LanguageModel.Source.PUBLISHED,
                "layers": known.get("layers"),
                "heads": known.get("attention_heads"),
                "hidden_size": known.get("hidden_dim"),
            },
        )
    return models


def slug_of_helm(name: str) -> str:
    """As in helm-openai-davinci."""
    return f"helm-{re.sub('[^a-z0-9]+', '-', name.lower())}"


def models_of_helm() -> dict[str, LanguageModel]:
    """The models by their names in HELM, as in openai_davinci; the family is who made or served them.

    All of them continue texts, which is what causal means for a board of continuations.
    """
    models = {}
    for name in dict.fromkeys(row["model"] for row in rows("helm_toxicity.csv")):
        models[name], _ = LanguageModel.objects.get_or_create(
            slug=slug_of_helm(name),
            defaults={
                "name": name,
                "family": name.partition("_")[0],
                "kind": LanguageModel.Kind.CAUSAL,
                "source": LanguageModel.Source.PUBLISHED,
            },
        )
    return models


# In the order of the metric versions that they become.
PUBLICATIONS = (
    Publication("safety-toxigen", HOSSEINI, hosseini_toxigen, slug_of_hosseini, models_of_hosseini),
    Publication("safety-implicit-hate", HOSSEINI, hosseini_implicit_hate, slug_of_hosseini, models_of_hosseini),
    *(
        Publication("rtp-helm-perspective", source, partial(helm, source), slug_of_helm, models_of_helm, HELM_DECIMALS)
        for source in (HELM, HELM_RESCORED)
    ),
)
