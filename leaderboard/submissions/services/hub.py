"""Form A: a model of the hub, its revision pinned."""

import logging
from dataclasses import dataclass, field
from typing import Any, get_args

from django.conf import settings
from django.utils.functional import cached_property

from leaderboard.card.form import clean_or_empty, columns_of
from leaderboard.models import LanguageModel, Submission
from leaderboard.services import language_models, look_ups
from leaderboard.services.memory import GB, explain_size, memory_needed
from leaderboard.submissions.services.metric_choices import MetricChoice, list_choices
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
Problems = dict[str, list[str]]


@dataclass(frozen=True)
class HubCandidate:
    """What the hub has: a model pinned to its commit. `model`: its row, if the board has this revision."""

    resolved: ResolvedModel
    model: LanguageModel | None = field(default=None)

    @cached_property
    def choices(self) -> list[MetricChoice]:
        """The metrics, with what stands in the way of some."""
        return list_choices(self.resolved.architecture.kind, self.resolved.architecture.parameters, self.model)

    @property
    def possible(self) -> list[str]:
        """Slugs of the metrics that can be chosen."""
        return [choice.metric.slug for choice in self.choices if not choice.obstacle]

    @property
    def obstacles(self) -> int:
        """The number of metrics that cannot be chosen."""
        return len(self.choices) - len(self.possible)

    @property
    def licence(self) -> str:
        """The licence that the model card states; "" if the text is not valid here."""
        return clean_or_empty("licence", self.resolved.licence)

    @property
    def memory(self) -> float:
        """GB of memory that a worker needs for the model."""
        return memory_needed(self.resolved.architecture.parameters) / GB

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
    candidate = HubCandidate(read_pinned_model(payload), _find_model(read_pinned_model(payload)))
    refuse_known(candidate)
    if obstacles := find_metric_problems(payload["metrics"], candidate):
        raise HubRefused({"metrics": obstacles}, candidate)


def find_candidate(hub_id: str, revision: str) -> HubCandidate:
    """Find the model under that id on the hub, if the board takes it. Raises HubRefused."""
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
    candidate = HubCandidate(pinned_model, _find_model(pinned_model))
    if problem := _find_size_problem(pinned_model):
        raise HubRefused({"hub_id": [problem]}, candidate)
    refuse_known(candidate)
    return candidate


def refuse_known(candidate: HubCandidate) -> None:
    """Raise HubRefused if this revision already has every possible metric, or waits for a moderator."""
    pinned_model, model = candidate.resolved, candidate.model
    model_name = f"{pinned_model.location} at {pinned_model.revision[:7]}"
    waiting_submissions = Submission.objects.filter(form=Submission.Form.HUB, state__in=WAITING)
    if waiting_submissions.filter(
        payload__resolved__location=pinned_model.location, payload__resolved__revision=pinned_model.revision
    ).exists():
        raise HubRefused(
            {"hub_id": [f"{model_name} has been submitted already and waits for a moderator: please wait."]}, candidate
        )
    if model is None:
        return
    address = model.get_absolute_url()
    if model.access != LanguageModel.Access.OPEN:
        raise HubRefused(
            {"hub_id": [f"{model_name} is {model.access} on this board, see {address}: ask its operators."]}, candidate
        )
    if not candidate.possible:
        problem = f"{model_name} is on the board already, with every metric that it can have here: see {address}."
        raise HubRefused({"hub_id": [problem]}, candidate)


def enter(submission: Submission) -> LanguageModel:
    """Return the row of the model that the payload pins; made if it is new."""
    payload = submission.payload
    pinned_model = read_pinned_model(payload)
    model, _ = language_models.enter(
        pinned_model, LanguageModel.Source.HUB, pinned_model.location, **columns_of(payload)
    )
    return model


def read_pinned_model(payload: dict[str, Any]) -> ResolvedModel:
    """Return the model that the payload pins."""
    columns = payload["resolved"]
    return ResolvedModel(**{**columns, "architecture": Architecture(**columns["architecture"])})


def _find_model(pinned_model: ResolvedModel) -> LanguageModel | None:
    return LanguageModel.objects.filter(
        source=LanguageModel.Source.HUB, location=pinned_model.location, revision=pinned_model.revision
    ).first()


def find_metric_problems(metrics: list[str], candidate: HubCandidate) -> list[str]:
    """List why some of the metrics cannot be chosen."""
    obstacles = {choice.metric.slug: choice.obstacle for choice in candidate.choices}
    if not metrics:
        return [f"There is no metric here that a {candidate.resolved.architecture.kind} model can be ranked under now."]
    return [f"{slug} cannot be chosen. {obstacles[slug]}" for slug in metrics if obstacles[slug]]


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


def _find_size_problem(pinned_model: ResolvedModel) -> str:
    """Say why the board does not take a model of this size; "" if it does."""
    parameters, weights = pinned_model.architecture.parameters, pinned_model.weights
    if problem := explain_size(parameters):
        return f"{pinned_model.location} does not fit. {problem}"
    statement = f"{pinned_model.location} declares {weights / GB:,.3f} GB of weights for {parameters:,} parameters"
    most_bytes = SPARE * BYTES_A_NUMBER * (pinned_model.architecture.stored or parameters) + HEADERS
    if weights > most_bytes:
        return f"{statement}, more than they can have: take out of the repository what is not this model's."
    is_plain = pinned_model.weight_format in ("", *get_args(Precision))
    if weights < parameters * (LEAST_BYTES_A_PARAMETER if is_plain else LEAST_BYTES_QUANTISED):
        return f"{statement}, fewer than they can have: upload all of its weights, or a config.json that fits them."
    return ""
