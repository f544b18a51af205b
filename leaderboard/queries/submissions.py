"""How far submissions are, as their submitter and moderators read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.db.models import Count
from django.utils import timezone

from leaderboard.models import (
    ControlCheck,
    Download,
    EntryCheck,
    LanguageModel,
    Metric,
    Run,
    Scoring,
    Submission,
    SubmissionLine,
    Work,
)
from leaderboard.services.checks import NO_ANSWER_YET
from leaderboard.services.failures import Failure, explain, shown
from leaderboard.services.openings import BEING_OPENED, NOT_OPENED
from leaderboard.services.places import Place, places_of
from leaderboard.services.queue import places
from leaderboard.services.submissions.evaluations import Evaluation, Step, evaluations, percent
from leaderboard.services.submissions.workspace import WITHDRAWABLE, why_not_alone

State = Submission.State
LINES = 200
A_PAGE = 25
NEXT = {
    State.CHECKING: "A worker reads the file and says what is wrong with it, if anything is.",
    State.REFUSED: "Nothing of it was entered. Mend what is said here, and submit it again.",
    State.MODERATED: "A moderator looks at it. Until then nothing is done with it; you are written to.",
    State.RETURNED: "Change what the moderator asks for, and send it again.",
    State.ACCEPTED: "The model's outputs are collected. Then the scorer's control texts are scored first; only while "
    "it is what it was are the outputs scored and ranked. Should it have drifted, all entries are scored again first.",
    State.RANKED: "It stands in the rankings.",
    State.FAILED: "Retry it once its cause is mended. What is ranked already stays ranked.",
    State.CANCELLED: "You can retry it: what was collected so far is kept.",
    State.WITHDRAWN: "It is over. You can submit another revision.",
}


@dataclass(frozen=True)
class Stage:
    """One evaluation: where it is in words, how far, how long it takes, and why it failed.

    place: in the queue, from 1; left: time left, going by the pace so far; guess: time it takes once it begins, going
    by the last model; check: of the scorer, made for this. reason: the technical one.
    """

    evaluation: Evaluation
    said: str
    place: int | None
    left: timedelta | None
    guess: timedelta | None
    check: ControlCheck | None
    failure: Failure | None
    reason: str
    standing: Place | None


@dataclass(frozen=True)
class Status:
    """All that the page of a submission says."""

    submission: Submission
    next: str
    stages: list[Stage]
    lines: list[SubmissionLine]
    percent: int
    moving: bool
    alone: bool
    newer: LanguageModel | None

    @property
    def can(self) -> list[str]:
        """What its submitter may do, as names of addresses."""
        state, found = self.submission.state, []
        if state == State.RETURNED:
            found.append("change-submission")
        if self.submission.can_be_retried:
            found.append("retry-submission")
        if state == State.ACCEPTED:
            found.append("cancel-submission")
        withdrawn = self.submission.model and self.submission.model.access == LanguageModel.Access.WITHDRAWN
        if self.submission.model and self.alone and state != State.WITHDRAWN and not withdrawn:
            found.append("correct-submission")
        if state in WITHDRAWABLE:
            found.append("withdraw-submission")
        return found

    @property
    def mark(self) -> str:
        """Changes when more does than numbers and lines: then the page has to be made anew."""
        failed = [stage.evaluation.metric.slug for stage in self.stages if stage.failure]
        return "-".join([self.submission.state, *failed])


def status(submission: Submission) -> Status:
    """The page of a submission, in a constant number of queries."""
    found = evaluations([submission])[submission.pk]
    moving = submission.state in (State.CHECKING, State.ACCEPTED)
    model = submission.model
    versions = [one.scoring.metric_version for one in found if one.scoring and one.step == Step.RANKED]
    standing = places_of(model, versions) if model else {}
    queue = {kind: places(kind, _waiting(found, kind)) if moving else {} for kind in (Run, Scoring)}
    checks, guesses = (_checks(found), _guesses(found, model)) if moving else ({}, {})
    fetched = (
        Download.objects.filter(model=model).first() if moving and submission.form == Submission.Form.HUB else None
    )
    stages = [
        _stage(
            one,
            queue[type(one.work)].get(one.work.pk) if isinstance(one.work, (Run, Scoring)) else None,
            checks.get(one.metric.pk),
            guesses.get(one.run.protocol_id) if one.run else None,
            standing.get(one.scoring.metric_version_id) if one.scoring else None,
            fetched,
        )
        for one in found
    ]
    lineage = LanguageModel.objects.listed().lineage(model).filter(created_at__gt=model.created_at) if model else None
    return Status(
        submission,
        NEXT[State(submission.state)],
        stages,
        list(submission.lines.order_by("-at", "-pk")[:LINES]),
        percent(found),
        moving,
        not why_not_alone(submission),
        lineage.order_by("-created_at", "-pk").first() if lineage is not None else None,
    )


def _waiting(found: Sequence[Evaluation], kind: type[Work]) -> list[int]:
    """The works of a kind that wait for a worker."""
    works = [one.work for one in found]
    return [work.pk for work in works if isinstance(work, kind) and work.state == Work.State.QUEUED and not work.held]


def _checks(found: Sequence[Evaluation]) -> dict[int, ControlCheck]:
    """Of each metric that is being scored: the last check that was made for it, in one query."""
    scoring = {
        one.metric.pk: one.scoring for one in found if one.scoring and one.step in (Step.SCORING, Step.PUBLISHING)
    }
    checks = ControlCheck.objects.filter(metric__in=scoring, created_at__gte=timezone.now() - timedelta(days=7))
    newest = {check.metric_id: check for check in checks.order_by("pk")} if scoring else {}
    return {pk: check for pk, check in newest.items() if _is_for(check, scoring[pk])}


def _is_for(check: ControlCheck, scoring: Scoring) -> bool:
    began = scoring.started_at or scoring.created_at
    return check.state in (Work.State.QUEUED, Work.State.RUNNING) or check.created_at >= began


def _guesses(found: Sequence[Evaluation], model: LanguageModel | None) -> dict[int, timedelta]:
    """By protocol, how long its last run took: as long again for each parameter of this model. In one query."""
    protocols = {one.run.protocol_id for one in found if one.run and one.step == Step.COLLECTING}
    done = Run.objects.filter(protocol__in=protocols, state=Work.State.DONE, seconds__gt=0).select_related("model")
    guesses: dict[int, timedelta] = {}
    for run in done.order_by("-finished_at")[:20] if protocols else ():
        sizes = (model.parameters if model else None), run.model.parameters
        share = sizes[0] / sizes[1] if sizes[0] and sizes[1] else 1.0
        guesses.setdefault(run.protocol_id, timedelta(seconds=round(run.seconds * share)))
    return guesses


def _stage(
    one: Evaluation,
    place: int | None,
    check: ControlCheck | None,
    guess: timedelta | None,
    standing: Place | None,
    fetched: Download | None,
) -> Stage:
    work = one.work
    failed = work is not None and work.state != Work.State.DONE and one.step in (Step.FAILED, Step.CANCELLED)
    tried = work is not None and work.state == Work.State.QUEUED and bool(work.fault)
    begun = work is not None and work.state == Work.State.RUNNING
    return Stage(
        one,
        _fetching(one, fetched) or words(one, place, check, timezone.now()),
        place,
        work.time_left if work and not work.held else None,
        None if begun or work is None or work.done else guess,
        check,
        explain(work) if work and failed else None,
        shown(work.reason) if work and (failed or tried) else "",
        standing,
    )


def _fetching(one: Evaluation, fetched: Download | None) -> str:
    """How far the files are that an evaluation waits for; "" where it does not."""
    waits = one.step == Step.COLLECTING and one.work and one.work.state == Work.State.QUEUED and not one.work.held
    if fetched is None or not waits or fetched.state in (Work.State.DONE, Work.State.CANCELLED):
        return ""
    if fetched.state == Work.State.QUEUED and fetched.not_before and fetched.not_before > timezone.now():
        return _pausing(fetched, timezone.now())
    if fetched.state == Work.State.QUEUED:
        return "Waiting for its files to be fetched from the hub."
    return f"Its files are fetched from the hub: {fetched.done / 1000:,.0f} MB so far."


def words(one: Evaluation, place: int | None, check: ControlCheck | None, now: datetime) -> str:
    """Where an evaluation is, in a sentence or two."""
    work, step = one.work, one.step
    if work is None:
        return "Not begun."
    if step == Step.HELD and one.check:
        return f"Scored, and held back until a moderator has looked. {' '.join(one.check.words)}"
    if one.check and one.check.state == EntryCheck.State.REFUSED:
        return f"A moderator did not release it. {one.check.reason}"
    if step in (Step.FAILED, Step.CANCELLED):
        return "Failed." if step == Step.FAILED else "Cancelled."
    if step == Step.PUBLISHING and one.rescoring:
        return f"Scored. It is published with all other entries: {_far(one)}."
    if step == Step.RANKED:
        return "Ranked."
    doing = "collecting outputs" if step == Step.COLLECTING else "scoring"
    if work.held:
        return f"Paused by an operator, at {doing}. It goes on when they resume it."
    if work.state == Work.State.QUEUED and work.not_before and work.not_before > now:
        return _pausing(work, now)
    if work.state == Work.State.QUEUED:
        again = " again" if work.done else ""
        queue = f", place {place} in the queue" if place else ""
        return f"Waiting for its turn at {doing}{again}{queue}."
    if work.lease_expires_at and work.lease_expires_at < now:
        return f"Its worker fell silent at {doing}: another one goes on from there."
    if step == Step.SCORING and check and check.state in (Work.State.QUEUED, Work.State.RUNNING):
        return "Control check: the scorer's control texts are scored again, before any numbers."
    again = f" A drift was found: all entries are scored again, {_far(one)}." if one.rescoring else ""
    return ("Collecting the model's outputs." if step == Step.COLLECTING else "Scoring the outputs.") + again


def _far(one: Evaluation) -> str:
    if one.rescoring is None:
        return ""
    paused = ", paused by an operator" if one.rescoring.state == "paused" else ""
    return f"{one.rescoring.done} of {one.rescoring.total} are scored{paused}"


def _pausing(work: Work, now: datetime) -> str:
    left = round((work.not_before - now).total_seconds()) if work.not_before else 0
    soon = f"{left} s" if left < 120 else f"{left // 60} min"
    if work.reason.startswith(NO_ANSWER_YET):
        return f"Its scorer cannot be had now, so nothing is published. It is tried again in {soon}."
    if work.reason.startswith(BEING_OPENED):
        return f"Its version is being opened: control texts are scored several times first. It goes on in {soon}."
    if work.reason.startswith(NOT_OPENED):
        return f"Its scorer is not steady now, so no version is opened on it. It is tried again in {soon}."
    if not work.fault:
        return f"{work.reason or 'Waiting for a control check'}. It goes on in {soon}."
    if not work.attempts:
        return f"{explain(work).what} It is tried again in {soon}."
    most = settings.MOST_ATTEMPTS
    return f"Attempt {work.attempts} of {most} came to nothing. {explain(work).what} It is tried again in {soon}."


@dataclass(frozen=True)
class Sent:
    """A line of somebody's submissions; percent: None where nothing is under way. ranked: of so many metrics."""

    submission: Submission
    percent: int | None
    ranked: int
    asked: int


@dataclass(frozen=True)
class Workspace:
    """A page of somebody's submissions, and how many there are in each state."""

    page: "Page[Submission]"
    rows: list[Sent]
    states: list[tuple[str, str, int]]
    count: int


def workspace(user: User, state: str, number: int) -> Workspace:
    """What somebody sent, the newest first; of one state, where one is given. A constant number of queries."""
    mine = Submission.objects.filter(submitter=user)
    counted = dict(mine.order_by().values_list("state").annotate(Count("pk")))
    of_state = mine.filter(state=state) if state else mine
    page = Paginator(of_state.select_related("model"), A_PAGE).get_page(number)
    shown_now = list(page.object_list)
    found = evaluations(shown_now)
    rows = [_sent(submission, found[submission.pk]) for submission in shown_now]
    states = [(of.value, str(of.label), counted[of.value]) for of in State if of.value in counted]
    return Workspace(page, rows, states, sum(counted.values()))


def _sent(submission: Submission, found: list[Evaluation]) -> Sent:
    ranked = sum(one.step == Step.RANKED for one in found) if submission.model else 0
    far = percent(found) if submission.state == State.ACCEPTED else None
    return Sent(submission, far, ranked, len(submission.payload.get("metrics", [])))


@dataclass(frozen=True)
class Field:
    """Something that was sent, as text."""

    label: str
    text: str


@dataclass(frozen=True)
class Contents:
    """All that was sent: what its submitter filled in, and what the checks found of it."""

    filled_in: list[Field]
    found: list[Field]


@dataclass(frozen=True)
class ToModerate:
    """A submission that waits for a moderator, with all that was sent."""

    submission: Submission
    sent: Contents


@dataclass(frozen=True)
class Waiting:
    """A page of what waits for a moderator."""

    page: "Page[Submission]"
    rows: list[ToModerate]


LABELS = {
    "name": "Name",
    "hub_id": "Hub id",
    "revision": "Revision asked for",
    "licence": "Licence",
    "family": "Family",
    "notes": "Notes",
    "metrics": "Metrics",
}


def waiting(number: int) -> Waiting:
    """What waits for a moderator, the oldest first. A constant number of queries."""
    of = Submission.objects.to_moderate().select_related("submitter", "model").order_by("created_at", "pk")
    page = Paginator(of, A_PAGE).get_page(number)
    titles = metric_titles()
    return Waiting(page, [ToModerate(one, contents_of(one, titles)) for one in page.object_list])


def metric_titles() -> dict[str, str]:
    """By slug."""
    return dict(Metric.objects.values_list("slug", "title"))


def contents_of(submission: Submission, titles: dict[str, str] | None = None) -> Contents:
    """All that was sent, as text, in order."""
    payload = submission.payload
    titles = metric_titles() if titles is None else titles
    filled_in = []
    for name, label in LABELS.items():
        value = payload.get(name)
        if name == "metrics":
            value = ", ".join(titles.get(slug, slug) for slug in value or [])
        if value:
            filled_in.append(Field(label, str(value)))
    rest = {name: value for name, value in payload.items() if name not in LABELS}
    return Contents(filled_in, [Field(label, text) for label, text in _flat("", rest) if text])


def _flat(name: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for inner, of in value.items() for row in _flat(str(inner), of)]
    said = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return [(name.replace("_", " ").capitalize(), said[:500])]
