"""Form A: a model of the hub, its revision pinned."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, get_args

from django.conf import settings
from django.utils.functional import cached_property

from leaderboard.card.form import clean_or_empty, columns_of
from leaderboard.models import LanguageModel, Submission
from leaderboard.services import language_models, look_ups
from leaderboard.services.devices import slow_precisions
from leaderboard.services.memory import GB, USUAL, explain_size, memory_needed, seconds_estimated
from leaderboard.submissions.services.metric_choices import AsRun, MetricChoice, list_choices
from leaderboard.submissions.services.patience import call_within
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.cage import LOOK_UP, CageError
from scoring.language_models import (
    Architecture,
    Gated,
    HubUnavailable,
    ModelRefused,
    NoSuchRevision,
    NotOnHub,
    Precision,
    ResolvedModel,
)

log = logging.getLogger(__name__)

READING_SECONDS = LOOK_UP.seconds + 1  # beyond the hub's answers: for what its configuration describes
NOT_LOOKED_INTO = (
    "This board cannot inspect models right now. Nothing was stored: try again in a few minutes, or tell its operators."
)
BYTES_A_NUMBER = 4  # float32, the widest that weights are published in
SPARE = 1.1  # times what the architecture needs; loading counts the numbers of each file exactly
HEADERS = 2**20  # bytes that describe the weights
LEAST_BYTES_A_PARAMETER, LEAST_BYTES_QUANTISED = 1.0, 0.4
WAITING = (Submission.State.CHECKING, Submission.State.MODERATED, Submission.State.RETURNED)
TEXT, CHAT = LanguageModel.Interface.TEXT.value, LanguageModel.Interface.CHAT.value
NO_TEMPLATE = "has no chat template, so nothing says how it is spoken to: enter it as raw text."
PRECISIONS = (("", f"As each protocol says, usually {USUAL}"), *((name, name) for name in get_args(Precision)))
ESTIMATED_TEXTS = 1000
Problems = dict[str, list[str]]


@dataclass(frozen=True)
class PrecisionEstimate:
    """What a precision takes. value: as forms send it. memory: GB; time: for the likelihoods of ESTIMATED_TEXTS.

    obstacle: why it cannot be chosen; "" where it can.
    """

    value: str
    label: str
    memory: float
    time: timedelta
    obstacle: str


@dataclass(frozen=True)
class HubCandidate:
    """What the hub has: a model pinned to its commit. `entries`: the rows of this revision on the board."""

    resolved: ResolvedModel
    entries: Sequence[LanguageModel] = ()

    @cached_property
    def choices(self) -> list[MetricChoice]:
        """The metrics, with what stands in the way of some."""
        return list_choices(self.resolved.architecture.kind, self.resolved.architecture.parameters, self.entries)

    def find_entry(self, interface: str, precision: str) -> LanguageModel | None:
        """Its row that is run like this, if the board has it."""
        exact = interface, precision
        return next((entry for entry in self.entries if (entry.interface, entry.precision) == exact), None)

    def list_possible(self, interface: str, precision: str) -> list[str]:
        """Slugs of the metrics under which an entry that is run like this can be ranked."""
        return [choice.metric.slug for choice in self.choices if not choice.obstacle_to(interface, precision)]

    def list_interfaces(self, metrics: Collection[str], precision: str) -> list[str]:
        """The interfaces where nobody chooses: those that any of `metrics` is left for; [] stands for every metric.

        Likelihoods go to the raw text entry, so they are no reason for a chat.
        """
        interfaces = []
        for interface in self.interfaces:
            if any(
                not choice.obstacle_to(interface, precision)
                for choice in self.choices
                if (not metrics or choice.metric.slug in metrics) and (interface == TEXT or choice.is_generated)
            ):
                interfaces.append(interface)
        return interfaces or [TEXT]

    @property
    def interfaces(self) -> list[str]:
        """The interfaces that it can be entered through."""
        return [TEXT, CHAT] if self.resolved.has_chat_template else [TEXT]

    @property
    def usual_precision(self) -> str:
        """The precision where nobody chooses: the protocols' own, or the first one that can be chosen."""
        return next((estimate.value for estimate in self.estimates if not estimate.obstacle), "")

    @property
    def usual_interfaces(self) -> list[str]:
        """The interfaces that the form ticks."""
        return self.list_interfaces((), self.usual_precision)

    @property
    def usual_metrics(self) -> list[str]:
        """Slugs of the metrics that the form ticks."""
        precision = self.usual_precision
        slugs = {slug for interface in self.usual_interfaces for slug in self.list_possible(interface, precision)}
        return [choice.metric.slug for choice in self.choices if choice.metric.slug in slugs]

    @property
    def obstacles(self) -> int:
        """The number of metrics that no entry of it can have."""
        return sum(bool(choice.obstacle) for choice in self.choices)

    @property
    def estimates(self) -> list[PrecisionEstimate]:
        """What each precision takes, first that of the protocols."""
        parameters, slow = self.resolved.architecture.parameters, slow_precisions()

        def obstacle(precision: str) -> str:
            if explain_size(parameters, precision):
                return "more memory than the workers here have"
            return "slower than float32 on all workers here" if precision in slow else ""

        return [
            PrecisionEstimate(
                value,
                str(label),
                memory_needed(parameters, value) / GB,
                timedelta(seconds=max(1, round(seconds_estimated(parameters, ESTIMATED_TEXTS, value)))),
                obstacle(value),
            )
            for value, label in PRECISIONS
        ]

    @property
    def licence(self) -> str:
        """The licence that the model card states; "" if the text is not valid here."""
        return clean_or_empty("licence", self.resolved.licence)

    @property
    def page(self) -> str:
        """Its address on the hub."""
        return f"{settings.HUB_ENDPOINT}/{self.resolved.location}/tree/{self.resolved.revision}"


class HubRefused(SubmissionRefused):
    """Nothing was taken. `candidate`: what the hub has, if that is known."""

    def __init__(self, problems: Problems, candidate: HubCandidate | None = None) -> None:
        super().__init__(problems)
        self.candidate = candidate


def check_again(payload: dict[str, Any]) -> None:
    """Check again that the model is new, while nobody else can submit it. Raises HubRefused."""
    candidate = find_entries(read_pinned_model(payload))
    interface, precision = as_run(payload)
    share_metrics(candidate, [interface], precision, payload["metrics"])


def as_run(payload: dict[str, Any]) -> AsRun:
    """The interface and the precision that a payload asks for; older ones do not say."""
    return payload.get("interface", TEXT), payload.get("precision", "")


def find_candidate(hub_id: str, revision: str, precision: str | None = None) -> HubCandidate:
    """Find the model under that id on the hub, if the board takes it in this precision. Raises HubRefused.

    precision: as forms send it; None where nobody has chosen yet.
    """
    patience = settings.HUB_PATIENCE_SECONDS
    try:
        look_ups.prepare()  # outside the time limit of the hub, which is not at fault here
        pinned_model = call_within(
            patience + READING_SECONDS,
            lambda: look_ups.look_up(hub_id, revision or None, patience),
        )
    except NoSuchRevision as error:
        raise HubRefused({"revision": [f"{_join_lines(error)}."]}) from error
    except (ModelRefused, HubUnavailable) as error:
        raise HubRefused({"hub_id": [_explain_refusal(hub_id, error)]}) from error
    except CageError as error:
        log.error("%s cannot be looked into: %s", hub_id, error)
        raise HubRefused({"hub_id": [NOT_LOOKED_INTO]}) from error
    candidate = find_entries(pinned_model)
    if problem := _find_size_problem(pinned_model, candidate.usual_precision if precision is None else precision):
        raise HubRefused({"hub_id": [problem]}, candidate)
    if precision and (problem := slow_precisions().get(precision, "")):
        raise HubRefused({"precision": [f"No worker of this board takes {precision}: {problem}."]}, candidate)
    refuse_closed(candidate)
    return candidate


def refuse_closed(candidate: HubCandidate) -> None:
    """Raise HubRefused if an entry of this revision is restricted or withdrawn."""
    for entry in candidate.entries:
        if entry.access != LanguageModel.Access.OPEN:
            address = entry.get_absolute_url()
            problem = f"{_name_revision(candidate)} is {entry.access} on this board, see {address}: ask its operators."
            raise HubRefused({"hub_id": [problem]}, candidate)


def refuse_known(candidate: HubCandidate, interface: str, precision: str) -> None:
    """Raise HubRefused if an entry that is run like this has every possible metric, or waits for a moderator."""
    pinned_model, model_name = candidate.resolved, _name_revision(candidate)
    waiting_payloads = Submission.objects.filter(
        form=Submission.Form.HUB,
        state__in=WAITING,
        payload__resolved__location=pinned_model.location,
        payload__resolved__revision=pinned_model.revision,
    ).values_list("payload", flat=True)
    if any(as_run(payload) == (interface, precision) for payload in waiting_payloads):
        raise HubRefused(
            {"hub_id": [f"{model_name} has been submitted already and waits for a moderator: please wait."]}, candidate
        )
    entry = candidate.find_entry(interface, precision)
    if entry and not candidate.list_possible(interface, precision):
        problem = (
            f"{model_name} is on the board already, with every metric that it can have here: see "
            f"{entry.get_absolute_url()}."
        )
        raise HubRefused({"hub_id": [problem]}, candidate)


def _name_revision(candidate: HubCandidate) -> str:
    return f"{candidate.resolved.location} at {candidate.resolved.revision[:7]}"


def share_metrics(
    candidate: HubCandidate, interfaces: Sequence[str], precision: str, metrics: Sequence[str]
) -> dict[str, list[str]]:
    """The metrics of each entry to make, by its interface; likelihoods, which are of raw text for both, go to one.

    interfaces: [] for those that any metric is left for; metrics: [] for all that are possible. Raises HubRefused.
    """
    if CHAT in interfaces and not candidate.resolved.has_chat_template:
        raise HubRefused({"interface": [f"{candidate.resolved.location} {NO_TEMPLATE}"]}, candidate)
    chosen_interfaces = [name for name in (TEXT, CHAT) if name in interfaces]
    chosen_interfaces = chosen_interfaces or candidate.list_interfaces(metrics, precision)
    for interface in chosen_interfaces:
        refuse_known(candidate, interface, precision)
    shares: dict[str, list[str]] = {interface: [] for interface in chosen_interfaces}
    problems = []
    for choice in candidate.choices:
        slug = choice.metric.slug
        takers = [name for name in chosen_interfaces if not choice.obstacle_to(name, precision)]
        if slug in metrics and not takers:
            problems.append(f"{slug} cannot be chosen. {choice.obstacle_to(chosen_interfaces[0], precision)}")
        if slug in metrics or not metrics:
            for interface in takers if choice.is_generated else takers[:1]:
                shares[interface].append(slug)
    if not any(shares.values()) and not problems:
        kind = candidate.resolved.architecture.kind
        problems.append(f"There is no metric here that a {kind} model can be ranked under now.")
    if problems:
        raise HubRefused({"metrics": problems}, candidate)
    for interface, slugs in shares.items():
        if not slugs:
            label = LanguageModel.Interface(interface).label.lower()
            problem = f"None of these metrics is left for {label}: choose another metric, or leave {label} out."
            raise HubRefused({"interface": [problem]}, candidate)
    return shares


def enter(submission: Submission) -> LanguageModel:
    """Return the row of the model that the payload pins; made if it is new."""
    payload = submission.payload
    pinned_model = read_pinned_model(payload)
    interface, precision = as_run(payload)
    model, _ = language_models.enter(
        pinned_model,
        LanguageModel.Source.HUB,
        pinned_model.location,
        interface=interface,
        precision=precision,
        **columns_of(payload),
    )
    return model


def read_pinned_model(payload: dict[str, Any]) -> ResolvedModel:
    """Return the model that the payload pins."""
    columns = payload["resolved"]
    return ResolvedModel(**{**columns, "architecture": Architecture(**columns["architecture"])})


def find_entries(pinned_model: ResolvedModel) -> HubCandidate:
    """The model with its entries on the board, in the order of their making."""
    entries = LanguageModel.objects.filter(
        source=LanguageModel.Source.HUB, location=pinned_model.location, revision=pinned_model.revision
    )
    return HubCandidate(pinned_model, list(entries.order_by("pk")))


def _explain_refusal(hub_id: str, error: Exception) -> str:
    """Explain to the submitter why the hub gave no model, with remedies that a submitter can apply."""
    if isinstance(error, Gated):
        return f"{hub_id} is gated: its owner decides who may read it. {_advise_on_access()}"
    if isinstance(error, NotOnHub):
        return f"{hub_id} is not on {settings.HUB_ENDPOINT}, or it is private: check the name. {_advise_on_access()}"
    if isinstance(error, HubUnavailable):
        return f"The hub cannot be asked now ({_join_lines(error)}). Nothing was stored: try again in a few minutes."
    return f"{_join_lines(error)}."


def _join_lines(error: Exception) -> str:
    return " ".join(str(error).split())


def _advise_on_access() -> str:
    if settings.HUB_TOKEN:
        return (
            "This board reads the hub with an account of its own: ask its operators which, and give that account "
            "access, or submit a public model."
        )
    return (
        "This board reads the hub without an account, so only what is public: make it public, or ask its operators to "
        "set HF_TOKEN to a token of an account that you then give access."
    )


def _find_size_problem(pinned_model: ResolvedModel, precision: str) -> str:
    """Say why the board does not take a model of this size in this precision; "" if it does."""
    parameters, weights = pinned_model.architecture.parameters, pinned_model.weights
    if problem := explain_size(parameters, precision):
        return f"{pinned_model.location} does not fit. {problem}"
    statement = f"{pinned_model.location} declares {weights / GB:,.3f} GB of weights for {parameters:,} parameters"
    most_bytes = SPARE * BYTES_A_NUMBER * (pinned_model.architecture.stored or parameters) + HEADERS
    if weights > most_bytes:
        return f"{statement}, more than they can have: take out of the repository what is not this model's."
    is_plain = pinned_model.weight_format in ("", *get_args(Precision))
    if weights < parameters * (LEAST_BYTES_A_PARAMETER if is_plain else LEAST_BYTES_QUANTISED):
        return f"{statement}, fewer than they can have: upload all of its weights, or a config.json that fits them."
    return ""
