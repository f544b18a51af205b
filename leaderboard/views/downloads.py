"""The whole board as a file."""

from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import get_conditional_response, patch_cache_control
from django.views.decorators.http import require_safe

from leaderboard.exchange.downloads import find_newest_export
from leaderboard.storage import board_storage
from leaderboard.views.links import redirect_to_file

ZIP = "application/zip"


@require_safe
def board_download(request: HttpRequest) -> HttpResponseBase:
    """The newest export that a worker wrote; it is never made while somebody waits."""
    export = find_newest_export()
    if export is None:
        response: HttpResponseBase = render(request, "board_download.html", status=503)
        response["Retry-After"] = "60"
        return response
    etag = f'"{export.state}-{export.at:%s}"'
    answer: HttpResponseBase | None = get_conditional_response(request, etag=etag, response=HttpResponse())
    if answer is None or answer.status_code != 304:
        file_name = f"plumbline-board-{export.at:%Y-%m-%d}.zip"
        redirect = redirect_to_file(request, export.name, ZIP, file_name)
        if redirect:
            return redirect
        file = board_storage().open(export.name, "rb")
        answer = FileResponse(file, as_attachment=True, filename=file_name, content_type=ZIP)
    answer["ETag"] = etag
    patch_cache_control(answer, no_cache=True)
    return answer
