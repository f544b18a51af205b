"""Downloads as signed links: visitors fetch the file from the bucket itself, by an address that holds for minutes."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.cache import patch_cache_control

from leaderboard.storage import board_storage

SIGNED, STREAMED = "signed", "streamed"


def redirect_to_file(request: HttpRequest, name: str, content_type: str, file_name: str) -> HttpResponse | None:
    """A redirect to the file; None where this process is to send it: by setting, from a folder, or to HEAD.

    Who may have the file is the caller's to decide before. The bucket answers with the type and the name, and
    sends parts.
    """
    if settings.STORAGE_DOWNLOADS != SIGNED or request.META["REQUEST_METHOD"] != "GET":
        return None
    link = board_storage().link(name, content_type, file_name)
    if link is None:
        return None
    response = HttpResponseRedirect(link)
    patch_cache_control(response, private=True, no_store=True)
    return response
