"""Successions: a metric's scorer against the one that is to follow it, and the hand-over itself."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, Metric, Rescoring, Succession, Work
from leaderboard.services import scorers
from leaderboard.services.audit import record
from leaderboard.services.folders import name_of_scorer
from leaderboard.services.leases import Lease, claim, give_back_if_unable
from leaderboard.services.locks import lock_metric
from leaderboard.services.queue import enqueue
from leaderboard.services.rescore import estimate, open_rescoring
from leaderboard.services.shards import Shards
from leaderboard.services.succession_ranks import compare_entries
from leaderboard.services.succession_texts import (
    Names,
    NothingToCompare,
    PromptScores,
    SuccessionVersions,
    TextSource,
    find_successor_scores,
    find_versions,
    read_continuations,
    read_labelled_texts,
    read_prompts,
)
from leaderboard.services.versions import next_number
from scoring.attributes import THRESHOLD, Attribute, Meaning, harms_of
from scoring.metrics import agreement
from scoring.refusals import Refused
from scoring.scorers import Scorer, is_scorer
from scoring.succession import AttributePreservation, ScoredTexts, judge_labels, preserve_attribute

log = logging.getLogger(__name__)

SCHEMA = 1  # of `result`


@dataclass(frozen=True)
class SuccessorScores:
    """What the successor says of prompts, in the order of the sources, and what it is."""

    attributes: tuple[Attribute, ...]
    fingerprint: str
    prompts: Sequence[agreement.Scoring]


def request_succession(metric: Metric, successor: str, *, send: bool = True, user: User | None = None) -> Succession:
    """Queue the comparison of the metric's scorer with `successor`, or return the one that is under way.

    A scorer that has handed over already is compared with its successor again. send: whether workers are told. Raises
    Refused where there is nothing to compare.
    """
    scorer = scorer_to_follow(metric, successor)
    if not scorer:
        raise Refused(f"{metric.slug} asks no scorer: its numbers are likelihoods, and nobody can take over from them")
    if not is_scorer(successor):
        raise Refused.of_value(
            "successor", successor, "there is no such scorer; manage.py succession --help lists them"
        )
    if successor == scorer:
        raise Refused.of_value("successor", successor, "it is the metric's scorer already; name another one")
    with transaction.atomic():
        lock_metric(metric.pk)  # the second of two requests finds the first's row
        pair = {"metric": metric, "scorer": scorer, "successor": successor}
        under_way = Succession.objects.filter(**pair).unfinished().first()
        if under_way:
            return under_way
        problem = scorers.problem_with(successor)
        if problem and find_versions(metric, scorer, successor).new is None:
            raise Refused(f"successor = {successor!r} is {problem.state}: {problem}")
        earlier = Succession.objects.filter(**pair, rescoring__isnull=False).order_by("-pk").first()
        succession = Succession.objects.create(**pair, rescoring=earlier.rescoring if earlier else None)
        detail = {"from": scorer, "to": successor}
        record(AuditVerb.COMPARE_SUCCESSOR, f"metric {metric.slug}", detail, user)
        if send:
            transaction.on_commit(partial(enqueue, succession))
    return succession


def scorer_to_follow(metric: Metric, successor: str) -> str:
    """The scorer that `successor` is to follow on the metric, or has followed; "" where the metric asks none."""
    if metric.asked_scorer != successor:
        return metric.asked_scorer
    earlier_versions = metric.versions.exclude(scorer=successor).filter(published_at__isnull=False)
    last = earlier_versions.order_by("-number").first()
    return last.scorer if last else metric.asked_scorer


def perform(succession: Succession) -> None:
    """Compare the two scorers on what both have scored, and keep what was found. Raises nothing: see `claim`."""
    with claim(succession) as lease:
        if lease is None:
            return
        versions = find_versions(succession.metric, succession.scorer, succession.successor)
        prompts = read_prompts(succession.metric, succession.scorer, versions.old)
        with give_back_if_unable(Succession, name_of_scorer(succession.successor)):
            scores, shards = ask_successor(succession, versions, prompts, lease)
        sources = [
            *filter(None, [read_continuations(versions)]),
            *(
                TextSource(one.key, one.title, one.scores, new, np.array(one.ids), one.thresholds)
                for one, new in zip(prompts, scores.prompts, strict=True)
            ),
            *read_labelled_texts(succession.scorer, succession.successor),
        ]
        result = compare_sources(sources, scores.attributes, versions, lease)
        lease.finish(result=result, fingerprint=scores.fingerprint)
        if shards:
            shards.remove()
            scorers.forget_replies(succession)
        log.info("%s: done", succession)


def ask_successor(
    succession: Succession, versions: SuccessionVersions, prompts: Sequence[PromptScores], lease: Lease
) -> tuple[SuccessorScores, Shards | None]:
    """The successor's scores of the prompts: those that its version keeps, else new ones, made under `lease`.

    Also the checkpoints of new ones, to be removed once these are kept.
    """
    new = versions.new
    kept_scores = [find_successor_scores(new, one) for one in prompts]
    if new is not None and new.declared and all(scores is not None for scores in kept_scores):
        whole = [scores for scores in kept_scores if scores is not None]
        return SuccessorScores(new.declared, new.scorer_fingerprint, whole), None
    scorer = load_successor(succession)
    texts = [text for one in prompts for text in one.texts]
    if not texts:
        return SuccessorScores(scorer.attributes, scorer.fingerprint(), []), None
    table, shards = scorers.score_texts(scorer, list(texts), succession, lease)
    parts, start = [], 0
    for one in prompts:
        columns = table.slice(start, len(one.texts))
        parts.append({name: columns[f"score:{name}"].to_numpy(zero_copy_only=False) for name in scorer.attribute_names})
        start += len(one.texts)
    return SuccessorScores(scorer.attributes, scorer.fingerprint(), parts), shards


def load_successor(succession: Succession) -> Scorer:
    """The successor, with what a metric that asks it declares of its labels."""
    labels = declared_labels(succession.successor)
    epoch = str(next_number(succession.metric))
    return scorers.scorer_for(succession.successor, epoch, succession, labels)


def declared_labels(scorer: str) -> Mapping[str, Meaning]:
    """What the first metric that asks the scorer declares of its labels; nothing where none does."""
    metric = Metric.objects.filter(scorer=scorer).exclude(labels={}).first()
    return metric.declared_labels if metric else {}


def compare_sources(
    sources: Sequence[TextSource], attributes: Sequence[Attribute], versions: SuccessionVersions, lease: Lease
) -> dict[str, Any]:
    """What is preserved of texts and of ranks, as `result` keeps it. Raises NothingToCompare."""
    if not sources:
        raise NothingToCompare(
            "no text has scores of both: evaluate models under both scorers, calibrate both with manage.py calibrate, "
            "or import prompts with published scores"
        )
    thresholds = {attribute.name: attribute.threshold for attribute in attributes}
    declarations = harms_first(versions.old.declared if versions.old else ())
    order = [attribute.name for attribute in declarations]
    compared_sources = []
    for source in sources:
        names = match_attributes([name for name in order if name in source.old] or list(source.old), attributes)
        compared_sources.append((source, [preserve(source, pair, thresholds) for pair in names]))
    orders = None
    if versions.old and versions.new and versions.pairs:
        mapping = compared_sources[0][1][0].mapping  # of continuations, which come first where there are pairs
        names = match_attributes(order, attributes)
        orders = compare_entries(versions, names[0], mapping, compared_sources[0][0].new[names[0][1]], lease)
    return {
        "schema": SCHEMA,
        "old_version": versions.old and versions.old.number,
        "new_version": versions.new and {"metric": versions.new.metric.slug, "number": versions.new.number},
        "sources": [
            {"key": source.key, "title": source.title, "attributes": [one.as_json() for one in comparisons]}
            for source, comparisons in compared_sources
        ],
        "orders": orders and orders.as_json(),
        "labels": judge_labels(compared_sources[0][1][0]),
    }


def preserve(source: TextSource, names: tuple[str, str], thresholds: Mapping[str, float]) -> AttributePreservation:
    """One attribute of a source; thresholds: the successor's."""
    old, new = names
    arrays = (np.asarray(source.old[old]), np.asarray(source.new[new]), source.groups)
    threshold = source.old_thresholds.get(old, THRESHOLD)
    return preserve_attribute(ScoredTexts(old, new, *arrays, threshold, thresholds.get(new, THRESHOLD)))


def match_attributes(old: Sequence[str], attributes: Sequence[Attribute]) -> Names:
    """The old scorer's names with those of the successor: its first one, then the others that have a namesake.

    Where the first has no namesake, the successor's first harm stands for it. Raises NothingToCompare where there is
    no harm.
    """
    names = agreement.matching_attributes(old, [attribute.name for attribute in attributes])
    if old and old[0] not in dict(names):
        harms = harms_of(attributes)
        if not harms:
            raise NothingToCompare(
                "the successor declares no harm, so nothing of it stands for the scorer's: declare what its labels "
                "mean with manage.py add_metric --harm-label"
            )
        names.insert(0, (old[0], attributes[harms[0]].name))
    return names


def harms_first(attributes: Sequence[Attribute]) -> list[Attribute]:
    """The attributes with the harms before the others, each in their order."""
    return sorted(attributes, key=lambda attribute: attribute.meaning != Meaning.HARM)


def compare_again() -> None:
    """Queue the comparison of a successor that took over since: by now both have scored all entries."""
    rows = Succession.objects.filter(rescoring__state=Rescoring.State.PUBLISHED).select_related("metric", "rescoring")
    newest = {(row.metric_id, row.scorer, row.successor): row for row in rows.order_by("pk")}
    for row in newest.values():
        ended_at = row.rescoring and row.rescoring.finished_at
        if ended_at and row.created_at < ended_at and row.metric.asked_scorer == row.successor:
            request_succession(row.metric, row.successor)


@dataclass(frozen=True)
class SuccessionCost:
    """What the successor has to score: entries, their texts, and the days that takes at the quota of its service."""

    entries: int
    texts: int
    api_days: float | None


def estimate_cost(succession: Succession) -> SuccessionCost:
    """The cost of letting the successor take over. Raises Refused where there is no version to leave."""
    present = estimate(succession.metric)
    cost = scorers.cost_of(succession.successor)
    days = None if cost is None else present.texts * cost.seconds / 86_400
    return SuccessionCost(present.entries, present.texts, days)


@transaction.atomic
def begin_succession(succession: Succession, reason: str, user: User | None = None) -> Rescoring:
    """Let the successor take over: all entries are scored by it, as a new version, and the old version stays whole.

    Raises Refused where it is compared no longer, has taken over, or nothing can be scored with it.
    """
    metric = lock_metric(succession.metric_id)
    if succession.state != Work.State.DONE:
        raise Refused(f"{succession} is not done: wait for it, or see why with manage.py succession")
    if metric.asked_scorer != succession.scorer:
        raise Refused(f"{metric.slug} asks {metric.asked_scorer} by now: compare that one with a successor")
    if not reason.strip():
        raise Refused.of_field("reason", "it is empty; say why, the record shows it for ever")
    if metric.current_version() is None:
        raise Refused(
            f"nothing of {metric.slug} was measured here, so there is nothing to hand over: open a metric of its own "
            f"with manage.py add_metric --scorer {succession.successor}, and evaluate the models under it"
        )
    labels = {name: str(meaning) for name, meaning in declared_labels(succession.successor).items()}
    if Rescoring.objects.active().filter(metric=metric, to_version__scorer=succession.successor).exists():
        raise Refused(f"{succession.successor} is taking over already: wait for the rescoring that is under way")
    rescoring = open_rescoring(
        metric,
        f"{succession.successor} takes over from {succession.scorer}: {reason}",
        user=user,
        scorer=succession.successor,
        labels=labels,
    )
    Succession.objects.filter(pk=succession.pk).update(rescoring=rescoring)
    return rescoring
