"""The files behind the numbers."""

from typing import Annotated

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Router
from ninja.params.functions import Path

from leaderboard.api.problems import ANY, ProblemDetails
from leaderboard.views.artefacts import PARQUET, file_answer
from scoring.refusals import Missing

router = Router(tags=["Artefacts"])
BYTES = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/artefacts/{sha256}",
    response={416: ProblemDetails, **ANY},
    summary="A file",
    operation_id="artefact",
    openapi_extra={
        "responses": {
            200: {"description": "All of the file.", "content": {PARQUET: BYTES}},
            302: {"description": "Where the file is for some minutes, on boards that keep their files elsewhere."},
            206: {"description": "The part that `Range` asks for.", "content": {PARQUET: BYTES}},
        }
    },
)
def artefact(
    request: HttpRequest, sha256: Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="Of its bytes.")]
) -> HttpResponseBase:
    """A file that the manifest of a published version names, as Parquet; for ever the same.

    `Range` (one range of bytes) with `If-Range` takes a part of it, so that downloads can be resumed.
    """
    answer = file_answer(request, sha256)
    if answer is None:
        message = f"There is no file {sha256} to download."
        raise Missing(
            message,
            field="sha256",
            value=sha256,
            remedy="The manifest of a version names its files: see /metrics/SLUG/versions.",
        )
    return answer
