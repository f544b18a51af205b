"""Published figures: from the CSV files of `leaderboard/published/` to entries with a provenance of their own."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from leaderboard.models import AuditVerb, LanguageModel, Metric, MetricVersion, Provenance, Result, Scoring, Work
from leaderboard.services.audit import record
from leaderboard.services.publish import publish_standings
from leaderboard.services.versions import next_number
from scoring.fingerprints import fingerprint
from scoring.metrics.approximate_safety import Moments, Toxicities, approximate_auc, approximate_indifference
from scoring.metrics.safety import ALL, AVERAGE, LIKELIHOOD_AUC, SAFETY_EXCESS, SAFETY_INDIFFERENT, SAFETY_SCORE
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
    """One published number; or `derived`, which its source does not print: worked out here from what it prints."""

    model: str
    measure: str
    slice: str
    value: float
    n: int | None = None
    rank: int | None = None
    derived: bool = False


@dataclass(frozen=True)
class SourceFigures:
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
    yield from derived_of_hosseini()


def derived_of_hosseini() -> Iterator[Figure]:
    """Likelihood AUC, indifferent value and excess that follow from Table 9, log-perplexities taken to be normal."""
    scores = {
        row["model"]: float(row["mean_safety_score_full"])
        for row in rows("safety_scores_toxigen_averages.csv")
        if row["over"] == "model"
    }
    moments: dict[str, dict[str, Moments]] = {}
    for row in rows("log_perplexity.csv"):
        moments.setdefault(row["model"], {})[row["label"]] = Moments(float(row["mean"]), float(row["std"]))
    toxicities = toxicities_of_toxigen()
    for model, by_label in moments.items():
        harmful, benign = by_label["harmful"], by_label["benign"]
        indifferent = approximate_indifference(harmful, benign, toxicities)
        for measure, value in (
            (LIKELIHOOD_AUC, approximate_auc(harmful, benign)),
            (SAFETY_INDIFFERENT, indifferent),
            (SAFETY_EXCESS, scores[model] - indifferent),
        ):
            yield Figure(model, measure.key, AVERAGE, value, derived=True)


def toxicities_of_toxigen() -> list[Toxicities]:
    """The toxicities of each demographic's texts in the paper's evaluation set, from counts of them."""
    by_group: dict[str, dict[str, list[float]]] = {}
    for row in rows("toxigen_toxicities.csv"):
        by_label = by_group.setdefault(row["target_group"], {"harmful": [], "benign": []})
        by_label[row["label"]] += [float(row["toxicity"])] * int(row["texts"])
    return [Toxicities(np.array(texts["harmful"]), np.array(texts["benign"])) for texts in by_group.values()]


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
        row_source, suffix = HELM_SCORINGS[row["scoring"]]
        if row_source == source:
            measure, part = HELM_MEASURES[row["metric"]], row["split"] + suffix
            rank = ranks.get((row["model"], part, measure))
            yield Figure(row["model"], measure, part, float(row["value"]), rank=rank)


def seed_published() -> list[MetricVersion]:
    """Enter all published figures, once, and to boards that have them those that are derived. Returns the versions."""
    return [publish(publication) for publication in PUBLICATIONS]


@transaction.atomic
def publish(publication: SourceFigures) -> MetricVersion:
    """The published version with the figures of `publication`; made and ranked if there is none yet.

    What is printed never changes once entered. Derived figures are ours: a version that lacks them gets them.
    """
    metric, source = Metric.objects.get(slug=publication.metric), publication.source
    existing_version = MetricVersion.objects.filter(
        metric=metric, provenance=Provenance.PUBLISHED, source=source
    ).first()
    if existing_version:
        add_derived(existing_version, publication)
        return existing_version
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
    moment = timezone.now()
    new_scorings = Scoring.objects.bulk_create(
        Scoring(model=models[name], metric_version=version, state=Work.State.DONE, scored_at=moment, finished_at=moment)
        for name in dict.fromkeys(figure.model for figure in figures)
    )
    scorings = {scoring.model.pk: scoring for scoring in new_scorings}
    Result.objects.bulk_create(result_of(figure, scorings[models[figure.model].pk]) for figure in figures)
    publish_standings(version)
    record(
        AuditVerb.PUBLISH_VERSION,
        f"metric {metric.slug}",
        {"version": version.number, "entries": len(scorings), "source": source},
    )
    return version


def result_of(figure: Figure, scoring: Scoring) -> Result:
    """The figure as a result, not saved."""
    return Result(
        scoring=scoring,
        measure=figure.measure,
        slice=figure.slice,
        value=figure.value,
        n=figure.n,
        published_rank=figure.rank,
        derived=figure.derived,
    )


def add_derived(version: MetricVersion, publication: SourceFigures) -> None:
    """Enter the derived figures that a version entered before lacks, and rank it with them."""
    scorings = {scoring.model.slug: scoring for scoring in version.scorings.select_related("model")}
    entered_keys = set(
        Result.objects.filter(scoring__metric_version=version, derived=True).values_list(
            "scoring__model__slug", "measure", "slice"
        )
    )
    new_results = [
        result_of(figure, scorings[publication.slug(figure.model)])
        for figure in publication.figures()
        if figure.derived and (publication.slug(figure.model), figure.measure, figure.slice) not in entered_keys
    ]
    if not new_results:
        return
    Result.objects.bulk_create(new_results)
    publish_standings(version)
    detail = {"version": version.number, "results": len(new_results)}
    record(AuditVerb.ADD_DERIVED_FIGURES, f"metric {version.metric.slug}", detail)


def slug_of_hosseini(name: str) -> str:
    """As in hosseini-2023-gpt-2."""
    return f"hosseini-2023-{slugify(name)}"


def models_of_hosseini() -> dict[str, LanguageModel]:
    """The models of Hosseini et al. by their names in Table 1, with the architecture of Table 13 where it has one."""
    architectures = {row["model"]: row for row in rows("architectures.csv")}
    models = {}
    for name in dict.fromkeys(row["model"] for row in rows("safety_scores_toxigen.csv")):
        family, kind = next((family, kind) for start, family, kind in FAMILIES if name.startswith(start))
        architecture: dict[str, Any] = architectures.get(name, {})
        models[name], _ = LanguageModel.objects.get_or_create(
            slug=slug_of_hosseini(name),
            defaults={
                "name": name,
                "family": family,
                "kind": kind,
                "source": LanguageModel.Source.PUBLISHED,
                "layers": architecture.get("layers"),
                "heads": architecture.get("attention_heads"),
                "hidden_size": architecture.get("hidden_dim"),
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
    SourceFigures("safety-toxigen", HOSSEINI, hosseini_toxigen, slug_of_hosseini, models_of_hosseini),
    SourceFigures("safety-implicit-hate", HOSSEINI, hosseini_implicit_hate, slug_of_hosseini, models_of_hosseini),
    *(
        SourceFigures(
            "rtp-helm-perspective", source, partial(helm, source), slug_of_helm, models_of_helm, HELM_DECIMALS
        )
        for source in (HELM, HELM_RESCORED)
    ),
)
