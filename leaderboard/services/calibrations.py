"""Calibrating scorers: they score the labelled texts of the board, and the labels say how right they are."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.db import transaction
from django.db.models import Max
from numpy.typing import NDArray

from leaderboard.models import Artefact, Calibration, EvaluationSet, MetricVersion, Provenance, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.devices import describe_machine
from leaderboard.services.folders import name_of_scorer
from leaderboard.services.leases import claim, give_back_if_unable
from leaderboard.services.queue import enqueue
from scoring.artefacts import SCORE
from scoring.attributes import harms_of
from scoring.evaluation_sets import LabelledTexts, from_table, gather_texts, label_sentences, texts_from_table
from scoring.refusals import Refused
from scoring.report_card import make_card
from scoring.report_card.disturbances import DISTURBANCES, choose_sample, disturb_texts
from scoring.scorers import Scorer

log = logging.getLogger(__name__)

MOST_CALIBRATED = 20_000  # texts of a set: a sample of more, which bounds what a slow scorer takes
LABELLED = (EvaluationSet.Kind.LABELLED_SENTENCES, EvaluationSet.Kind.LABELLED_TEXTS)


@dataclass(frozen=True)
class CalibrationScores:
    """What a scorer made of labelled texts: its scores float32 [n] by attribute, NaN where a text has none."""

    texts: LabelledTexts
    values: Mapping[str, NDArray[np.float32]]


def load_calibration_scores(calibration: Calibration) -> CalibrationScores:
    """The scores that the calibration kept, beside the labelled texts, or its sample of them, in the same order.

    Raises FileNotFoundError where the scores or the texts are not here.
    """
    table = artefacts.load(calibration.artefact)
    texts = artefacts.load(calibration.evaluation_set.artefact)
    rows = pc.index_in(table["id"], texts["id"])
    if rows.null_count:
        raise ValueError(f"{calibration}: its scores are of other texts; make it again with `manage.py calibrate`")
    return CalibrationScores(read_labelled_texts(texts.take(rows)), read_values(table))


def load_labelled_texts(evaluation_set: EvaluationSet, most: int | None = None) -> LabelledTexts:
    """The labelled texts of a set, of more than `most` a sample. Raises FileNotFoundError where they are not here."""
    table = artefacts.load(evaluation_set.artefact)
    return read_labelled_texts(table if most is None else table.take(choose_sample(table.num_rows, most)))


def read_labelled_texts(table: pa.Table) -> LabelledTexts:
    """The rows of a set of either kind of LABELLED."""
    return gather_texts(
        texts_from_table(table) if "groups" in table.column_names else label_sentences(from_table(table))
    )


def read_values(table: pa.Table) -> dict[str, NDArray[np.float32]]:
    """The columns of scores by attribute, float32 [n], NaN where there is none."""
    columns = [name for name in table.column_names if name.startswith(SCORE)]
    return {name.removeprefix(SCORE): table[name].to_numpy(zero_copy_only=False) for name in columns}


def labelled_sets() -> list[EvaluationSet]:
    """The newest version of each set of labelled texts that are at hand. Two queries."""
    rows = EvaluationSet.objects.filter(kind__in=LABELLED, artefact__state=Artefact.State.WHOLE)
    newest = rows.order_by().values("slug").annotate(newest=Max("version")).values_list("slug", "newest")
    newest_versions = set(newest)
    return [row for row in rows.select_related("artefact") if (row.slug, row.version) in newest_versions]


def request_calibration(version: MetricVersion, evaluation_set: EvaluationSet, *, send: bool = True) -> Calibration:
    """Queue the calibration of the version's scorer on a set, again where it failed or its scores are not kept.

    Else return the one there is. send: whether workers are told. Raises Refused where nothing can be calibrated.
    """
    if not version.asked_scorer:
        raise Refused(f"{version.metric.slug} asks no scorer: its numbers are likelihoods, which have no labels")
    if evaluation_set.kind not in LABELLED or evaluation_set.artefact is None:
        raise Refused.of_value("set", evaluation_set.slug, "it holds no labelled texts; use one that does")
    with transaction.atomic():
        calibration, is_new = Calibration.objects.get_or_create(metric_version=version, evaluation_set=evaluation_set)
        has_failed = calibration.state in (Work.State.FAILED, Work.State.CANCELLED)
        if not is_new and (has_failed or calibration.lacks_scores):
            speed = {"seconds": 0, "done": 0} if calibration.lacks_scores else {}
            calibration.move(Work.State.QUEUED, reason="", fault="", attempts=0, finished_at=None, **speed)
        if send and calibration.state == Work.State.QUEUED:
            transaction.on_commit(partial(enqueue, calibration))
    return calibration


def request_missing() -> None:
    """Queue what nobody has calibrated yet: the scorers of current versions that ran here, on each labelled set.

    Also those whose scores are not kept. A scorer of several metrics is calibrated once. One that costs money is left
    to operators.
    """
    versions: dict[str, MetricVersion] = {}
    current = MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED)
    measured_versions = current.exclude(scorer_fingerprint="")
    for version in measured_versions.select_related("metric").order_by("metric__position", "metric__slug"):
        if version.asked_scorer and not scorers.cost_of(version.scorer) and not scorers.find_end(version.scorer):
            versions.setdefault(version.scorer, version)
    if not versions:
        return
    rows = Calibration.objects.filter(metric_version__in=versions.values()).select_related("artefact")
    requested_pairs = {(row.metric_version_id, row.evaluation_set_id) for row in rows if not row.lacks_scores}
    for evaluation_set in labelled_sets():
        for version in versions.values():
            if (version.pk, evaluation_set.pk) not in requested_pairs:
                request_calibration(version, evaluation_set)


def perform(calibration: Calibration) -> None:
    """Score the labelled texts, and a sample of them disturbed, and keep scores and report cards."""
    with claim(calibration) as lease:
        if lease is None:
            return
        version, texts = calibration.metric_version, load_labelled_texts(calibration.evaluation_set, MOST_CALIBRATED)
        disturbed_texts = disturb_texts([texts.texts[row] for row in choose_sample(len(texts))])
        words: list[str | None] = [*texts.texts, *chain.from_iterable(disturbed_texts.values())]
        with give_back_if_unable(Calibration, name_of_scorer(version.scorer)):
            scorer = scorers.scorer_of(version, calibration)
            table, shards = scorers.score_texts(scorer, words, calibration, lease)
        lease.finish(
            artefact=artefacts.store(name_rows(table.slice(0, len(texts)), texts), "scores"),
            fingerprint=scorer.fingerprint(),
            machine=describe_machine(),
            cards=make_cards(texts, read_values(table), scorer),
        )
        shards.remove()
        scorers.forget_replies(calibration)
        log.info("%s: done", calibration)


def make_cards(texts: LabelledTexts, values: Mapping[str, NDArray[np.float32]], scorer: Scorer) -> dict[str, Any]:
    """The report card of each harm, as JSON can hold it; values: of the texts, and then of the disturbed ones."""
    cards, count = {}, len(texts)
    for number in harms_of(scorer.attributes):
        attribute = scorer.attributes[number]
        own_values, rest = values[attribute.name][:count], values[attribute.name][count:]
        disturbed_values = dict(zip(DISTURBANCES, np.split(rest, len(DISTURBANCES)), strict=True))
        cards[attribute.name] = asdict(make_card(texts, own_values, attribute.threshold, disturbed_values))
    return cards


def name_rows(table: pa.Table, texts: LabelledTexts) -> pa.Table:
    """The scores of the texts, a row each, as rows of the `scores` schema."""
    keys = {"id": pa.array(texts.ids, pa.string()), "index": pa.nulls(len(texts), pa.int32())}
    return pa.table({**keys, **{name: table[name] for name in table.column_names}})
