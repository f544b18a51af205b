"""What somebody does with what they sent: corrects it, sends it again, withdraws it."""

import unicodedata
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import LanguageModel, Metric, Standing, Submission, SubmissionLine
from leaderboard.services.access import set_access
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_model
from leaderboard.services.roles import operates
from leaderboard.services.submissions.concerns import models_of_others, name_concerns
from leaderboard.services.submissions.lifecycle import CannotChange, stop_work
from leaderboard.services.submissions.refusals import SubmissionRefused

State = Submission.State
# What is said of a model beside its numbers: the most characters of each.
METADATA = {"name": 200, "family": 80, "licence": 120, "notes": 2000}
FORMULA = ("=", "+", "-", "@")  # what is said of models stands in exports
WITHDRAWABLE = tuple(state for state, targets in Submission.ARROWS.items() if State.WITHDRAWN in targets)
# The reasons that the public change log may show; their own words it does not.
REASONS = {
    "mistake": "It was submitted by mistake.",
    "replaced": "A newer revision takes its place.",
    "terms": "Its licence or terms do not allow it to stand here.",
    "wish": "Whoever submitted it does not want it ranked any more.",
}


def why_not_alone(submission: Submission) -> str:
    """Why the model is not for its submitter alone to withdraw or to correct; "" where it is, or is not entered yet."""
    model = submission.model
    if model is None:
        return ""
    sent = Submission.objects.filter(model=model).exclude(state=State.WITHDRAWN)
    if sent.exclude(submitter=submission.submitter_id).exists():
        return "Somebody else submitted this revision too."
    if model.created_at < submission.created_at and not Submission.objects.filter(
        model=model, submitter=submission.submitter_id, created_at__lt=model.created_at
    ):
        return "This revision was on the board before you submitted it."
    return ""


@transaction.atomic
def withdraw(submission: Submission, reason: str, user: User) -> bool:
    """Take a submission back; its model leaves the rankings, where nobody else has to do with it: says whether it did.

    `reason`: one of REASONS. Raises CannotChange.
    """
    if reason not in REASONS:
        raise CannotChange(f"reason = {reason!r}: use one of {', '.join(REASONS)}")
    model, before, alone = submission.model, submission.state, not why_not_alone(submission)
    if not submission.move(State.WITHDRAWN, reason=REASONS[reason], name_asked=""):
        raise CannotChange(f"It is {submission.get_state_display().lower()}: there is nothing to withdraw.")
    detail = {"reason": REASONS[reason], "model withdrawn": False}
    if model:
        stop_work(submission)
    if model and alone:
        for other in Submission.objects.filter(model=model, submitter=submission.submitter_id):
            other.move(State.WITHDRAWN, reason=REASONS[reason], name_asked="")
        access = LanguageModel.Access.WITHDRAWN
        detail["model withdrawn"] = set_access(model, access, REASONS[reason], user, of_their_own=True)
    change = {"state": before}, {"state": submission.state}
    record("withdraw submission", f"submission {submission.pk}", detail, user, change)
    return bool(detail["model withdrawn"])


def clean_metadata(values: dict[str, Any], submission: Submission) -> dict[str, str]:
    """What is said of a model, in one shape. Raises SubmissionRefused, with what is wrong at each field."""
    problems: dict[str, list[str]] = {}
    cleaned = {}
    for name, most in METADATA.items():
        written = str(values.get(name, "")).replace("\r\n", "\n").strip()
        text = unicodedata.normalize("NFC", written) if name == "notes" else unicodedata.normalize("NFKC", written)
        kept = "\n" if name == "notes" else ""
        odd = sorted(
            {f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in kept}
        )
        if odd:
            problems[name] = [f"It has characters that cannot be seen ({', '.join(odd[:3])}): leave them out."]
        elif name != "notes" and text.startswith(FORMULA):
            problems[name] = [f"It begins with {text[0]}, as a spreadsheet's formula does: begin with a letter."]
        elif len(text) > most:
            problems[name] = [f"It has {len(text)} characters: use {most} at most."]
        cleaned[name] = text
    if not cleaned["name"]:
        problems["name"] = ["Give the model a name."]
    elif models_of_others(submission).filter(name__iexact=cleaned["name"]).exists():
        problems["name"] = [f"{cleaned['name']} is the name of another model here: use one of its own."]
    if problems:
        raise SubmissionRefused(problems)
    return cleaned


def correct(submission: Submission, values: dict[str, Any], user: User) -> tuple[list[str], bool]:
    """Correct what is said of the model, on its page and for the record.

    Returns the fields that changed, and whether a new name waits for a moderator, as that of a ranked model does: a
    name is what readers know it by. Raises SubmissionRefused, with what is wrong; CannotChange.
    """
    if submission.model is None:
        raise CannotChange("Its model is not entered yet: there is nothing to correct.")
    if why := why_not_alone(submission):
        raise CannotChange(f"{why} Ask the people who run this board to correct what is said of it.")
    cleaned = clean_metadata(values, submission)
    with transaction.atomic():
        model = lock_model(submission.model.pk)
        changed = [name for name in METADATA if getattr(model, name) != cleaned[name]]
        asks = "name" in changed and is_ranked(model) and not operates(user)
        if asks:
            changed.remove("name")
            ask_for_name(submission, cleaned["name"], user)
            cleaned["name"] = model.name
        if changed:
            before = {name: getattr(model, name) for name in changed}
            after = {name: cleaned[name] for name in changed}
            LanguageModel.objects.filter(pk=model.pk).update(**after)
            Submission.objects.filter(pk=submission.pk).update(payload={**submission.payload, **cleaned})
            record("correct model", f"model {model.slug}", {}, user, (before, after))
    return changed, asks


def is_ranked(model: LanguageModel) -> bool:
    """Whether readers see it in a ranking, of now or of before."""
    return Standing.objects.filter(model=model).exists()


def ask_for_name(submission: Submission, name: str, user: User) -> None:
    """Have a new name of a ranked model wait for a moderator, with concerns. In the caller's transaction."""
    concerns = name_concerns(submission, name)
    Submission.objects.filter(pk=submission.pk).update(name_asked=name, concerns=concerns)
    lines = [f"The new name {name!r} waits for a moderator.", *(f"For a moderator: {concern}" for concern in concerns)]
    SubmissionLine.objects.bulk_create(SubmissionLine(submission=submission, text=line[:500]) for line in lines)
    record("ask for name", f"submission {submission.pk}", {"name": name}, user)


def possible_metrics(submission: Submission) -> list[Metric]:
    """Those that a submission which was returned can ask for."""
    if submission.form == Submission.Form.HUB:
        return list(Metric.objects.all())
    return list(Metric.objects.filter(slug__in=submission.payload.get("metrics", [])))


def send_again(submission: Submission, values: dict[str, Any], user: User) -> None:
    """Change what a moderator sent back, its metrics too, and give it to the moderators again.

    Of outputs that were sent, the metrics can be fewer than before: others ask for other outputs.
    Raises SubmissionRefused, with what is wrong; CannotChange.
    """
    if submission.state != State.RETURNED:
        raise CannotChange(f"It is {submission.get_state_display().lower()}: no changes are asked for.")
    cleaned: dict[str, Any] = dict(clean_metadata(values, submission))
    chosen = list(values.get("metrics", []))
    unknown = set(chosen) - {metric.slug for metric in possible_metrics(submission)}
    if unknown or not chosen:
        raise SubmissionRefused({"metrics": [f"{', '.join(sorted(unknown)) or 'None'}: choose metrics of this board."]})
    payload = {**submission.payload, **cleaned, "metrics": chosen}
    changed = [name for name in payload if payload[name] != submission.payload.get(name)]
    concerns = name_concerns(submission, payload["name"])
    before = {"state": submission.state, **{name: submission.payload.get(name) for name in changed}}
    after = {"state": State.MODERATED, **{name: payload[name] for name in changed}}
    with transaction.atomic():
        if not submission.move(State.MODERATED, payload=payload, reason="", concerns=concerns):
            raise CannotChange("It was decided upon meanwhile.")
        record("send submission again", f"submission {submission.pk}", {}, user, (before, after))
