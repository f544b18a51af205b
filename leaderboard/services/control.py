"""Control sets: which texts of a metric are frozen, and the instrument that scores them then and now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version as version_of

import numpy as np
import pyarrow as pa
from django.conf import settings
from numpy.typing import NDArray

from leaderboard.models import Artefact, ControlSet, EvaluationSet, MetricVersion, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.collect import environment
from leaderboard.services.versions import fingerprint
from scoring import control_sets, language_models, likelihood
from scoring.artefacts import SCORE
from scoring.attributes import Attribute, Meaning
from scoring.control_sets import Candidates
from scoring.drift import Reported, Safety, lexicon_measures, regard_measures, toxicity_measures
from scoring.language_models import BUNDLED
from scoring.likelihood import LikelihoodSettings
from scoring.metrics.lexicon_frequency import ANY
from scoring.metrics.safety import Texts
from scoring.scorers import Scorer

Matrix = NDArray[np.float32]

# What likelihoods are watched with: a causal and a masked model that come with Plumbline, so that a change of the
# libraries or of the device shows in either way of computing them.
WATCHED_MODELS = ("plumb-gpt2-l2-h128", "plumb-bert-l2-h128")
LABELLED_SETS = ("toxigen-human", "starter")  # the first at hand gives sentences about demographics
MOST_SENTENCES = 400  # of them are candidates for the control set of a scorer
MOST_PROMPTS = 2_000  # of those that a model continues are candidates, too
FEWEST_SENTENCES = 200  # in a control set of likelihoods, which are slow
REMOTE_REPLICATES = 9  # at an opening, of a scorer that costs quota; OPENING_REPLICATES of any other
LIKELIHOOD_REPLICATES = 5
LIKELIHOOD_ROUNDING = 1e-4  # of log-perplexities: what other numbers of threads and batch sizes may change
SCORER_LIBRARIES = ("alt-profanity-check", "detoxify", "pyahocorasick", "scikit-learn")
SEED = 20231116


@dataclass(frozen=True)
class Instrument:
    """What control sets of a version are scored with, as it is now; `fingerprint` is of all that it is made of."""

    attributes: list[str]
    fingerprint: str
    environment: dict[str, str]
    score: Callable[[Sequence[str]], Matrix]  # texts to [n, attributes], NaN where a text has no score
    replicates: int  # at an opening
    rounding: float = 0.0  # differences that count as none
    spread: float = 0.0  # seconds over which an opening spreads its replicates
    declared: tuple[Attribute, ...] = ()  # what a scorer declares of its attributes


def instrument_of(version: MetricVersion, work: Work | None = None) -> Instrument:
    """The scorer of `version`, or, for likelihoods, the watched models. Raises ScorerUnavailable."""
    if not version.metric.formula.asks_scorer:
        return _likelihood_instrument(version)
    return _scorer_instrument(scorers.scorer_of(version, work))


def _scorer_instrument(scorer: Scorer) -> Instrument:
    kept = [
        number for number, name in enumerate(scorer.attribute_names) if name != ANY
    ]  # any is the largest of the others

    def score(texts: Sequence[str]) -> Matrix:
        return scorer.score(list(texts)).values[:, kept]

    return Instrument(
        attributes=[scorer.attribute_names[number] for number in kept],
        fingerprint=scorer.fingerprint(),
        environment=here(),
        score=score,
        replicates=min(settings.OPENING_REPLICATES, REMOTE_REPLICATES) if scorer.cost else settings.OPENING_REPLICATES,
        spread=settings.OPENING_SPREAD_SECONDS if scorer.cost else 0.0,
        declared=scorer.attributes,
    )


def _likelihood_instrument(version: MetricVersion) -> Instrument:
    how = LikelihoodSettings(**version.protocol.parameters)
    models = [language_models.resolve(str(BUNDLED / name)) for name in WATCHED_MODELS]
    watched = [
        language_models.load(model.source, model.location, model.revision, precision=how.precision) for model in models
    ]

    def score(texts: Sequence[str]) -> Matrix:
        columns = []
        for loaded in watched:
            found = likelihood.token_log_likelihoods(loaded, texts, how)
            columns.append([np.nan if (value := item.log_perplexity) is None else value for item in found])
        return np.array(columns, dtype=np.float32).T

    made_of = {"models": [model.revision for model in models], "environment": environment()}
    replicates = min(settings.OPENING_REPLICATES, LIKELIHOOD_REPLICATES)
    return Instrument(
        list(WATCHED_MODELS), fingerprint(made_of), here(), score, replicates, rounding=LIKELIHOOD_ROUNDING
    )


def here() -> dict[str, str]:
    """What instruments of this machine depend on: libraries and device. Other than before: look at them again."""
    return environment() | {name: version_of(name) for name in SCORER_LIBRARIES}


def scores_artefact(ids: list[str], values: Matrix, attributes: list[str]) -> Artefact:
    """Scores of a control set, stored."""
    columns = {
        "id": pa.array(ids, pa.string()),
        "index": pa.nulls(len(ids), pa.int32()),
        "reason": pa.nulls(len(ids), pa.string()),
        "truncated": pa.array([False] * len(ids)),
    }
    for number, name in enumerate(attributes):
        columns[SCORE + name] = pa.array(values[:, number], pa.float32(), from_pandas=True)
    return artefacts.store(pa.table(columns), "scores")


def choose_items(version: MetricVersion, instrument: Instrument) -> Artefact:
    """The items of the metric's earlier versions, where there are any: they are frozen; else ones chosen now."""
    of_metric = ControlSet.objects.filter(metric_version__metric=version.metric).select_related("items")
    for earlier in of_metric.order_by("metric_version__number"):
        if artefacts.is_stored(earlier.items):
            return earlier.items
    texts = artefacts.load(version.protocol.evaluation_set.artefact)
    if not version.metric.formula.asks_scorer:
        candidates = _of_sentences(texts)
        chosen = {item.id for item in control_sets.choose(candidates, FEWEST_SENTENCES)}
        return artefacts.store(texts.filter([id_ in chosen for id_ in candidates.ids]), "labelled_sentences")
    chosen_items = control_sets.choose(_of_scored(texts, instrument))
    return artefacts.store(control_sets.to_table(chosen_items), "control_items")


def _of_sentences(texts: pa.Table) -> Candidates:
    return Candidates(
        texts["id"].to_pylist(),
        texts["text"].to_pylist(),
        texts["demographics"].to_pylist(),
        harmful=np.array(texts["harmful"].to_pylist(), dtype=bool),
    )


def _of_scored(prompts: pa.Table, instrument: Instrument) -> Candidates:
    """Prompts and sentences about demographics, some of each, scored now."""
    prompts = _some(prompts, MOST_PROMPTS)
    ids, texts = prompts["id"].to_pylist(), prompts["text"].to_pylist()
    groups = [(group,) if group else () for group in prompts["group"].to_pylist()]
    labelled = EvaluationSet.objects.filter(slug__in=LABELLED_SETS, artefact__isnull=False).order_by("-slug").first()
    if labelled:
        sentences = _some(artefacts.load(labelled.artefact), MOST_SENTENCES)
        ids += [f"{labelled.slug}:{id_}" for id_ in sentences["id"].to_pylist()]
        texts += sentences["text"].to_pylist()
        groups += [tuple(names) for names in sentences["demographics"].to_pylist()]
    scores = _harm(instrument, instrument.attributes, instrument.score(texts))
    return Candidates(ids, texts, groups, scores=scores)


def _some(table: pa.Table, most: int) -> pa.Table:
    """At most so many rows, drawn at random, in their order."""
    return table.take(np.sort(np.random.default_rng(SEED).permutation(table.num_rows)[:most]))


def _harm(instrument: Instrument, names: list[str], values: Matrix) -> NDArray[np.float64]:
    """The scores that candidates are stratified by, [n]: of any harm or of toxicity, else the worst of all harms."""
    harms = {attribute.name for attribute in instrument.declared if attribute.meaning == Meaning.HARM}
    columns = [number for number, name in enumerate(names) if name in harms] or list(range(len(names)))
    main = [number for number in columns if names[number].lower() in (ANY, "toxicity")]
    return np.asarray(values[:, main or columns].max(axis=1), dtype=np.float64)


def reported_by(version: MetricVersion, items: pa.Table, names: list[str], declared: Sequence[Attribute]) -> Reported:
    """The measures of the metric, to be taken on the control set as if it were an entry.

    names: of the attributes that there are scores of; what their scorer does not declare (any more) is described.
    """
    by_name = {attribute.name: attribute for attribute in declared}
    attributes = [by_name.get(name) or Attribute(name, Meaning.NEUTRAL) for name in names]
    match version.metric.formula_name:
        case "safety":
            return Safety(Texts.from_table(items), names)
        case "lexicon_frequency":
            return lexicon_measures(names)
        case "regard":
            return regard_measures(attributes)
        case _:
            return toxicity_measures(attributes)
