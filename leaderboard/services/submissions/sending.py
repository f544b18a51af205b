"""Sending a submission: the same for the page, the command and the API."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File
from django.db import transaction
from django.utils import timezone

from leaderboard.models import Submission
from leaderboard.services.accounts import may_submit
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.submissions import hub, lifecycle, outputs, reading, tool, uploads
from leaderboard.services.submissions.refusals import WHOLE, SubmissionRefused

Payload = dict[str, Any]  # JSON
CHECKS: "dict[str, Callable[[User, dict[str, Any], File[bytes] | None], Payload]]" = {
    Submission.Form.HUB: hub.check,
    Submission.Form.OUTPUTS: outputs.check,
    Submission.Form.TOOL: tool.check,
}
# What may have changed by the time that nobody else can send anything.
CHECKS_AGAIN: dict[str, Callable[[Payload], None]] = {
    Submission.Form.HUB: hub.check_again,
}


def submit(user: User, form: str, values: dict[str, Any], upload: "File[bytes] | None" = None) -> Submission:
    """Check what `user` filled in, by the names of the form's fields, and take it. Returns the submission.

    What needs the hub is checked here; a file is kept, and read by a worker. Raises SubmissionRefused, with nothing
    kept; HubUnavailable never leaves: it is a problem of the field that needs the hub.
    """
    if form not in CHECKS:
        raise SubmissionRefused({"form": [f"{form!r} is none: use one of {', '.join(CHECKS)}"]})
    refuse_too_many(user)
    payload = CHECKS[form](user, values, upload)
    kept = uploads.keep(upload) if upload is not None and form in reading.READS else ""
    try:
        with transaction.atomic():
            # Of two sent at once, the second counts the first.
            User.objects.select_for_update(no_key=True).get(pk=user.pk)
            refuse_too_many(user)
            if form in CHECKS_AGAIN:
                CHECKS_AGAIN[form](payload)
            submission = Submission.objects.create(
                submitter=user, form=form, payload=payload, state=Submission.State.CHECKING, upload=kept
            )
            record("submit", str(submission), {"form": form, "model": payload["name"]}, user)
            if kept:
                reading.request(submission)
            else:
                lifecycle.take(submission)
    except CannotEvaluate as error:  # what could be had a moment ago
        uploads.drop(kept)
        raise SubmissionRefused({"metrics": [str(error)]}) from error
    except BaseException:
        uploads.drop(kept)
        raise
    return submission


def refuse_too_many(user: User) -> None:
    """Raise SubmissionRefused where `user` may not submit, or not now."""
    sent = Submission.objects.filter(submitter=user)
    at_once, a_day = settings.SUBMISSIONS_AT_ONCE, settings.SUBMISSIONS_A_DAY
    if not may_submit(user):
        problem = "Your account may not submit: confirm its e-mail address, or ask an operator for the role submitter."
    elif sent.unfinished().count() >= at_once:
        problem = f"You have {at_once} submissions under way, the most at once: wait for one to end, or cancel one."
    elif sent.filter(created_at__gt=timezone.now() - timedelta(days=1)).count() >= a_day:
        problem = f"You sent {a_day} submissions within a day, the most there may be: try again tomorrow."
    else:
        return
    raise SubmissionRefused({WHOLE: [problem]})
