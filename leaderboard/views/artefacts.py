"""What a third party needs to check a published version: its manifest, and the files that it names."""

from django.core.files.storage import default_storage
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseNotModified, JsonResponse
from django.utils.cache import patch_cache_control
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from leaderboard.services import manifest as manifests

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
def artefact(request: HttpRequest, sha256: str) -> HttpResponse | FileResponse:
    """A stored file, for ever the same. Only what the manifest of a published version names; see there."""
    found = manifests.downloadable(sha256)
    if found is None or not default_storage.exists(found.storage_name):
        raise Http404(f"There is no artefact {sha256} to download: a manifest names those there are")
    tag = f'"{sha256}"'
    response: HttpResponse | FileResponse
    if {tag, "*"} & set(parse_etags(request.headers.get("If-None-Match", ""))):
        response = HttpResponseNotModified()
    elif request.method == "HEAD":
        response = HttpResponse(content_type=PARQUET, headers={"Content-Length": str(found.size)})
    else:
        file = default_storage.open(found.storage_name, "rb")
        response = FileResponse(file, as_attachment=True, filename=f"{sha256}.parquet", content_type=PARQUET)
    response["ETag"] = tag
    patch_cache_control(response, public=True, max_age=YEAR, immutable=True)
    return response
