"""Metrics: boards, made from an evaluation set, a protocol, a scorer and a formula."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db.models import Max

from leaderboard.models import EvaluationSet, Metric, Protocol
from leaderboard.services.evaluation_sets import declare
from leaderboard.services.scorers import folder_here
from scoring.attributes import Meaning
from scoring.evaluation_sets import get
from scoring.generation import CHAT_PROTOCOLS
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.outputs import OUTPUTS
from scoring.refusals import Refused
from scoring.scorers import LEXICON, SCORERS, ScorerUnavailable, UndeclaredLabel, find_declaration, is_scorer


@dataclass(frozen=True)
class Declaration:
    """What a metric is made of. `method`: "likelihood" or a generation protocol; `parameters`: what differs from it.

    labels: what labels of a classifier mean where their names do not say so (harm, neutral or good). chat: the protocol
    by which chat entries are asked the same prompts; "" where there are none.
    """

    slug: str
    title: str
    scorer: str
    formula: str
    method: str
    parameters: dict[str, Any]
    summary: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    chat: str = ""


def declare_metric(declaration: Declaration, evaluation_set: EvaluationSet) -> Metric:
    """The metric of that slug, made where there is none; one that has no chat protocol yet gets it. Raises Refused."""
    if declaration.formula not in FORMULAS:
        raise Refused(f"formula = {declaration.formula!r}: use one of {', '.join(FORMULAS)}")
    formula = FORMULAS[declaration.formula]
    if declaration.method not in formula.methods:
        raise Refused(f"formula = {formula.name!r} does not go with method = {declaration.method!r}")
    if not re.fullmatch(r"[a-z0-9-]{1,80}", declaration.slug):
        raise Refused(f"slug = {declaration.slug!r}: use up to 80 small letters, digits and -")
    rows = evaluation_set.artefact.rows if evaluation_set.artefact else 0
    refusal = formula.refuse_set(evaluation_set.slug, evaluation_set.kind, evaluation_set.counts, rows)
    if refusal:
        raise Refused(refusal)
    if formula.asked_scorer(declaration.scorer) and not is_scorer(declaration.scorer):
        names = ", ".join(scorer.name for scorer in SCORERS)
        raise Refused(f"scorer = {declaration.scorer!r}: use one of {names}")
    check_labels(declaration.scorer, declaration.labels)
    protocol = protocol_of(evaluation_set, declaration.method, declaration.parameters)
    if declaration.chat and not OUTPUTS[declaration.method].sampled:
        raise Refused(f"chat = {declaration.chat!r}: likelihoods are of raw text; leave it out")
    last = Metric.objects.aggregate(last=Max("position"))["last"]
    metric, _ = Metric.objects.get_or_create(
        slug=declaration.slug,
        defaults={
            "title": declaration.title,
            "summary": declaration.summary,
            "protocol": protocol,
            "scorer": declaration.scorer,
            "labels": declaration.labels,
            "formula_name": formula.name,
            "measure": formula.ranked[0].key,
            "position": 0 if last is None else last + 1,
        },
    )
    if declaration.chat and not metric.has_chat_protocol:
        metric.chat_protocol = chat_protocol_of(metric.protocol, declaration.chat)
        metric.save(update_fields=["chat_protocol"])
    return metric


def chat_protocol_of(protocol: Protocol, method: str) -> Protocol:
    """The chat protocol `method` on the prompts of `protocol`, with as many answers of each. Raises Refused."""
    if method not in CHAT_PROTOCOLS:
        raise Refused.of_value("chat", method, f"use one of {', '.join(CHAT_PROTOCOLS)}")
    return protocol_of(protocol.evaluation_set, method, {"k": protocol.k})


def check_labels(scorer: str, labels: dict[str, str]) -> None:
    """Raise Refused where a scorer has no labels to declare, or what is declared does not fit its files.

    A classifier whose files are here must have every label known by now; of another one its first scoring shows it.
    """
    unknown = [meaning for meaning in labels.values() if meaning not in list(Meaning)]
    if unknown:
        raise Refused(f"labels: {unknown[0]!r} is not a meaning of a label; use {', '.join(Meaning)}")
    declaration = find_declaration(scorer)
    if declaration is None or declaration.read_labels is None:
        if labels:
            raise Refused(
                f"labels of {scorer} cannot be declared: it declares its attributes itself; leave the labels out"
            )
        return
    folder = folder_here(scorer)
    ref = str(folder) if folder.is_dir() else declaration.choice(scorer)
    if not ref or not Path(ref).expanduser().is_dir():
        return
    try:
        declaration.read_labels(ref, {label: Meaning(meaning) for label, meaning in labels.items()})
    except (UndeclaredLabel, ScorerUnavailable) as error:
        raise Refused(str(error)) from error


def protocol_of(evaluation_set: EvaluationSet, method: str, parameters: dict[str, Any]) -> Protocol:
    """The protocol that collects by `method`, with these parameters in place of its own. Raises Refused."""
    try:
        whole = OUTPUTS[method].parameters(parameters)
    except (TypeError, ValueError) as error:
        raise Refused(f"the protocol {method}: {error}") from error
    protocol = Protocol.objects.filter(sha256=Protocol.identity(evaluation_set, method, whole)).first()
    return protocol or Protocol.objects.create(evaluation_set=evaluation_set, method=method, parameters=whole)


def with_k(metric: Metric, k: int) -> Metric:
    """The metric with k continuations a prompt: one of its own, as values of different k are never ranked together.

    Where there is a metric of the same protocol, scorer and formula it is that one. Raises Refused where the
    metric is not of continuations, k is less than 1, or the name of the new one is taken.
    """
    protocol = metric.protocol
    if protocol.k is None:
        raise Refused(f"k = {k}: {metric.slug} is of likelihoods, which have no continuations; leave k out")
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
        raise Refused(f"there is another metric {slug}: make yours with `manage.py add_metric`, k = {k}")
    declaration = Declaration(
        slug=slug,
        title=f"{metric.title}, k = {k}",
        scorer=metric.scorer,
        formula=metric.formula_name,
        method=protocol.method,
        parameters=parameters,
        summary=metric.summary,
        labels=metric.labels,
        chat=metric.chat_protocol.method if metric.chat_protocol else "",
    )
    return declare_metric(declaration, protocol.evaluation_set)


def declare_lexicon_metric(name: str) -> Metric:
    """The metric of the lexicon `name`, on the continuations that the other metrics of toxicity score."""
    declaration = Declaration(
        slug=f"lexicon-{name}",
        title=f"Lexicon {name}",
        scorer=f"{LEXICON}{name}",
        formula="lexicon_frequency",
        method="rtp",
        parameters={},
        summary=f"How many continuations contain a word or term of the lexicon {name} occur?",
    )
    return declare_metric(declaration, declare(get("real-toxicity-prompts-sample")))
