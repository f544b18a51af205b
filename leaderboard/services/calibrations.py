"""Calibrating scorers: they score the labelled texts of the board, and the labels say how right they are."""

import logging
from dataclasses import asdict
from functools import partial

from django.db import transaction
from django.db.models import Max

from leaderboard.models import Artefact, Calibration, EvaluationSet, MetricVersion, Provenance, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.folders import name_of_scorer
from leaderboard.services.leases import claim, give_back_if_unable
from leaderboard.services.queue import enqueue
from scoring.artefacts import SCORE
from scoring.attributes import harms_of
from scoring.evaluation_sets.labelled import from_table
from scoring.refusals import Refused
from scoring.report_card import label_sentences, make_card

log = logging.getLogger(__name__)


def labelled_sets() -> list[EvaluationSet]:
    """The newest version of each set of labelled sentences whose texts are at hand. One query."""
    rows = EvaluationSet.objects.filter(
        kind=EvaluationSet.Kind.LABELLED_SENTENCES, artefact__state=Artefact.State.WHOLE
    )
    newest = rows.order_by().values("slug").annotate(newest=Max("version")).values_list("slug", "newest")
    newest_versions = set(newest)
    return [row for row in rows.select_related("artefact") if (row.slug, row.version) in newest_versions]


def request_calibration(version: MetricVersion, evaluation_set: EvaluationSet, *, send: bool = True) -> Calibration:
    """Queue the calibration of the version's scorer on a set, again where it failed; else return the one there is.

    send: whether workers are told. Raises Refused where nothing can be calibrated.
    """
    if not version.asked_scorer:
        raise Refused(f"{version.metric.slug} asks no scorer: its numbers are likelihoods, which have no labels")
    if evaluation_set.kind != EvaluationSet.Kind.LABELLED_SENTENCES or evaluation_set.artefact is None:
        raise Refused.of_value("set", evaluation_set.slug, "it holds no labelled texts; use one that does")
    with transaction.atomic():
        calibration, is_new = Calibration.objects.get_or_create(metric_version=version, evaluation_set=evaluation_set)
        if not is_new:
            calibration.move(Work.State.QUEUED, reason="", fault="", attempts=0, finished_at=None)
        if send and calibration.state == Work.State.QUEUED:
            transaction.on_commit(partial(enqueue, calibration))
    return calibration


def request_missing() -> None:
    """Queue what nobody has calibrated yet: the scorers of current versions that ran here, on each labelled set.

    A scorer of several metrics is calibrated once. One that costs money is left to operators.
    """
    versions: dict[str, MetricVersion] = {}
    current = MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT, provenance=Provenance.MEASURED)
    measured_versions = current.exclude(scorer_fingerprint="")
    for version in measured_versions.select_related("metric").order_by("metric__position", "metric__slug"):
        if version.asked_scorer and not scorers.cost_of(version.scorer):
            versions.setdefault(version.scorer, version)
    if not versions:
        return
    rows = Calibration.objects.filter(metric_version__in=versions.values())
    requested_pairs = set(rows.values_list("metric_version", "evaluation_set"))
    for evaluation_set in labelled_sets():
        for version in versions.values():
            if (version.pk, evaluation_set.pk) not in requested_pairs:
                request_calibration(version, evaluation_set)


def perform(calibration: Calibration) -> None:
    """Score the labelled texts and keep the report cards."""
    with claim(calibration) as lease:
        if lease is None:
            return
        version, texts_artefact = calibration.metric_version, calibration.evaluation_set.artefact
        texts = label_sentences(from_table(artefacts.load(texts_artefact)))
        with give_back_if_unable(Calibration, name_of_scorer(version.scorer)):
            scorer = scorers.scorer_of(version, calibration)
            table, shards = scorers.score_texts(scorer, list(texts.texts), calibration, lease)
        cards = {}
        for number in harms_of(scorer.attributes):
            attribute = scorer.attributes[number]
            values = table[SCORE + attribute.name].to_numpy(zero_copy_only=False)
            cards[attribute.name] = asdict(make_card(texts, values, attribute.threshold))
        lease.finish(fingerprint=scorer.fingerprint(), cards=cards, total=len(texts), done=len(texts))
        shards.remove()
        scorers.forget_replies(calibration)
        log.info("%s: done", calibration)
