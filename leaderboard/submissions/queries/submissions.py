"""The progress of submissions, as submitters and moderators see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.db.models import Count

from leaderboard.card.form import CARD
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
from leaderboard.models.clock import database_now, from_now
from leaderboard.rankings.places import Place, places_of
from leaderboard.services.failures import Advice, explain, redact
from leaderboard.services.queue import places
from leaderboard.submissions.services.evaluations import (
    Evaluation,
    EvaluationStep,
    evaluations,
    is_without_rank,
    percent,
)
from leaderboard.submissions.services.workspace import WITHDRAWABLE, find_other_claim

State = Submission.State
MOST_LINES = 200
PAGE_SIZE = 25
NEXT_STEPS = {
    State.CHECKING: "A worker reads the file and reports what is wrong with it, if anything.",
    State.REFUSED: "Nothing was entered. Correct what is wrong, and submit it again.",
    State.MODERATED: "It waits for a moderator. No work starts before the decision; you are notified of it.",
    State.RETURNED: "Change what the moderator asks for, and send it again.",
    State.ACCEPTED: "The model's outputs are collected. Then the scorer's control texts are scored first. If the "
    "scorer is unchanged, the outputs are scored and ranked. If it has drifted, all entries are scored again first.",
    State.RANKED: "It stands in the rankings.",
    State.FAILED: "Retry it once the cause is fixed. What is already ranked stays ranked.",
    State.CANCELLED: "You can retry it. The outputs collected so far are kept.",
    State.WITHDRAWN: "It is over. You can submit another revision.",
}
UNRANKED = "Its numbers are shown without a rank, as too many texts have no score."
REASONS_TO_WAIT = {
    Work.WaitsFor.CHECK: "Its scorer is not available now, so nothing is published. It is tried again in {soon}.",
    Work.WaitsFor.OPENING: "Its version is being opened: control texts are scored several times first. It goes on in "
    "{soon}.",
    Work.WaitsFor.STEADINESS: "Its scorer does not give steady scores now, so no version is opened. It is tried again "
    "in {soon}.",
}


@dataclass(frozen=True)
class Stage:
    """One evaluation: its state in words, its progress, its duration, and why it failed.

    place: in the queue, from 1; time_left: going by the pace so far; guess: time it takes once it begins, going
    by the last model; check: of the scorer, made for this. reason: the technical one.
    """

    evaluation: Evaluation
    text: str
    place: int | None
    time_left: timedelta | None
    guess: timedelta | None
    check: ControlCheck | None
    failure: Advice | None
    reason: str
    standing: Place | None


@dataclass(frozen=True)
class SubmissionStatus:
    """Everything that the page of a submission shows."""

    submission: Submission
    next: str
    stages: list[Stage]
    lines: list[SubmissionLine]
    percent: int
    is_moving: bool
    is_alone: bool
    newer: LanguageModel | None

    @property
    def actions(self) -> list[str]:
        """What its submitter may do now, as URL names."""
        state, actions = self.submission.state, []
        if state == State.RETURNED:
            actions.append("change_submission")
        if self.submission.can_be_retried:
            actions.append("retry_submission")
        if state == State.ACCEPTED:
            actions.append("cancel_submission")
        is_withdrawn = self.submission.model and self.submission.model.access == LanguageModel.Access.WITHDRAWN
        if self.submission.model and self.is_alone and state != State.WITHDRAWN and not is_withdrawn:
            actions.append("correct_submission")
        if state in WITHDRAWABLE:
            actions.append("withdraw_submission")
        return actions

    @property
    def mark(self) -> str:
        """A string that changes when the page needs a full reload, rather than new numbers and log lines."""
        failed_slugs = [stage.evaluation.metric.slug for stage in self.stages if stage.failure]
        return "-".join([self.submission.state, *failed_slugs])


def describe_status(submission: Submission) -> SubmissionStatus:
    """Describe a submission for its page, in a constant number of queries."""
    submission_evaluations = evaluations([submission])[submission.pk]
    is_moving = submission.state in (State.CHECKING, State.ACCEPTED)
    model = submission.model
    versions = [
        evaluation.scoring.metric_version
        for evaluation in submission_evaluations
        if evaluation.scoring and evaluation.step == EvaluationStep.RANKED
    ]
    standing = places_of(model, versions) if model else {}
    queue = {
        kind: places(kind, _list_queued_works(submission_evaluations, kind)) if is_moving else {}
        for kind in (Run, Scoring)
    }
    checks, guesses = (
        (_find_checks(submission_evaluations), _guess_durations(submission_evaluations, model))
        if is_moving
        else ({}, {})
    )
    download = (
        Download.objects.filter(model=model).first() if is_moving and submission.form == Submission.Form.HUB else None
    )
    now = database_now()
    stages = [
        _describe_stage(
            evaluation,
            queue[type(evaluation.work)].get(evaluation.work.pk)
            if isinstance(evaluation.work, (Run, Scoring))
            else None,
            checks.get(evaluation.metric.pk),
            guesses.get(evaluation.run.protocol_id) if evaluation.run else None,
            standing.get(evaluation.scoring.metric_version_id) if evaluation.scoring else None,
            download,
            now,
        )
        for evaluation in submission_evaluations
    ]
    lineage = LanguageModel.objects.listed().revisions(model).filter(created_at__gt=model.created_at) if model else None
    return SubmissionStatus(
        submission,
        _describe_next(submission, submission_evaluations),
        stages,
        list(submission.lines.order_by("-at", "-pk")[:MOST_LINES]),
        percent(submission_evaluations),
        is_moving,
        not find_other_claim(submission),
        lineage.order_by("-created_at", "-pk").first() if lineage is not None else None,
    )


def _describe_next(submission: Submission, submission_evaluations: Sequence[Evaluation]) -> str:
    """Describe what comes next, or where the submission stands."""
    if submission.state == State.RANKED and is_without_rank(submission_evaluations):
        return UNRANKED
    return NEXT_STEPS[State(submission.state)]


def _list_queued_works(submission_evaluations: Sequence[Evaluation], kind: type[Work]) -> list[int]:
    """Return the keys of the works of this kind that wait for a worker."""
    works = [evaluation.work for evaluation in submission_evaluations]
    return [work.pk for work in works if isinstance(work, kind) and work.state == Work.State.QUEUED and not work.held]


def _find_checks(submission_evaluations: Sequence[Evaluation]) -> dict[int, ControlCheck]:
    """Find the last control check made for each metric that is being scored, by metric, in one query."""
    scoring = {
        evaluation.metric.pk: evaluation.scoring
        for evaluation in submission_evaluations
        if evaluation.scoring and evaluation.step in (EvaluationStep.SCORING, EvaluationStep.PUBLISHING)
    }
    checks = ControlCheck.objects.filter(metric__in=scoring, created_at__gte=from_now(-7 * 86_400))
    newest = {check.metric_id: check for check in checks.order_by("pk")} if scoring else {}
    return {pk: check for pk, check in newest.items() if _is_for(check, scoring[pk])}


def _is_for(check: ControlCheck, scoring: Scoring) -> bool:
    began = scoring.started_at or scoring.created_at
    return check.state in (Work.State.QUEUED, Work.State.RUNNING) or check.created_at >= began


def _guess_durations(submission_evaluations: Sequence[Evaluation], model: LanguageModel | None) -> dict[int, timedelta]:
    """Guess how long collecting takes, by protocol: its last run, scaled by the model's parameters. One query."""
    protocols = {
        evaluation.run.protocol_id
        for evaluation in submission_evaluations
        if evaluation.run and evaluation.step == EvaluationStep.COLLECTING
    }
    finished_runs = Run.objects.filter(protocol__in=protocols, state=Work.State.DONE, seconds__gt=0).select_related(
        "model"
    )
    guesses: dict[int, timedelta] = {}
    for run in finished_runs.order_by("-finished_at")[:20] if protocols else ():
        sizes = (model.parameters if model else None), run.model.parameters
        share = sizes[0] / sizes[1] if sizes[0] and sizes[1] else 1.0
        guesses.setdefault(run.protocol_id, timedelta(seconds=round(run.seconds * share)))
    return guesses


def _describe_stage(
    evaluation: Evaluation,
    place: int | None,
    check: ControlCheck | None,
    guess: timedelta | None,
    standing: Place | None,
    download: Download | None,
    now: datetime,
) -> Stage:
    work = evaluation.work
    has_failed = (
        work is not None
        and work.state != Work.State.DONE
        and evaluation.step in (EvaluationStep.FAILED, EvaluationStep.CANCELLED)
    )
    is_retry = work is not None and work.state == Work.State.QUEUED and bool(work.fault)
    is_running = work is not None and work.state == Work.State.RUNNING
    return Stage(
        evaluation,
        _describe_download(evaluation, download, now) or _describe_evaluation(evaluation, place, check, now),
        place,
        work.time_left if work and not work.held else None,
        None if is_running or work is None or work.done else guess,
        check,
        explain(work) if work and has_failed else None,
        redact(work.reason) if work and (has_failed or is_retry) else "",
        standing,
    )


def _describe_download(evaluation: Evaluation, download: Download | None, now: datetime) -> str:
    """Describe the download that an evaluation waits for; "" if it waits for none."""
    waits = (
        evaluation.step == EvaluationStep.COLLECTING
        and evaluation.work
        and evaluation.work.state == Work.State.QUEUED
        and not evaluation.work.held
    )
    if download is None or not waits or download.state in (Work.State.DONE, Work.State.CANCELLED):
        return ""
    if download.state == Work.State.QUEUED and download.not_before and download.not_before > now:
        return _describe_pause(download, now)
    if download.state == Work.State.QUEUED:
        return "Waiting for its files to be fetched from the hub."
    return f"Its files are fetched from the hub: {download.done / 1000:,.0f} MB so far."


def _describe_evaluation(
    evaluation: Evaluation, place: int | None, check: ControlCheck | None, moment: datetime
) -> str:
    """Describe the state of an evaluation, in a sentence or two."""
    work, step = evaluation.work, evaluation.step
    if work is None:
        return "Not begun."
    if step == EvaluationStep.HELD and evaluation.check:
        return f"Scored, and held back until a moderator has looked. {' '.join(evaluation.check.words)}"
    if evaluation.check and evaluation.check.state == EntryCheck.State.REFUSED:
        return f"A moderator did not release it. {evaluation.check.reason}"
    if step in (EvaluationStep.FAILED, EvaluationStep.CANCELLED):
        return "Failed." if step == EvaluationStep.FAILED else "Cancelled."
    if step == EvaluationStep.PUBLISHING and evaluation.rescoring:
        return f"Scored. It is published with all other entries: {_describe_rescoring(evaluation)}."
    if step == EvaluationStep.RANKED:
        return f"Shown without a rank: {evaluation.why_unranked}." if evaluation.why_unranked else "Ranked."
    doing = "collecting outputs" if step == EvaluationStep.COLLECTING else "scoring"
    if work.held:
        return f"Paused by an operator, at {doing}. It goes on when they resume it."
    if work.state == Work.State.QUEUED and work.not_before and work.not_before > moment:
        return _describe_pause(work, moment)
    if work.state == Work.State.QUEUED:
        suffix = " again" if work.done else ""
        queue = f", place {place} in the queue" if place else ""
        return f"Waiting for its turn at {doing}{suffix}{queue}."
    if work.lease_expires_at and work.lease_expires_at < moment:
        return f"Its worker fell silent at {doing}: another one goes on from there."
    if step == EvaluationStep.SCORING and check and check.state in (Work.State.QUEUED, Work.State.RUNNING):
        return "Control check: the scorer's control texts are scored again, before any numbers."
    suffix = (
        f" A drift was found: all entries are scored again, {_describe_rescoring(evaluation)}."
        if evaluation.rescoring
        else ""
    )
    return ("Collecting the model's outputs." if step == EvaluationStep.COLLECTING else "Scoring the outputs.") + suffix


def _describe_rescoring(evaluation: Evaluation) -> str:
    if evaluation.rescoring is None:
        return ""
    suffix = ", paused by an operator" if evaluation.rescoring.state == "paused" else ""
    return f"{evaluation.rescoring.done} of {evaluation.rescoring.total} are scored{suffix}"


def _describe_pause(work: Work, moment: datetime) -> str:
    seconds = round((work.not_before - moment).total_seconds()) if work.not_before else 0
    soon = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
    if work.waits_for:
        return REASONS_TO_WAIT[Work.WaitsFor(work.waits_for)].format(soon=soon)
    if not work.fault:
        return f"{work.reason or 'Waiting for a control check'}. It goes on in {soon}."
    if not work.attempts:
        return f"{explain(work).what} It is tried again in {soon}."
    most = settings.MOST_ATTEMPTS
    return f"Attempt {work.attempts} of {most} came to nothing. {explain(work).what} It is tried again in {soon}."


@dataclass(frozen=True)
class WorkspaceRow:
    """A row of the workspace. percent: None if nothing is under way. ranked_count: of metric_count metrics."""

    submission: Submission
    percent: int | None
    ranked_count: int
    metric_count: int


@dataclass(frozen=True)
class Workspace:
    """A page of a user's submissions, and their number in each state."""

    page: "Page[Submission]"
    rows: list[WorkspaceRow]
    states: list[tuple[str, str, int]]
    count: int


def read_workspace(user: User, state: str, number: int) -> Workspace:
    """Return a page of the user's submissions, newest first. `state`: "" for all. A constant number of queries."""
    own_submissions = Submission.objects.filter(submitter=user)
    counts = dict(own_submissions.order_by().values_list("state").annotate(Count("pk")))
    of_state = own_submissions.filter(state=state) if state else own_submissions
    page = Paginator(of_state.select_related("model"), PAGE_SIZE).get_page(number)
    page_submissions = list(page.object_list)
    evaluations_by_submission = evaluations(page_submissions)
    rows = [_build_row(submission, evaluations_by_submission[submission.pk]) for submission in page_submissions]
    states = [
        (state_choice.value, str(state_choice.label), counts[state_choice.value])
        for state_choice in State
        if state_choice.value in counts
    ]
    return Workspace(page, rows, states, sum(counts.values()))


def _build_row(submission: Submission, submission_evaluations: list[Evaluation]) -> WorkspaceRow:
    ranked_count = (
        sum(
            evaluation.step == EvaluationStep.RANKED and not evaluation.why_unranked
            for evaluation in submission_evaluations
        )
        if submission.model
        else 0
    )
    progress = percent(submission_evaluations) if submission.state == State.ACCEPTED else None
    return WorkspaceRow(submission, progress, ranked_count, len(submission.payload.get("metrics", [])))


@dataclass(frozen=True)
class SubmittedField:
    """A field of a submission, as text."""

    label: str
    text: str


@dataclass(frozen=True)
class Contents:
    """The contents of a submission: what its submitter filled in, and what the checks found."""

    filled_in: list[SubmittedField]
    findings: list[SubmittedField]


@dataclass(frozen=True)
class ToModerate:
    """A submission that waits for a moderator, with its contents."""

    submission: Submission
    contents: Contents


@dataclass(frozen=True)
class ModerationQueue:
    """A page of the submissions that wait for a moderator."""

    page: "Page[Submission]"
    rows: list[ToModerate]


LABELS = {
    "name": "Name",
    "hub_id": "Hub id",
    "revision": "Revision asked for",
    "precision": "Computed in",
    "interface": "Asked as",
    **{name: str(field.label) for name, field in CARD.items() if name != "name"},
    "metrics": "Metrics",
}


def read_moderation_queue(number: int) -> ModerationQueue:
    """Return a page of the submissions that wait for a moderator, oldest first. A constant number of queries."""
    submissions = Submission.objects.to_moderate().select_related("submitter", "model").order_by("created_at", "pk")
    page = Paginator(submissions, PAGE_SIZE).get_page(number)
    titles = metric_titles()
    return ModerationQueue(
        page, [ToModerate(submission, read_contents(submission, titles)) for submission in page.object_list]
    )


def metric_titles() -> dict[str, str]:
    """Return the titles of all metrics, by slug."""
    return dict(Metric.objects.values_list("slug", "title"))


def read_contents(submission: Submission, titles: dict[str, str] | None = None) -> Contents:
    """Return everything that was submitted, as text, in order."""
    payload = submission.payload
    titles = metric_titles() if titles is None else titles
    filled_in = []
    for name, label in LABELS.items():
        value = payload.get(name)
        if name == "metrics":
            value = ", ".join(titles.get(slug, slug) for slug in value or [])
        if name == "interface" and value:
            value = LanguageModel.Interface(value).label
        if value:
            filled_in.append(SubmittedField(label, str(value)))
    rest = {name: value for name, value in payload.items() if name not in LABELS}
    findings = dict.fromkeys(_flatten("", rest))  # what is noted in two places is said once
    return Contents(filled_in, [SubmittedField(label, text) for label, text in findings if text])


def _flatten(name: str, value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for inner, item in value.items() for row in _flatten(str(inner), item)]
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case int():
            text = f"{value:,}"
        case list():
            text = ", ".join(map(str, value))
        case _:
            text = str(value)
    return [(name.replace("_", " ").capitalize(), text[:500])]
