"""Metrics: boards, made from an evaluation set, a protocol, a scorer and a formula."""

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db.models import Max

from leaderboard.models import EvaluationSet, Metric, Protocol
from leaderboard.services.evaluation_sets import declare
from leaderboard.services.scorers import folder_here
from scoring import scorers
from scoring.attributes import Meaning
from scoring.evaluation_sets import get
from scoring.generation import PROTOCOLS, GenerationSettings
from scoring.likelihood import LikelihoodSettings
from scoring.metrics.formulas import FORMULAS
from scoring.scorers import CLASSIFIER, SCORERS, ScorerUnavailable, UndeclaredLabel, is_scorer


class CannotDeclare(ValueError):
    """The parts do not make a metric; the message says which, and what to do."""


@dataclass(frozen=True)
class Declaration:
    """What a metric is made of. `method`: "likelihood" or a generation protocol; `parameters`: what differs from it.

    labels: what labels of a classifier mean where their names do not say so (harm, neutral or good).
    """

    slug: str
    title: str
    scorer: str
    formula: str
    method: str
    parameters: dict[str, Any]
    summary: str = ""
    labels: dict[str, str] = field(default_factory=dict)


def declare_metric(declared: Declaration, evaluation_set: EvaluationSet) -> Metric:
    """The metric of that slug, made where there is none. Raises CannotDeclare."""
    if declared.formula not in FORMULAS:
        raise CannotDeclare(f"formula = {declared.formula!r}: use one of {', '.join(FORMULAS)}")
    formula = FORMULAS[declared.formula]
    if formula.asks_scorer == (declared.method == Protocol.LIKELIHOOD):
        raise CannotDeclare(f"formula = {formula.name!r} does not go with method = {declared.method!r}")
    if not re.fullmatch(r"[a-z0-9-]{1,80}", declared.slug):
        raise CannotDeclare(f"slug = {declared.slug!r}: use up to 80 small letters, digits and -")
    if formula.asks_scorer:
        if evaluation_set.kind != EvaluationSet.Kind.PROMPTS:
            raise CannotDeclare(f"{evaluation_set.slug} is of {evaluation_set.kind}: {formula.name} needs prompts")
        if formula.name == "regard" and _without_group(evaluation_set):
            raise CannotDeclare(f"{evaluation_set.slug} has prompts without a group: regard is towards demographics")
        if not is_scorer(declared.scorer):
            known = ", ".join(scorer.name for scorer in SCORERS)
            raise CannotDeclare(f"scorer = {declared.scorer!r}: use one of {known}")
    check_labels(declared.scorer, declared.labels)
    protocol = protocol_of(evaluation_set, declared.method, declared.parameters)
    last = Metric.objects.aggregate(last=Max("position"))["last"]
    metric, _ = Metric.objects.get_or_create(
        slug=declared.slug,
        defaults={
            "title": declared.title,
            "summary": declared.summary,
            "protocol": protocol,
            "scorer": declared.scorer,
            "labels": declared.labels,
            "formula_name": formula.name,
            "measure": formula.ranked[0].key,
            "position": 0 if last is None else last + 1,
        },
    )
    return metric


def check_labels(scorer: str, labels: dict[str, str]) -> None:
    """Raise CannotDeclare where a scorer has no labels to declare, or what is declared does not fit its files.

    A classifier whose files are here must have every label known by now; of another one its first scoring shows it.
    """
    unknown = [meaning for meaning in labels.values() if meaning not in list(Meaning)]
    if unknown:
        raise CannotDeclare(f"labels: {unknown[0]!r} is no meaning of a label; use {', '.join(Meaning)}")
    if not scorer.startswith(CLASSIFIER):
        if labels:
            raise CannotDeclare(
                f"labels of {scorer} cannot be declared: it declares its attributes itself; leave the labels out"
            )
        return
    here = folder_here(scorer)
    ref = str(here) if here.is_dir() else scorer.removeprefix(CLASSIFIER)
    if not Path(ref).expanduser().is_dir():
        return
    try:
        scorers.read_attributes(ref, {label: Meaning(meaning) for label, meaning in labels.items()})
    except (UndeclaredLabel, ScorerUnavailable) as error:
        raise CannotDeclare(str(error)) from error


def _without_group(prompts: EvaluationSet) -> bool:
    return prompts.artefact is not None and sum(prompts.counts.values()) < prompts.artefact.rows


def protocol_of(evaluation_set: EvaluationSet, method: str, parameters: dict[str, Any]) -> Protocol:
    """The protocol that collects by `method`, with these parameters in place of its own. Raises CannotDeclare."""
    known: dict[str, LikelihoodSettings | GenerationSettings] = {Protocol.LIKELIHOOD: LikelihoodSettings(), **PROTOCOLS}
    if method not in known:
        raise CannotDeclare(f"protocol = {method!r}: use one of {', '.join(known)}")
    try:
        whole = asdict(replace(known[method], **parameters))
    except (TypeError, ValueError) as error:
        raise CannotDeclare(f"the protocol {method}: {error}") from error
    found = Protocol.objects.filter(sha256=Protocol.identity(evaluation_set, method, whole)).first()
    return found or Protocol.objects.create(evaluation_set=evaluation_set, method=method, parameters=whole)


def with_k(metric: Metric, k: int) -> Metric:
    """The metric with k continuations a prompt: one of its own, as values of different k are never ranked together.

    Where there is a metric of the same protocol, scorer and formula it is that one. Raises CannotDeclare where the
    metric is not of continuations, k is less than 1, or the name of the new one is taken.
    """
    protocol = metric.protocol
    if protocol.k is None:
        raise CannotDeclare(f"k = {k}: {metric.slug} is of likelihoods, which have no continuations; leave k out")
    if protocol.k == k:
        return metric
    slug, parameters = f"{metric.slug}-k{k}", {**protocol.parameters, "k": k}
    same = Metric.objects.filter(
        protocol=protocol_of(protocol.evaluation_set, protocol.method, parameters),
        scorer=metric.scorer,
        labels=metric.labels,
        formula_name=metric.formula_name,
    ).first()
    if same:
        return same
    if Metric.objects.filter(slug=slug).exists():
        raise CannotDeclare(f"there is another metric {slug}: make yours with `manage.py add_metric`, k = {k}")
    declared = Declaration(
        slug=slug,
        title=f"{metric.title}, k = {k}",
        scorer=metric.scorer,
        formula=metric.formula_name,
        method=protocol.method,
        parameters=parameters,
        summary=metric.summary,
        labels=metric.labels,
    )
    return declare_metric(declared, protocol.evaluation_set)


def declare_lexicon_metric(name: str) -> Metric:
    """The metric of the lexicon `name`, on the continuations that the other metrics of toxicity score."""
    declared = Declaration(
        slug=f"lexicon-{name}",
        title=f"Lexicon {name}",
        scorer=f"lexicon:{name}",
        formula="lexicon_frequency",
        method="rtp",
        parameters={},
        summary=f"In how many continuations does a word or term of the lexicon {name} occur?",
    )
    return declare_metric(declared, declare(get("real-toxicity-prompts-sample")))
