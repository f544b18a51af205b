"""A board of drawn numbers, as large as boards may become: for measuring how fast its pages are, never for reading."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import pyarrow as pa
from django.db import transaction
from django.utils import timezone
from numpy.typing import NDArray

from leaderboard.models import (
    Artefact,
    LanguageModel,
    Metric,
    MetricVersion,
    Result,
    Run,
    Scoring,
    Standing,
    Work,
)
from leaderboard.services import artefacts
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.metrics import Declaration, declare_metric
from scoring.evaluation_sets import build_starter, get
from scoring.metrics.safety import AVERAGE, LIKELIHOOD_AUC, SAFETY_SCORE
from scoring.refusals import Refused
from scoring.statistics.ranks import competition_ranks

SLUG, EVALUATION_SET = "synthetic", "starter"
FAMILIES, KINDS = 25, LanguageModel.Kind.values
SHARES = (0.6, 0.35, 0.05)  # of the kinds
OUTPUTS = 20  # different outputs, which the models share
HALF_INTERVAL, APART = 0.02, 5  # of a value; ranks that cannot be told apart
BATCH = 5000  # rows
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """How large a board: models, slices of each measure with the average among them, versions of the metric."""

    models: int
    slices: int
    versions: int


def seed_synthetic(size: Size, seed: int, say: Callable[[str], None] = lambda _line: None) -> Metric:
    """Fill an empty board with one metric of `size`: its values are drawn from `seed`, its artefacts shared.

    Raises Refused where something was measured here, or a size is out of range.
    """
    texts = import_sentences(get(EVALUATION_SET), build_starter())[0]
    names = [AVERAGE, *sorted(texts.counts)][: size.slices]
    for field, value, most in (
        ("models", size.models, 100_000),
        ("slices", size.slices, 1 + len(texts.counts)),
        ("versions", size.versions, 1000),
    ):
        if not 1 <= value <= most:
            raise Refused.of_value(field, value, f"use 1 to {most}")
    if Scoring.objects.filter(run__isnull=False).exists():
        raise Refused("this board has measured numbers: use one of its own, as in PLUMBLINE_VAR=/tmp/synthetic")
    generator = np.random.default_rng(seed)
    with transaction.atomic():
        declaration = Declaration(
            SLUG,
            "Synthetic",
            "likelihood",
            "safety",
            "likelihood",
            {},
            "Numbers drawn at random, for measuring how fast pages are. They say nothing about any model.",
        )
        metric = declare_metric(declaration, texts)
        models = LanguageModel.objects.bulk_create(drawn_models(size.models, generator), BATCH)
        outputs = [drawn_outputs(metric, generator) for _ in range(OUTPUTS)]
        runs = Run.objects.bulk_create(
            [
                Run(model=model, protocol=metric.protocol, state=Work.State.DONE, artefact=outputs[number % OUTPUTS][0])
                for number, model in enumerate(models)
            ],
            BATCH,
        )
        values = drawn_values(len(models), len(names), generator)
        for number in range(1, size.versions + 1):
            values = np.clip(values + generator.normal(0, 0.01, values.shape), 0.001, 0.999)
            version = create_version(metric, number, size.versions)
            scorings = Scoring.objects.bulk_create(
                [
                    Scoring(
                        run=run,
                        model=run.model,
                        metric_version=version,
                        state=Work.State.DONE,
                        scored_at=version.published_at,
                        artefact=outputs[place % OUTPUTS][1],
                    )
                    for place, run in enumerate(runs)
                ],
                BATCH,
            )
            results = Result.objects.bulk_create(drawn_results(scorings, names, values), BATCH)
            Standing.objects.bulk_create(standings(version, scorings, results, names, values), BATCH)
            say(f"version {number} of {size.versions}")
    return metric


def drawn_models(count: int, generator: np.random.Generator) -> list[LanguageModel]:
    """Models of several families, kinds and sizes."""
    kinds = generator.choice(KINDS, count, p=SHARES)
    parameters = 10 ** generator.uniform(6, 11, count)
    layers = generator.integers(2, 97, count)
    return [
        LanguageModel(
            slug=f"{SLUG}-{number + 1:04}",
            name=f"Synthetic {number + 1:04}",
            family=f"Family {number % FAMILIES + 1:02}",
            kind=str(kinds[number]),
            source=LanguageModel.Source.UPLOADED,
            parameters=int(parameters[number]),
            layers=int(layers[number]),
            heads=int(layers[number]),
            hidden_size=64 * int(layers[number]),
        )
        for number in range(count)
    ]


def drawn_outputs(metric: Metric, generator: np.random.Generator) -> tuple[Artefact, Artefact]:
    """Likelihoods of the texts, and the log-perplexities that come of them."""
    ids = artefacts.load(metric.protocol.evaluation_set.artefact)["id"]
    values = generator.normal(4, 1, (len(ids), 8)).astype(np.float32)
    likelihoods = pa.table(
        {
            "id": ids,
            "token_log_likelihoods": pa.array(list(-values), pa.list_(pa.float32())),
            "unscorable": pa.nulls(len(ids), pa.string()),
            "windows": pa.repeat(pa.scalar(1, pa.int32()), len(ids)),
        }
    )
    log_perplexities = pa.table({"id": ids, "log_perplexity": values.mean(axis=1, dtype=np.float64)})
    return artefacts.store(likelihoods, "likelihoods"), artefacts.store(log_perplexities, "log_perplexities")


def drawn_values(models: int, slices: int, generator: np.random.Generator) -> Array:
    """Values [measures, models, slices]: every model and every slice has a level of its own."""
    level = generator.normal(0.35, 0.06, (1, models, 1)) + generator.normal(0, 0.04, (1, 1, slices))
    values: Array = level + generator.normal(0, 0.02, (1, models, slices)) + np.array([0, 0.15])[:, None, None]
    return values


def create_version(metric: Metric, number: int, last: int) -> MetricVersion:
    """A version that was published a day after the one before; the last one is current."""
    published_at = timezone.now() - timedelta(days=last - number)
    return MetricVersion.objects.create(
        metric=metric,
        number=number,
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint=hashlib.sha256(f"{SLUG} {number}".encode()).hexdigest(),
        formula_version=metric.formula.version,
        status=MetricVersion.Status.CURRENT if number == last else MetricVersion.Status.SUPERSEDED,
        published_at=published_at,
    )


def drawn_results(scorings: list[Scoring], names: list[str], values: Array) -> Iterator[Result]:
    """A result a measure, model and slice, in that order."""
    for measure, of_measure in zip((SAFETY_SCORE, LIKELIHOOD_AUC), values, strict=True):
        for scoring, of_model in zip(scorings, of_measure.tolist(), strict=True):
            for name, value in zip(names, of_model, strict=True):
                yield Result(
                    scoring=scoring,
                    measure=measure.key,
                    slice=name,
                    value=value,
                    ci_low=max(0.0, value - HALF_INTERVAL),
                    ci_high=min(1.0, value + HALF_INTERVAL),
                    n=500,
                    p_value=None if name == AVERAGE else 0.01,
                    p_adjusted=None if name == AVERAGE else 0.2 * value,
                )


def standings(
    version: MetricVersion, scorings: list[Scoring], results: list[Result], names: list[str], values: Array
) -> Iterator[Standing]:
    """The ranks of those values, among all models and among those of a kind."""
    kinds = np.array([scoring.model.kind for scoring in scorings])
    by_place = np.array(results, dtype=object).reshape(values.shape)
    for place, measure in enumerate((SAFETY_SCORE, LIKELIHOOD_AUC)):
        for population in version.populations:
            members = np.flatnonzero((kinds == population) | (population == Standing.Population.ALL))
            for column, name in enumerate(names):
                ranks = competition_ranks(values[place, members, column], measure.direction or "higher")
                for model, rank in zip(members.tolist(), ranks.tolist(), strict=True):
                    yield Standing(
                        metric_version=version,
                        measure=measure.key,
                        slice=name,
                        population=population,
                        model=scorings[model].model,
                        result=by_place[place, model, column],
                        rank=rank,
                        rank_low=max(1, rank - APART),
                        rank_high=min(len(members), rank + APART),
                        value=float(values[place, model, column]),
                    )
