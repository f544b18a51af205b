"""Submitting, and what became of what one submitted."""

import json
from collections.abc import Sequence
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
from leaderboard.api.cards import CardSent
from leaderboard.api.problems import ANY
from leaderboard.api.reading import Number, Pages
from leaderboard.models.language_models import Interface
from leaderboard.models.submissions import Form, SubmissionState
from leaderboard.submissions import intake
from leaderboard.submissions.queries.progress import SubmissionProgress, describe_submissions, submissions_by
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.upload_limit import find_oversized_fields
from scoring.refusals import WHOLE, Missing

router = Router(tags=["Submissions"], auth=TokenOwner())
SEVERAL = ("metrics",)  # fields of multipart bodies that may be there more than once


class HubModel(CardSent):
    """Form A: a model of the hub. Default of the name: the hub id; of family and licence: what the hub says."""

    model_config = ConfigDict(extra="forbid", strict=True)

    form: str = Field("hub", description="hub; the other forms take files, as multipart/form-data.")
    hub_id: str = Field("", description="As in org/name, or the address of its page.", examples=["org/name"])
    revision: str = Field("", description="Branch, tag or commit; default: the default branch. Pinned to its commit.")
    precision: str = Field(
        "", description="float32, bfloat16 or float16: an entry of its own. Default: as each protocol says."
    )
    interface: list[str] | None = Field(
        None,
        description="text, chat or both: a submission and an entry for each. Default: text, and chat where the model "
        "has a chat template and one of the metrics asks chats.",
    )
    metrics: list[str] | None = Field(
        None, description="Slugs; default: every metric that fits the model and that it lacks."
    )


class MetricAsked(Schema):
    """How far a metric is that a submission asked for."""

    metric: str
    state: str = Field(description="State of its work; empty before it is queued.")
    done: int = Field(description="Texts.")
    total: int
    reason: str


class SubmissionSent(Schema):
    """A submission, and how far it is."""

    id: int
    form: Form
    state: SubmissionState
    in_words: str
    reason: str = Field(description="Why it was refused or failed, or what is to be changed.")
    report: dict[str, Any] = Field(description="What is wrong with its file.")
    name: str
    hub_id: str | None
    revision: str = Field(description="Of a hub model: the commit that it is pinned to.")
    interface: Interface = Field(description="How the model is prompted.")
    precision: str = Field(description="What it is computed in; empty: as each protocol says.")
    metrics: list[MetricAsked]
    model: str | None = Field(description="The slug, once it is entered.")
    url: str = Field(description="Its page.")
    model_url: str | None = Field(description="The model's page.")
    created_at: datetime
    ended_at: datetime | None
    others: list[int] = Field([], description="Ids of what the same request submitted as well: another interface.")

    @staticmethod
    def from_progress(
        request: HttpRequest, progress: SubmissionProgress, others: Sequence[int] = ()
    ) -> "SubmissionSent":
        """As its submitter sees it. others: ids of what the same request submitted as well."""
        content = asdict(progress) | {"others": list(others)}
        path, model_path = content.pop("path"), content.pop("model_path")
        content["url"] = request.build_absolute_uri(path)
        content["model_url"] = request.build_absolute_uri(model_path) if model_path else None
        return SubmissionSent(**content)


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
                        **CardSent.model_json_schema()["properties"],
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
    form, values, upload = _read_body(request)
    submission, *others = intake.submit(request.auth, form, values, upload)  # type: ignore[attr-defined]
    response["Location"] = request.build_absolute_uri(f"/api/v1/submissions/{submission.pk}")
    progress = describe_submissions([submission])[0]
    return Status(201, SubmissionSent.from_progress(request, progress, [other.pk for other in others]))


@router.get("/submissions", response={200: list[SubmissionSent], **ANY}, operation_id="submissions")
@paginate(Pages)
def submissions(request: HttpRequest) -> Any:
    """What you submitted, the newest first."""
    return _LazyAnswers(request, submissions_by(request.auth))  # type: ignore[attr-defined]


@router.get("/submissions/{int:pk}", response={200: SubmissionSent, **ANY}, operation_id="submission")
def submission(request: HttpRequest, pk: Number) -> Any:
    """How far one of your submissions is."""
    own_submission = submissions_by(request.auth).filter(pk=pk).first()  # type: ignore[attr-defined]
    if own_submission is None:
        raise Missing(
            "You have no such submission.", field="pk", value=pk, remedy="GET /api/v1/submissions lists yours."
        )
    return SubmissionSent.from_progress(request, describe_submissions([own_submission])[0])


class _LazyAnswers:
    """Submissions as answers, of which only those of a page are made."""

    def __init__(self, request: HttpRequest, submissions: Any) -> None:
        self.request, self.submissions = request, submissions

    def count(self) -> int:
        return int(self.submissions.count())

    def all(self) -> "_LazyAnswers":
        return self

    def __getitem__(self, part: slice) -> list[SubmissionSent]:
        rows = describe_submissions(list(self.submissions[part]))
        return [SubmissionSent.from_progress(self.request, progress) for progress in rows]


def _read_body(request: HttpRequest) -> tuple[str, dict[str, Any], Any]:
    """The form, its values and the file. Raises SubmissionRefused where the body is none of the two kinds."""
    if request.content_type == "multipart/form-data":
        values: dict[str, Any] = {
            name: request.POST.getlist(name) if name in SEVERAL else request.POST[name] for name in request.POST
        }
        files = {name: request.FILES[name] for name in request.FILES}
        if large := find_oversized_fields(request):
            most = filesizeformat(settings.UPLOAD_MOST_BYTES)
            raise SubmissionRefused({name: [f"The file is too large: send {most} at most."] for name in large})
        upload = files.pop("file", None)
        return values.pop("form", ""), values | files, upload
    try:
        body = HubModel.model_validate(json.loads(request.body))
    except ValidationError as error:
        raise SubmissionRefused(
            {".".join(map(str, fault["loc"])) or WHOLE: [f"{fault['msg']}."] for fault in error.errors()}
        ) from error
    except (ValueError, RecursionError) as error:  # which brackets in brackets in brackets raise
        raise SubmissionRefused({WHOLE: [f"The body is not JSON ({error})."]}) from error
    return body.form, body.model_dump(exclude={"form"}, exclude_unset=True, exclude_none=True), None
