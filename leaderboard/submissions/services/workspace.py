"""What submitters do with their submissions: correct, send again, withdraw."""

from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.card.form import FIELDS, Card, as_json
from leaderboard.models import AuditVerb, LanguageModel, Metric, Standing, Submission, SubmissionLine
from leaderboard.people.services.roles import operates
from leaderboard.services.access import set_access
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_model
from leaderboard.submissions.services.concerns import find_concerns, models_of_others, name_concerns
from leaderboard.submissions.services.lifecycle import stop_work
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.refusals import Refused

State = Submission.State
WITHDRAWABLE = tuple(state for state, targets in Submission.ARROWS.items() if State.WITHDRAWN in targets)
# The public change log shows one of these reasons, and never the submitter's own words.
REASONS = {
    "mistake": "It was submitted by mistake.",
    "replaced": "A newer revision takes its place.",
    "terms": "Its licence or terms do not allow it to stand here.",
    "wish": "Its submitter does not want it ranked any more.",
}


def find_other_claim(submission: Submission) -> str:
    """Say why the model is not the submitter's alone to withdraw or correct; "" if it is, or is not entered yet."""
    model = submission.model
    if model is None:
        return ""
    submissions = Submission.objects.filter(model=model).exclude(state=State.WITHDRAWN)
    if submissions.exclude(submitter=submission.submitter_id).exists():
        return "Somebody else submitted this revision too."
    if model.created_at < submission.created_at and not Submission.objects.filter(
        model=model, submitter=submission.submitter_id, created_at__lt=model.created_at
    ):
        return "This revision was on the board before you submitted it."
    return ""


@transaction.atomic
def withdraw(submission: Submission, reason: str, user: User) -> bool:
    """Withdraw a submission. Its model leaves the rankings if nobody else has a claim to it; returns whether it did.

    `reason`: one of REASONS. Raises Refused.
    """
    if reason not in REASONS:
        raise Refused.of_value("reason", reason, f"use one of {', '.join(REASONS)}")
    model, previous_state, alone = submission.model, submission.state, not find_other_claim(submission)
    if not submission.move(State.WITHDRAWN, reason=REASONS[reason], name_asked=""):
        raise Refused(f"It is {submission.get_state_display().lower()}: there is nothing to withdraw.")
    detail = {"reason": REASONS[reason], "model withdrawn": False}
    if model and alone:
        for other in Submission.objects.filter(model=model, submitter=submission.submitter_id).order_by("pk"):
            other.move(State.WITHDRAWN, reason=REASONS[reason], name_asked="")
        access = LanguageModel.Access.WITHDRAWN
        detail["model withdrawn"] = set_access(model, access, REASONS[reason], user, of_their_own=True)
    if model:
        stop_work(submission)  # last: work is locked after versions
    change = {"state": previous_state}, {"state": submission.state}
    record(AuditVerb.WITHDRAW_SUBMISSION, f"submission {submission.pk}", detail, user, change)
    return bool(detail["model withdrawn"])


def read_card(submission: Submission) -> dict[str, Any]:
    """Return the model's card: from its row, or from the submission if it is not entered yet."""
    model = submission.model
    return {name: getattr(model, name) if model else submission.payload.get(name) for name in FIELDS}


def configured_by(submission: Submission) -> dict[str, int]:
    """Return what the model's configuration states: from its row, or from the payload."""
    if submission.model:
        return submission.model.configuration
    context = submission.payload.get("resolved", {}).get("architecture", {}).get("context")
    return {"context": context} if context else {}


def clean_card(values: dict[str, Any], submission: Submission) -> dict[str, Any]:
    """Return the cleaned columns of the model's card. Raises SubmissionRefused, with the problems of each field."""
    card = Card(values, configuration=configured_by(submission))
    card.full_clean()
    name = card.cleaned_data.get("name")
    if name and models_of_others(submission).filter(name__iexact=name).exists():
        card.add_error("name", f"{name} is the name of another model here: use one of its own.")
    if card.errors:
        raise SubmissionRefused(card.problems)
    return card.cleaned_data


def correct(submission: Submission, values: dict[str, Any], user: User) -> tuple[list[str], bool]:
    """Correct the model's card, and record the change.

    Returns the changed fields, and whether a new name waits for a moderator. Until then, a ranked model keeps its name,
    because readers know the model by it, and no model gets a name that is like another's. Raises SubmissionRefused,
    with the problems; Refused.
    """
    if submission.model is None:
        raise Refused("Its model is not entered yet: there is nothing to correct.")
    if objection := find_other_claim(submission):
        raise Refused(f"{objection} Ask the people who run this board to correct it.")
    card = clean_card(values, submission)
    with transaction.atomic():
        model = lock_model(submission.model.pk)
        changed_fields = [name for name in FIELDS if getattr(model, name) != card[name]]
        concerns = name_concerns(submission, card["name"])
        name_waits = "name" in changed_fields and not operates(user) and (is_ranked(model) or bool(concerns))
        if name_waits:
            changed_fields.remove("name")
            ask_for_name(submission, card["name"], concerns, user)
            card["name"] = model.name
        if changed_fields:
            old_values = {name: getattr(model, name) for name in changed_fields}
            new_values = {name: card[name] for name in changed_fields}
            LanguageModel.objects.filter(pk=model.pk).update(**new_values)
            Submission.objects.filter(pk=submission.pk).update(payload={**submission.payload, **as_json(card)})
            record(AuditVerb.CORRECT_MODEL, f"model {model.slug}", {}, user, (as_json(old_values), as_json(new_values)))
    return changed_fields, name_waits


def is_ranked(model: LanguageModel) -> bool:
    """Whether the model stands in a ranking, current or earlier."""
    return Standing.objects.filter(model=model).exists()


def ask_for_name(submission: Submission, name: str, concerns: list[str], user: User) -> None:
    """Ask a moderator about a new name of an entered model. In the caller's transaction."""
    Submission.objects.filter(pk=submission.pk).update(name_asked=name, concerns=concerns)
    cause = "" if concerns else ", as the model is ranked"
    lines = [
        f"The new name {name!r} waits for a moderator{cause}.",
        *(f"For a moderator: {concern}" for concern in concerns),
    ]
    SubmissionLine.objects.bulk_create(SubmissionLine(submission=submission, text=line[:500]) for line in lines)
    record(AuditVerb.ASK_FOR_NAME, f"submission {submission.pk}", {"name": name}, user)


def possible_metrics(submission: Submission) -> list[Metric]:
    """List the metrics that a returned submission can ask for."""
    if submission.form == Submission.Form.HUB:
        return list(Metric.objects.all())
    return list(Metric.objects.filter(slug__in=submission.payload.get("metrics", [])))


def send_again(submission: Submission, values: dict[str, Any], user: User) -> None:
    """Change a returned submission, its metrics too, and send it to the moderators again.

    Sent outputs fit no other metrics, so their metrics can only become fewer. Raises SubmissionRefused, with the
    problems; Refused.
    """
    if submission.state != State.RETURNED:
        raise Refused(f"It is {submission.get_state_display().lower()}: no changes are asked for.")
    card = as_json(clean_card(values, submission))
    slugs = list(values.get("metrics", []))
    unknown = set(slugs) - {metric.slug for metric in possible_metrics(submission)}
    if unknown or not slugs:
        raise SubmissionRefused({"metrics": [f"{', '.join(sorted(unknown)) or 'None'}: choose metrics of this board."]})
    payload = {**submission.payload, **card, "metrics": slugs}
    changed_fields = [name for name in payload if payload[name] != submission.payload.get(name)]
    concerns = find_concerns(submission, payload)
    old_values = {"state": submission.state, **{name: submission.payload.get(name) for name in changed_fields}}
    new_values = {"state": State.MODERATED, **{name: payload[name] for name in changed_fields}}
    with transaction.atomic():
        if not submission.move(State.MODERATED, payload=payload, reason="", concerns=concerns):
            raise Refused("It has been decided meanwhile.")
        record(AuditVerb.SEND_SUBMISSION_AGAIN, f"submission {submission.pk}", {}, user, (old_values, new_values))
