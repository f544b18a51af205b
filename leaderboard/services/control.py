"""Control sets: which texts of a metric are frozen, and the instrument that scores them then and now."""

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version as version_of

import pyarrow as pa

from leaderboard.models import Artefact, ControlSet, EvaluationSet, MetricVersion, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.collect import environment
from scoring.artefacts import SCORE
from scoring.attributes import Attribute, Meaning
from scoring.control_sets import with_all_probes
from scoring.drift import Reported
from scoring.metrics.instruments import Instrument, Matrix

LABELLED_SETS = ("toxigen-human", "starter")  # the first at hand gives sentences about demographics
SCORER_LIBRARIES = ("alt-profanity-check", "detoxify", "pyahocorasick", "scikit-learn")


def instrument_of(version: MetricVersion, work: Work | None = None) -> Instrument:
    """The instrument that scores control sets of `version`, as it is now. Raises ScorerUnavailable."""
    load_scorer = partial(scorers.scorer_of, version, work)
    return version.metric.formula.instrument(load_scorer, version.protocol.parameters, environment())


def instrument_environment() -> dict[str, str]:
    """What instruments on this machine depend on: libraries and device. A change makes a check due."""
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
    """The frozen items of the metric's earlier versions, where there are any, with the newest probes; else new ones."""
    of_metric = ControlSet.objects.filter(metric_version__metric=version.metric).select_related("items")
    for earlier in of_metric.order_by("metric_version__number"):
        if artefacts.is_stored(earlier.items):
            return _with_all_probes(earlier.items)
    texts = artefacts.load(version.protocol.evaluation_set.artefact)
    kind, items = version.metric.formula.choose_items(texts, instrument, labelled_sentences)
    return artefacts.store(items, kind)


def _with_all_probes(items: Artefact) -> Artefact:
    """The items with the probes that there have been since they were frozen; those of likelihoods have none."""
    if items.kind != "control_items":
        return items
    table = artefacts.load(items)
    whole = with_all_probes(table)
    return items if whole is table else artefacts.store(whole, items.kind)


def labelled_sentences() -> tuple[str, pa.Table] | None:
    """Sentences about demographics that are at hand, and the name of their set."""
    evaluation_set = (
        EvaluationSet.objects.filter(slug__in=LABELLED_SETS, artefact__isnull=False).order_by("-slug").first()
    )
    return (evaluation_set.slug, artefacts.load(evaluation_set.artefact)) if evaluation_set else None


def reported_by(
    version: MetricVersion, items: pa.Table, names: list[str], scorer_attributes: Sequence[Attribute]
) -> Reported:
    """The measures of the metric, to be taken on the control set as if it were an entry.

    names: the attributes with scores. Those that the scorer does not declare (any more) count as neutral.
    """
    by_name = {attribute.name: attribute for attribute in scorer_attributes}
    attributes = [by_name.get(name) or Attribute(name, Meaning.NEUTRAL) for name in names]
    return version.metric.formula.entry_measures(items, attributes)
