"""Form A: a model of the hub, its revision pinned.

The names of the form's fields are those of `leaderboard.hub_form.HubForm`.
"""

import logging
from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.files import File
from django.utils.functional import cached_property

from leaderboard.hub_form import HubForm
from leaderboard.models import LanguageModel, Submission
from leaderboard.services import cages, language_models
from leaderboard.services.memory import GB, memory_needed, memory_of_workers
from leaderboard.services.submissions.metric_choices import Choice, choices_for
from leaderboard.services.submissions.patience import within
from leaderboard.services.submissions.refusals import SubmissionRefused
from scoring.cage import LOOK_UP, CageError
from scoring.language_models import (
    Architecture,
    Gated,
    HubUnavailable,
    ModelRefused,
    NoSuchRevision,
    NotOnHub,
    ResolvedModel,
)

log = logging.getLogger(__name__)

READING_SECONDS = LOOK_UP.seconds + 1  # beyond the hub's answers: for what its configuration describes
NOT_LOOKED_INTO = (
    "This board cannot look into models at this moment. Nothing was kept: try again in some minutes, or tell its "
    "operators."
)
BYTES_A_NUMBER = 4  # float32, the widest that weights are published in
SPARE = 1.1  # times what the architecture needs; loading counts the numbers of each file exactly
HEADERS = 2**20  # bytes that describe the weights
LEAST_BYTES_A_PARAMETER = 1
WAITING = (Submission.State.CHECKING, Submission.State.MODERATED, Submission.State.RETURNED)
Problems = dict[str, list[str]]


@dataclass(frozen=True)
class Found:
    """What the hub has: a model pinned to its commit. `there`: its row, where this revision is on the board."""

    resolved: ResolvedModel
    there: LanguageModel | None = field(default=None)

    @cached_property
    def choices(self) -> list[Choice]:
        """The metrics, with what stands in the way of some."""
        return choices_for(self.resolved.architecture.kind, self.resolved.architecture.parameters, self.there)

    @property
    def possible(self) -> list[str]:
        """Slugs of the metrics that can be chosen."""
        return [choice.metric.slug for choice in self.choices if not choice.obstacle]

    @property
    def obstacles(self) -> int:
        """How many metrics cannot be."""
        return len(self.choices) - len(self.possible)

    @property
    def licence(self) -> str:
        """As the card says, which is anyone's text; "" where that will not do."""
        try:
            return str(HubForm.base_fields["licence"].clean(self.resolved.licence))
        except ValidationError:
            return ""

    @property
    def memory(self) -> float:
        """GB that a worker needs for it."""
        return memory_needed(self.resolved.architecture.parameters) / GB

    @property
    def page(self) -> str:
        """Its address on the hub."""
        return f"{settings.HUB_ENDPOINT}/{self.resolved.location}/tree/{self.resolved.revision}"


class HubRefused(SubmissionRefused):
    """Nothing was taken. `found`: what the hub has, where that is known."""

    def __init__(self, problems: Problems, found: Found | None = None) -> None:
        super().__init__(problems)
        self.found = found


def look(values: dict[str, Any]) -> Found:
    """What `hub_id` and `revision` mean. Nothing is kept. Raises HubRefused."""
    form = HubForm({name: values.get(name, "") for name in ("hub_id", "revision")})
    if not form.is_valid():
        raise HubRefused(_said(form))
    return find(form.cleaned_data["hub_id"], form.cleaned_data["revision"])


def check(user: User, values: dict[str, Any], upload: "File[bytes] | None") -> dict[str, Any]:
    """The payload of a hub model: what `values` say, with defaults, and what the hub has. Raises HubRefused."""
    form = HubForm(values)
    problems = {} if form.is_valid() else _said(form)
    said = form.cleaned_data
    if "hub_id" not in said or "revision" not in said:
        raise HubRefused(problems)
    found = None
    try:
        found = find(said["hub_id"], said["revision"])
    except HubRefused as refused:
        problems = {**refused.problems, **problems}
        found = refused.found
    if problems or found is None:
        raise HubRefused(problems, found)
    resolved = found.resolved
    metrics = said["metrics"] or found.possible
    if wrong := _unfit(metrics, found):
        raise HubRefused({"metrics": wrong}, found)
    return {
        "hub_id": resolved.location,
        "revision": said["revision"],
        "metrics": metrics,
        "name": said["name"] or resolved.location,
        "family": said["family"] or resolved.architecture.family,
        "licence": said["licence"] if "licence" in values else found.licence,
        "notes": said["notes"],
        "resolved": asdict(resolved),
    }


def check_again(payload: dict[str, Any]) -> None:
    """Once more, where nobody can send the same in between: that it is new. Raises HubRefused."""
    found = Found(resolved_of(payload), _row(resolved_of(payload)))
    refuse_known(found)
    if wrong := _unfit(payload["metrics"], found):
        raise HubRefused({"metrics": wrong}, found)


def find(hub_id: str, revision: str) -> Found:
    """What the hub has under that id, if the board takes it. Raises HubRefused."""
    patience = settings.HUB_PATIENCE_SECONDS
    try:
        cages.prepare()  # before the hub's patience counts: it is no fault of a hub's
        resolved = within(
            patience + READING_SECONDS,
            lambda: cages.look_up(hub_id, revision or None, patience),
        )
    except NoSuchRevision as error:
        raise HubRefused({"revision": [f"{_line(error)}."]}) from error
    except (ModelRefused, HubUnavailable) as error:
        raise HubRefused({"hub_id": [_explained(hub_id, error)]}) from error
    except CageError as error:
        log.error("%s cannot be looked into: %s", hub_id, error)
        raise HubRefused({"hub_id": [NOT_LOOKED_INTO]}) from error
    found = Found(resolved, _row(resolved))
    if problem := _size_problem(resolved):
        raise HubRefused({"hub_id": [problem]}, found)
    refuse_known(found)
    return found


def refuse_known(found: Found) -> None:
    """Raise HubRefused where this revision is on the board with all that it can have, or waits to be."""
    resolved, there = found.resolved, found.there
    named = f"{resolved.location} at {resolved.revision[:7]}"
    waiting = Submission.objects.filter(form=Submission.Form.HUB, state__in=WAITING)
    if waiting.filter(
        payload__resolved__location=resolved.location, payload__resolved__revision=resolved.revision
    ).exists():
        raise HubRefused({"hub_id": [f"{named} was submitted already and waits for a moderator: wait with it."]}, found)
    if there is None:
        return
    address = there.get_absolute_url()
    if there.access != LanguageModel.Access.OPEN:
        raise HubRefused(
            {"hub_id": [f"{named} is {there.access} on this board, see {address}: ask its operators."]}, found
        )
    if not found.possible:
        problem = f"{named} is on the board already, with every metric that it can have here: see {address}."
        raise HubRefused({"hub_id": [problem]}, found)


def enter(submission: Submission) -> LanguageModel:
    """The row of the model that the payload pinned."""
    payload = submission.payload
    found = resolved_of(payload)
    about = {name: payload[name] for name in ("family", "licence", "notes")}
    model, _ = language_models.enter(found, LanguageModel.Source.HUB, found.location, payload["name"], **about)
    return model


def resolved_of(payload: dict[str, Any]) -> ResolvedModel:
    """What the payload pinned."""
    resolved = payload["resolved"]
    return ResolvedModel(**{**resolved, "architecture": Architecture(**resolved["architecture"])})


def _row(resolved: ResolvedModel) -> LanguageModel | None:
    return LanguageModel.objects.filter(
        source=LanguageModel.Source.HUB, location=resolved.location, revision=resolved.revision
    ).first()


def _said(form: HubForm) -> Problems:
    return {name: [str(of) for of in errors] for name, errors in form.errors.items()}


def _unfit(metrics: list[str], found: Found) -> list[str]:
    """Why some of the metrics cannot be had."""
    obstacles = {choice.metric.slug: choice.obstacle for choice in found.choices}
    if not metrics:
        return [f"There is no metric here that a {found.resolved.architecture.kind} model can be ranked under now."]
    return [f"{slug} cannot be chosen. {obstacles[slug]}" for slug in metrics if obstacles[slug]]


def _explained(hub_id: str, error: Exception) -> str:
    """Why the hub gave nothing, to whoever submits: what an operator would do is not in their hands."""
    if isinstance(error, Gated):
        return f"{hub_id} is gated: its owner decides who may read it. {_access()}"
    if isinstance(error, NotOnHub):
        return f"{hub_id} is not on {settings.HUB_ENDPOINT}, or it is private: check the name. {_access()}"
    if isinstance(error, HubUnavailable):
        return f"The hub cannot be asked now ({_line(error)}). Nothing was kept: try again in some minutes."
    return f"{_line(error)}."


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _access() -> str:
    if settings.HUB_TOKEN:
        return (
            "This board reads the hub with an account of its own: ask its operators which, and give that account "
            "access, or submit a public model."
        )
    return (
        "This board reads the hub without an account, so only what is public: make it public, or ask its operators to "
        "set HF_TOKEN to a token of an account that you then give access."
    )


def _size_problem(resolved: ResolvedModel) -> str:
    """Why a model of this size is not taken; "" where it is."""
    parameters, weights = resolved.architecture.parameters, resolved.weights
    needed, most = memory_needed(parameters), memory_of_workers()
    if needed > most:
        return (
            f"{resolved.location} has {parameters:,} parameters and needs about {needed / GB:,.1f} GB to run in "
            f"float32; the workers of this board have {most / GB:,.1f} GB. Submit a smaller one, or ask the operators "
            "for a larger worker."
        )
    declared = f"{resolved.location} declares {weights / GB:,.3f} GB of weights for {parameters:,} parameters"
    most_bytes = SPARE * BYTES_A_NUMBER * (resolved.architecture.stored or parameters) + HEADERS
    if weights > most_bytes:
        return f"{declared}, more than they can have: take out of the repository what is not this model's."
    if weights < parameters * LEAST_BYTES_A_PARAMETER:
        return f"{declared}, fewer than they can have: upload all of its weights, or a config.json that fits them."
    return ""
