"""Submitting, and what became of what one submitted."""

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from ninja import Router, Schema, Status
from ninja.pagination import paginate
from pydantic import ConfigDict, Field, ValidationError

from leaderboard.api.authentication import TokenOwner
from leaderboard.api.problems import ANY, Fault, NotHere, problem, said
from leaderboard.api.reading import Pages
from leaderboard.models import Submission
from leaderboard.queries.sent import Sent, described, sent_by
from leaderboard.services import submissions as service
from leaderboard.services.submissions.refusals import WHOLE
from leaderboard.upload_limit import too_large

router = Router(tags=["Submissions"], auth=TokenOwner())
SEVERAL = ("metrics",)  # fields of multipart bodies that may be there more than once


class HubModel(Schema):
    """Form A: a model of the hub."""

    model_config = ConfigDict(extra="forbid", strict=True)

    form: str = Field("hub", description="hub; the other forms take files, as multipart/form-data.")
    hub_id: str = Field("", description="As in org/name, or the address of its page.", examples=["org/name"])
    revision: str = Field("", description="Branch, tag or commit; default: the default branch. Pinned to its commit.")
    metrics: list[str] | None = Field(None, description="Slugs; default: all that the model can have and lacks.")
    name: str = Field("", description="On the board; default: the hub id.")
    family: str = Field("", description="Default: by its architecture.")
    licence: str | None = Field(None, description="Default: as its card says.")
    notes: str = Field("", description="Shown on the model's page.")


class MetricAsked(Schema):
    """How far a metric is that a submission asked for."""

    metric: str
    state: str = Field(description="Of its work; empty before it is queued.")
    done: int = Field(description="Texts.")
    total: int
    reason: str


class SubmissionSent(Schema):
    """A submission, and how far it is."""

    id: int
    form: Submission.Form
    state: Submission.State
    in_words: str
    reason: str = Field(description="Why it was refused or failed, or what is to be changed.")
    report: dict[str, Any] = Field(description="What is wrong with its file.")
    name: str
    hub_id: str | None
    revision: str = Field(description="Of a hub model: the commit that it is pinned to.")
    metrics: list[MetricAsked]
    model: str | None = Field(description="The slug, once it is entered.")
    url: str = Field(description="Its page.")
    model_url: str | None = Field(description="The model's page.")
    created_at: datetime
    ended_at: datetime | None

    @staticmethod
    def of(request: HttpRequest, sent: Sent) -> "SubmissionSent":
        """As its submitter sees it."""
        found = asdict(sent)
        path, model_path = found.pop("path"), found.pop("model_path")
        found["url"] = request.build_absolute_uri(path)
        found["model_url"] = request.build_absolute_uri(model_path) if model_path else None
        return SubmissionSent(**found)


BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": HubModel.model_json_schema()},
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "description": "Forms B and C. The other fields are those of the form.",
                    "required": ["form", "file"],
                    "properties": {
                        "form": {"type": "string", "enum": ["outputs", "tool"]},
                        "metrics": {"type": "array", "items": {"type": "string"}},
                        "name": {"type": "string"},
                        "revision": {"type": "string"},
                        "file": {"type": "string", "format": "binary"},
                    },
                }
            },
        },
    }
}


@router.post(
    "/submissions",
    response={201: SubmissionSent, **ANY},
    openapi_extra=BODY,
    summary="Submit a model",
    operation_id="submit",
)
def submit(request: HttpRequest, response: HttpResponse) -> Any:
    """JSON for a hub model; multipart/form-data with the file for outputs and logs. The checks are those of the pages.

    422 says what is wrong, field by field; then nothing was kept.
    """
    try:
        form, values, upload = _sent(request)
        submission = service.submit(request.auth, form, values, upload)  # type: ignore[attr-defined]
    except service.SubmissionRefused as refused:
        return _refused(refused)
    response["Location"] = request.build_absolute_uri(f"/api/v1/submissions/{submission.pk}")
    return Status(201, SubmissionSent.of(request, described([submission])[0]))


@router.get("/submissions", response={200: list[SubmissionSent], **ANY}, operation_id="submissions")
@paginate(Pages)
def submissions(request: HttpRequest) -> Any:
    """What you submitted, the newest first."""
    return _Described(request, sent_by(request.auth))  # type: ignore[attr-defined]


@router.get("/submissions/{int:pk}", response={200: SubmissionSent, **ANY}, operation_id="submission")
def submission(request: HttpRequest, pk: int) -> Any:
    """How far one of your submissions is."""
    found = sent_by(request.auth).filter(pk=pk).first()  # type: ignore[attr-defined]
    if found is None:
        raise NotHere("pk", pk, "You have no such submission.", "GET /api/v1/submissions lists yours.")
    return SubmissionSent.of(request, described([found])[0])


class _Described:
    """Submissions as answers, of which only those of a page are made."""

    def __init__(self, request: HttpRequest, found: Any) -> None:
        self.request, self.found = request, found

    def count(self) -> int:
        return int(self.found.count())

    def all(self) -> "_Described":
        return self

    def __getitem__(self, part: slice) -> list[SubmissionSent]:
        return [SubmissionSent.of(self.request, one) for one in described(list(self.found[part]))]


def _sent(request: HttpRequest) -> tuple[str, dict[str, Any], Any]:
    """The form, its values and the file. Raises SubmissionRefused where the body is none of the two kinds."""
    if request.content_type == "multipart/form-data":
        values: dict[str, Any] = {
            name: request.POST.getlist(name) if name in SEVERAL else request.POST[name] for name in request.POST
        }
        files = {name: request.FILES[name] for name in request.FILES}
        if large := too_large(request):
            most = filesizeformat(settings.UPLOAD_MOST_BYTES)
            raise service.SubmissionRefused({name: [f"The file is too large: send {most} at most."] for name in large})
        upload = files.pop("file", None)
        return values.pop("form", ""), values | files, upload
    try:
        body = HubModel.model_validate(json.loads(request.body))
    except ValidationError as error:
        raise service.SubmissionRefused(
            {".".join(map(str, of["loc"])) or WHOLE: [f"{of['msg']}."] for of in error.errors()}
        ) from error
    except ValueError as error:
        raise service.SubmissionRefused({WHOLE: [f"The body is not JSON ({error})."]}) from error
    return body.form, body.model_dump(exclude={"form"}, exclude_unset=True, exclude_none=True), None


def _refused(refused: service.SubmissionRefused) -> HttpResponse:
    remedy = "Correct it and send it again: nothing was kept."
    return problem(
        422,
        *(
            Fault(field=None if name == WHOLE else name, value=said(None), message=text, remedy=remedy)
            for name, texts in refused.problems.items()
            for text in texts
        ),
    )
