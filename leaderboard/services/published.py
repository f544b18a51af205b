"""Published figures: from the CSV files of `leaderboard/published/` to entries with a provenance of their own."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result, Scoring, Work
from leaderboard.services.publish import publish_standings
from leaderboard.services.versions import fingerprint, next_number
from scoring.metrics.safety import ALL, AVERAGE, SAFETY_SCORE

FOLDER = Path(__file__).parent.parent / "published"
HOSSEINI = "Hosseini, Palangi & Awadallah 2023, arXiv 2301.09211"

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


def seed_published() -> list[MetricVersion]:
    """Enter all published figures, once. Returns their metric versions."""
    sets = {"safety-toxigen": hosseini_toxigen, "safety-implicit-hate": hosseini_implicit_hate}
    return [publish(Metric.objects.get(slug=slug), list(read()), HOSSEINI) for slug, read in sets.items()]


@transaction.atomic
def publish(metric: Metric, figures: list[Figure], source: str) -> MetricVersion:
    """The published version of `metric` with these figures from `source`; made and ranked if there is none yet."""
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
    )
    models = published_models()
    now = timezone.now()
    scorings = {
        name: Scoring.objects.create(
            model=models[name], metric_version=version, state=Work.State.DONE, scored_at=now, finished_at=now
        )
        for name in dict.fromkeys(figure.model for figure in figures)
    }
    Result.objects.bulk_create(
        Result(
            scoring=scorings[figure.model],
            measure=figure.measure,
            slice=figure.slice,
            value=figure.value,
            n=figure.n,
        )
        for figure in figures
    )
    publish_standings(version)
    return version


def published_models() -> dict[str, LanguageModel]:
    """The models of Hosseini et al. by their names in Table 1, with the architecture of Table 13 where it has one."""
    architectures = {row["model"]: row for row in rows("architectures.csv")}
    models = {}
    for name in dict.fromkeys(row["model"] for row in rows("safety_scores_toxigen.csv")):
        family, kind = next((family, kind) for start, family, kind in FAMILIES if name.startswith(start))
        known: dict[str, Any] = architectures.get(name, {})
        models[name], _ = LanguageModel.objects.get_or_create(
            slug=f"hosseini-2023-{slugify(name)}",
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
