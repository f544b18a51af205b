"""Parts of files (RFC 9110, section 14), so that a download can be resumed."""

import re
from collections.abc import Callable
from typing import BinaryIO

from django.http import FileResponse, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from whitenoise.responders import SlicedFile

ONE_RANGE = re.compile(r"bytes=(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{0,18})|-(?P<suffix>[0-9]{1,18}))", re.ASCII)


def answer_range(request: HttpRequest, open_file: Callable[[], BinaryIO], size: int, etag: str) -> HttpResponseBase:
    """A file of `size` bytes, whole or the range that was asked for; 304 to who has it, 416 where it has no such bytes.

    etag: a strong one. Several ranges at once, and what is no range, get the whole file, which the RFC allows.
    """
    response = get_conditional_response(request, etag=etag) or _answer(request, open_file, size, etag)
    response["ETag"] = etag
    response["Accept-Ranges"] = "bytes"
    return response


def _answer(request: HttpRequest, open_file: Callable[[], BinaryIO], size: int, etag: str) -> HttpResponseBase:
    first, last = 0, size - 1
    # Who holds a part of something else is sent all of this; so is who knows it by a date, which it does not have.
    part = request.headers.get("If-Range", etag) == etag
    range_match = ONE_RANGE.fullmatch(request.headers.get("Range", "").strip()) if part else None
    if (
        range_match
        and range_match["first"]
        and range_match["last"]
        and int(range_match["first"]) > int(range_match["last"])
    ):
        range_match = None
    if range_match:
        if range_match["suffix"]:
            first = max(0, size - int(range_match["suffix"]))
        else:
            first, last = int(range_match["first"]), min(last, int(range_match["last"] or last))
        if first >= size:
            return HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"})
    headers = {"Content-Length": str(last - first + 1)}
    if range_match:
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    status = 206 if range_match else 200
    if request.META["REQUEST_METHOD"] == "HEAD":  # the API answers it as GET
        return HttpResponse(status=status, headers=headers)
    return FileResponse(SlicedFile(open_file(), first, last), status=status, headers=headers)
