"""Take a submission: turn a filled-in form into one, in the same way for the page, the command and the API."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.files import File
from django.db import transaction
from django.db.models import Q
from django.template.defaultfilters import filesizeformat

from leaderboard.card.form import FIELDS, as_json
from leaderboard.counting import count_request
from leaderboard.models import AuditVerb, Submission
from leaderboard.models.clock import from_now
from leaderboard.people.services.accounts import may_submit
from leaderboard.services import cages
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.failures import failure_of
from leaderboard.submissions.forms.hub import HubForm
from leaderboard.submissions.forms.outputs import ContributionForm, OutputsForm, ToolForm
from leaderboard.submissions.services import hub, lifecycle, outputs, reading, tool, uploads
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.cage import CageError
from scoring.contributed import ContributionRefused
from scoring.refusals import WHOLE

log = logging.getLogger(__name__)

Payload = dict[str, Any]  # JSON
LOOK_UPS_A_MINUTE = 20  # of one person
PAYLOAD_FIELDS = ("metrics", "revision", "kind", "interface", *FIELDS)  # of forms B and C


def submit(user: User, form: str, values: dict[str, Any], upload: "File[bytes] | None" = None) -> list[Submission]:
    """Check what `user` filled in and take it. `values`: by the names of the form's fields.

    Returns a submission for each entry that it makes: one, or of a hub model one for each interface. The hub is asked
    here; a file is stored, and a worker reads it. Raises SubmissionRefused, and then stores nothing. A hub that does
    not answer is a problem of the field that needs it: HubUnavailable is never raised.
    """
    if form not in CHECKS:
        raise SubmissionRefused({"form": [f"there is no form {form!r}: use one of {', '.join(CHECKS)}"]})
    refuse_too_many(user)
    payloads = CHECKS[form](user, values, upload)
    for payload in payloads:
        refuse_many_bytes(user, payload)
    name = store(upload) if upload is not None and form in reading.READS else ""
    try:
        with transaction.atomic():
            # When two arrive at once, the second counts the first.
            User.objects.select_for_update(no_key=True).get(pk=user.pk)
            return [_take(user, form, payload, name) for payload in payloads]
    except CannotEvaluate as error:  # the metric was available a moment ago
        uploads.drop(name)
        raise SubmissionRefused({"metrics": [str(error)]}) from error
    except BaseException:
        uploads.drop(name)
        raise


def _take(user: User, form: str, payload: Payload, name: str) -> Submission:
    """Make a submission and continue with it. In a transaction. name: of the stored file. Raises SubmissionRefused."""
    refuse_too_many(user)
    refuse_many_bytes(user, payload)
    if form in CHECKS_AGAIN:
        CHECKS_AGAIN[form](payload)
    submission = Submission.objects.create(
        submitter=user, form=form, payload=payload, state=Submission.State.CHECKING, upload=name
    )
    record(AuditVerb.SUBMIT, str(submission), {"form": form, "model": payload["name"]}, user)
    if name:
        reading.request(submission)
    else:
        lifecycle.take(submission)
    return submission


def refuse_too_many(user: User) -> None:
    """Raise SubmissionRefused if `user` may not submit, or not now."""
    submissions = Submission.objects.filter(submitter=user)
    at_once, a_day = settings.SUBMISSIONS_AT_ONCE, settings.SUBMISSIONS_A_DAY
    if not may_submit(user):
        problem = "Your account may not submit: confirm its e-mail address, or ask an operator for the role submitter."
    elif submissions.unfinished().count() >= at_once:
        problem = f"You have {at_once} submissions under way, the maximum: wait for one to end, or cancel one."
    elif submissions.filter(created_at__gt=from_now(-86_400)).count() >= a_day:
        problem = f"You sent {a_day} submissions within a day, the maximum: try again tomorrow."
    else:
        return
    raise SubmissionRefused({WHOLE: [problem]})


def refuse_many_bytes(user: User, payload: Payload) -> None:
    """Raise SubmissionRefused if the payload's file is more than `user` may send within a day.

    Files that the board still keeps count as well, however long ago they were sent.
    """
    if "file" not in payload:
        return
    files = Submission.objects.filter(
        Q(created_at__gt=from_now(-86_400)) | ~Q(upload=""), submitter=user, payload__file__size__isnull=False
    )
    size, other_sizes = payload["file"]["size"], files.values_list("payload__file__size", flat=True)
    others, most = sum(other_sizes), settings.UPLOAD_MOST_BYTES_A_DAY
    if size + others > most:
        problem = (
            f"It has {filesizeformat(size)}, and your files of the last day and those still kept have "
            f"{filesizeformat(others)}; {filesizeformat(most)} is the maximum: compress it (.gz), withdraw a refused "
            "one, or send it tomorrow."
        )
        raise SubmissionRefused({"file": [problem]})


def store(upload: "File[bytes]") -> str:
    """Store the file until a worker reads it; returns its name. Raises SubmissionRefused if the storage fails."""
    try:
        return uploads.keep(upload)
    except Exception as error:
        if not failure_of(error).of_board:
            raise
        log.exception("a file that was sent cannot be kept")
        problem = (
            "This board cannot store files right now. Nothing is wrong with yours: send it again in a few minutes."
        )
        raise SubmissionRefused({"file": [problem]}) from error


def refuse_many_look_ups(user: User) -> None:
    """Count a look-up on the hub. Raises HubRefused beyond LOOK_UPS_A_MINUTE of `user`."""
    if seconds := count_request(cache, f"look-ups of user {user.pk}", LOOK_UPS_A_MINUTE):
        problem = f"You looked up {LOOK_UPS_A_MINUTE} models within a minute, the maximum: try again in {seconds} s."
        raise hub.HubRefused({"hub_id": [problem]})


def look_up(user: User, values: dict[str, Any]) -> hub.HubCandidate:
    """Look up `hub_id` and `revision` on the hub for `user`. Stores nothing. Raises HubRefused."""
    form = HubForm({name: values.get(name, "") for name in ("hub_id", "revision")})
    if not form.is_valid():
        raise hub.HubRefused(form.problems)
    refuse_many_look_ups(user)
    return hub.find_candidate(form.cleaned_data["hub_id"], form.cleaned_data["revision"])


def check_hub_model(user: User, values: dict[str, Any], upload: "File[bytes] | None") -> list[Payload]:
    """Make the payloads of a hub model's entries from `values`, defaults and what the hub has. Raises HubRefused."""
    form = HubForm(values)
    form.full_clean()
    fields = form.cleaned_data
    if "hub_id" not in fields or "revision" not in fields:
        raise hub.HubRefused(form.problems)
    refuse_many_look_ups(user)
    candidate, problems = None, {}
    try:
        candidate = hub.find_candidate(fields["hub_id"], fields["revision"], fields.get("precision", ""))
        form.apply_configuration({"context": candidate.resolved.architecture.context})
    except hub.HubRefused as refused:
        candidate, problems = refused.candidate, refused.problems
    problems = {**problems, **form.problems}
    if problems or candidate is None:
        raise hub.HubRefused(problems, candidate)
    pinned_model = candidate.resolved
    shares = hub.share_metrics(candidate, fields["interface"], fields["precision"], fields["metrics"])
    content = {
        "hub_id": pinned_model.location,
        "revision": fields["revision"],
        "precision": fields["precision"],
        **as_json({name: fields[name] for name in FIELDS}),
        "name": fields["name"] or pinned_model.location,
        "family": fields["family"] or pinned_model.architecture.family,
        "licence": fields["licence"] if "licence" in values else candidate.licence,
        "resolved": asdict(pinned_model),
    }
    return [content | {"interface": interface, "metrics": slugs} for interface, slugs in shares.items()]


def check_outputs(user: User, values: dict[str, Any], upload: "File[bytes] | None") -> list[Payload]:
    """Make the payload of a closed model's outputs, without reading the file. Raises SubmissionRefused."""
    fields = clean(OutputsForm(values, {"file": upload}))
    payload = describe(fields)
    settings_of_submitter = {name: fields[name] for name in outputs.SETTINGS if fields[name] is not None}
    payload["said"] = settings_of_submitter | ({"made_with": fields["made_with"]} if fields["made_with"] else {})
    outputs.refuse_known(user, payload)
    return [payload]


def check_log(user: User, values: dict[str, Any], upload: "File[bytes] | None") -> list[Payload]:
    """Make the payload of a log. The results file beside it gives model and version. Raises SubmissionRefused."""
    fields = clean(ToolForm(values, {"file": upload, "results": values.get("results")}))
    payload = describe(fields) | {"k": fields["k"], "leave_out_others": fields["leave_out_others"]}
    payload["results"] = read_results(fields["results"]) if fields["results"] else {}
    if payload["name"]:
        slugs = [metric.slug for metric in tool.list_existing_metrics(payload)]
        outputs.refuse_known(user, payload | {"metrics": slugs})
    else:
        payload["name_from_log"] = True
        payload["name"] = payload["file"]["name"]  # until a worker has read the log
    return [payload]


def clean(form: ContributionForm) -> dict[str, Any]:
    """Return the cleaned fields of the form. Raises SubmissionRefused, with the problems of each field."""
    if not form.is_valid():
        raise SubmissionRefused(form.problems)
    fields: dict[str, Any] = form.cleaned_data
    return fields


def describe(fields: dict[str, Any]) -> Payload:
    """Make the part that the payloads of forms B and C share."""
    file: File[bytes] = fields["file"]
    return {
        **as_json({name: fields[name] for name in PAYLOAD_FIELDS if name in fields}),
        "protocol": fields["protocol"].sha256,
        "file": {"name": outputs.printable(str(file.name))[-100:], "size": file.size},
    }


def read_results(file: "File[bytes]") -> dict[str, Any]:
    """Read what a results file of lm-evaluation-harness states about the run. Raises SubmissionRefused."""
    try:
        values = cages.read_results(cast(BinaryIO, file))
        # PostgreSQL keeps no NUL and no half of a character.
        return {name: outputs.printable(value) if isinstance(value, str) else value for name, value in values.items()}
    except ContributionRefused as refused:
        problem = refused.report.problems[0]
        raise SubmissionRefused(
            {"results": [f"It is {problem.kind} ({problem.value}): {problem.remedy}."]}
        ) from refused
    except CageError as error:
        log.error("the file of results cannot be read: %s", error)
        raise SubmissionRefused({"results": ["It cannot be read at this moment: send the samples alone."]}) from error


CHECKS: "dict[str, Callable[[User, dict[str, Any], File[bytes] | None], list[Payload]]]" = {
    Submission.Form.HUB: check_hub_model,
    Submission.Form.OUTPUTS: check_outputs,
    Submission.Form.TOOL: check_log,
}
# Checks to repeat once the submitter's row is locked.
CHECKS_AGAIN: dict[str, Callable[[Payload], None]] = {
    Submission.Form.HUB: hub.check_again,
}
