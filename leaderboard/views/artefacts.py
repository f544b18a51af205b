"""What a third party needs to check a published version: its manifest, and the files that it names."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django.views.decorators.http import require_safe

from leaderboard.services import manifest as manifests
from leaderboard.services.artefacts import ArtefactLost, open_file, verify_stored
from leaderboard.views.links import SIGNED, redirect_to_file
from leaderboard.views.ranges import answer_range

YEAR = 31_536_000  # seconds
PARQUET = "application/vnd.apache.parquet"


@require_safe
def manifest(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """The manifest of a published version."""
    versions = manifests.published_versions().select_related(
        "metric", "prompt_scores", "protocol__evaluation_set__artefact", "protocol__evaluation_set__prompt_scores"
    )
    version = versions.filter(metric__slug=slug, number=number).first()
    if version is None:
        raise Http404(f"There is no published version {number} of a metric {slug}")
    response = JsonResponse(manifests.manifest(version), json_dumps_params={"ensure_ascii": False})
    response["Content-Disposition"] = f'inline; filename="{slug}-{number}-manifest.json"'
    patch_cache_control(response, no_cache=True)
    return response


@require_safe
def artefact(request: HttpRequest, sha256: str) -> HttpResponseBase:
    """A stored file, for ever the same. Only what the manifest of a published version names; see there."""
    response = file_answer(request, sha256)
    if response is None:
        raise Http404(f"There is no artefact {sha256} to download: a manifest names those there are")
    return response


def file_answer(request: HttpRequest, sha256: str) -> HttpResponseBase | None:
    """The file of that hash or the part of it that was asked for; None where it is not there, whole, for everyone."""
    stored_file = manifests.downloadable(sha256)
    if stored_file is None:
        return None
    try:
        if settings.STORAGE_DOWNLOADS == SIGNED:
            verify_stored(stored_file)
        else:
            open_file(stored_file).close()
    except ArtefactLost:
        return None
    file_name = f"{sha256}.parquet"
    redirect = redirect_to_file(request, stored_file.storage_name, PARQUET, file_name)
    if redirect:
        return redirect
    response = answer_range(request, lambda: open_file(stored_file), stored_file.size, f'"{sha256}"')
    if response.status_code in (200, 206):
        response["Content-Type"] = PARQUET
        response["Content-Disposition"] = f'attachment; filename="{file_name}"'
    patch_cache_control(response, public=True, max_age=YEAR, immutable=True)
    return response
