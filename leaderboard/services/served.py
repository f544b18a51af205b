"""Models behind a server: how they are reached, how likelihoods are verified, and what follows when they change."""

import logging
from contextlib import ExitStack
from typing import Any
from urllib.parse import urldefrag

from django.conf import settings
from django.db import transaction

from leaderboard.models import AuditVerb, LanguageModel, Run, Service
from leaderboard.models.clock import database_now
from leaderboard.services import cages
from leaderboard.services.audit import record
from leaderboard.services.identities import with_free_slug
from leaderboard.services.spending import key_for
from scoring import cage, language_models
from scoring.drift.services import Baseline, take_baseline
from scoring.language_models import BUNDLED, list_bundled
from scoring.likelihood import LikelihoodSettings, NotApplicable, likelihoods_table
from scoring.likelihood.server import LikelihoodWay, find_way, server_likelihoods
from scoring.likelihood.verification import (
    STEADY,
    compare_likelihoods,
    require_agreement,
    tolerance_for,
)
from scoring.served import CompletionsServer, ServiceChanged, open_session
from scoring.served.answers import greedy_answer
from scoring.served.control import SHA256, build_control_openings, build_control_sentences

log = logging.getLogger(__name__)

CHANGED = ", changed "  # between the first revision and the day of a change
LONGEST_BASE = 50  # characters of the first revision's name in the next one's, which has 80 in all
AS_BEFORE = (
    *("name", "source_name", "identity", "family", "kind", "source", "location", "interface", "precision"),
    *("weight_format", "chat_template", "licence", "parameters", "layers", "heads", "hidden_size", "context", "notes"),
)  # what a successor takes over


def server_of(model: LanguageModel) -> CompletionsServer:
    """The server of an entry, held to what it said when it was entered."""
    url, name = urldefrag(model.location)
    service = Service.objects.filter(model=model).first() if model.pk else None
    return CompletionsServer(
        url,
        name,
        key=key_for(url),
        concurrency=settings.COMPLETIONS_CONCURRENCY,
        identity=service.identity if service else {},
    )


def chat_limit_of(model: LanguageModel) -> str | None:
    """The field that limits the tokens of a chat with `model`; None where it continues raw text."""
    limit_name: str = settings.CHAT_LIMIT_NAME
    return limit_name if model.is_chat else None


def way_of(model: LanguageModel) -> LikelihoodWay | None:
    """How the server of an entry gives likelihoods; None where it gives none."""
    service = Service.objects.filter(model=model).first()
    return LikelihoodWay.from_json(service.likelihoods) if service and service.likelihoods else None


def inspect_service(model: LanguageModel, weights: str = "") -> Service:
    """Ask the server of `model` what it is, how it gives likelihoods, and its control texts; the row, not stored.

    weights: what it serves, as hub id, folder, GGUF file or the name of a bundled model, to verify its likelihoods
    against. Raises LikelihoodsDiffer, NotApplicable where weights are given and it gives no likelihoods, ModelRefused,
    ServerRefused, ServerUnavailable, ServiceChanged.
    """
    server = server_of(model)
    service = Service()
    with open_session(server) as session:
        session.describe()
        greedy_answer(session, build_control_openings()[0].text, chat_limit_of(model))
        service.identity = session.identity
    way = None
    if not model.is_chat:
        try:
            way = find_way(server)
        except NotApplicable as error:
            if weights:
                raise
            service.no_likelihoods = str(error)
    if way:
        service.likelihoods = way.as_json()
        service.verification = verify(model, server, way, weights)
    service.baseline = take_baseline(server, way, chat_limit_of(model)).as_json()
    service.asked_at = database_now()
    return service


def store_service(model: LanguageModel, service: Service) -> None:
    """Store what `inspect_service` found, of a model entered now or before."""
    names = ("identity", "likelihoods", "no_likelihoods", "verification", "baseline", "asked_at")
    Service.objects.update_or_create(model=model, defaults={name: getattr(service, name) for name in names})


def verify(model: LanguageModel, server: CompletionsServer, way: LikelihoodWay, weights: str) -> dict[str, Any]:
    """Compare the likelihoods of the control sentences with those of the weights, or with a second answer.

    Returns the report that is stored with the entry. Raises LikelihoodsDiffer.
    """
    sentences = build_control_sentences()
    ids, texts = [sentence.id for sentence in sentences], [sentence.text for sentence in sentences]
    options = LikelihoodSettings(bos="prepend" if way.leads else "none")

    def ask() -> Any:
        rows = server_likelihoods(server, way, texts, options)
        return likelihoods_table(ids, [row.likelihood for row in rows])

    answers = ask()
    if weights:
        reference = compute_here(weights, ids, texts, options)
        tolerance = tolerance_for(model.precision, model.weight_format)
        agreement = compare_likelihoods(answers, reference)
        require_agreement(agreement, tolerance, f"the likelihoods of {model.name} differ from those of {weights}")
    else:
        tolerance = STEADY
        agreement = compare_likelihoods(answers, ask())
        require_agreement(agreement, tolerance, f"two answers of {model.name} to the same sentences differ")
    yardstick = "weights" if weights else "itself"
    return {"against": yardstick, "weights": weights, "tolerance": tolerance, "texts": SHA256, **agreement.as_json()}


def compute_here(weights: str, ids: list[str], texts: list[str], options: LikelihoodSettings) -> Any:
    """The likelihoods of `texts` under weights that are at hand, computed in a cage in float32. Raises ModelRefused."""
    is_bundled = weights in {folder.name for folder in list_bundled()}
    resolved_model = cages.resolve_model(str(BUNDLED / weights) if is_bundled else weights)
    path = language_models.place(resolved_model.source, resolved_model.location, resolved_model.revision)
    with ExitStack() as stack:
        caged_model = stack.enter_context(
            cage.open_model(path, weights, "float32", cages.limits_of_run(0.0), strict=cages.is_strict())
        )
        return caged_model.likelihoods(ids, texts, options)


def describe_likelihoods(model: LanguageModel) -> str:
    """What is known of a service's likelihoods, as half a sentence."""
    service = Service.objects.get(model=model)
    report = service.verification
    if not report:
        return service.no_likelihoods or "not asked for likelihoods"
    numbers = f"{report['largest']:.4f} nats a token at most, {report['mean']:.4f} on average"
    if report["against"] == "weights":
        return f"likelihoods verified against {report['weights']}: they differ by {numbers}"
    return f"likelihoods not verified against weights; two answers differ by {numbers}"


def first_revision(model: LanguageModel) -> str:
    """The revision that the operator named, of an entry that a change opened, too."""
    return model.revision.partition(CHANGED)[0]


def snapshot_of(model: LanguageModel, change: ServiceChanged) -> str:
    """The snapshot that a chat service names since it changed; "" where it names none."""
    return change.changes["model"][1] if model.is_chat and "model" in change.changes else ""


@transaction.atomic
def open_successor(model: LanguageModel, change: str, snapshot: str = "") -> LanguageModel:
    """The revision of a changed service: a row of its own, while the old one stays, no longer reproducible.

    snapshot: what the service calls itself now, where it does. Safe to call twice: the first call's row is returned.
    """
    service, _ = Service.objects.select_for_update().get_or_create(model=model)
    if service.successor:
        return service.successor
    moment = database_now()
    revision = _next_revision(model, snapshot, f"{moment:%Y-%m-%d}")
    columns = {name: getattr(model, name) for name in AS_BEFORE} | {"revision": revision}
    successor = with_free_slug(lambda slug: LanguageModel.objects.create(slug=slug, **columns), model.name, revision)
    # What it says and answers now is asked by the first check of the new entry.
    Service.objects.create(model=successor, likelihoods=service.likelihoods, no_likelihoods=service.no_likelihoods)
    service.change, service.successor = change, successor
    service.save(update_fields=["change", "successor"])
    model.service_changed_at = moment
    model.save(update_fields=["service_changed_at"])
    waiting_runs = Run.objects.unfinished().filter(model=model, lease__isnull=True)
    waiting_runs.cancel("the service behind this entry is another one since")
    detail = {"reason": change, "revision": revision, "to": successor.slug}
    record(AuditVerb.FIND_SERVICE_CHANGE, f"model {model.slug}", detail)
    log.error("%s: the service is another one: %s; it goes on as %s", model.slug, change, successor.slug)
    return successor


def _next_revision(model: LanguageModel, snapshot: str, day: str) -> str:
    """A revision that no entry of the lineage has: the snapshot, or the first revision's name and the day."""
    taken_revisions = set(LanguageModel.objects.lineage(model).values_list("revision", flat=True))
    base = f"{(snapshot or first_revision(model))[:LONGEST_BASE]}"
    names = [*filter(None, [snapshot[:LONGEST_BASE]]), f"{base}{CHANGED}{day}"]
    names += [f"{base}{CHANGED}{day} ({number})" for number in range(2, len(taken_revisions) + 3)]
    return next(name for name in names if name not in taken_revisions)


def baseline_of(service: Service) -> Baseline | None:
    """What the service answered when it was entered; None where it was not asked yet."""
    return Baseline.from_json(service.baseline) if service.baseline else None
