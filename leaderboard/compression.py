"""Compression of what is sent."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class CompressPages(GZipMiddleware):
    """As Django's, but for files: they are compressed already, and a part of one is a part of its own bytes."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Leave alone whatever can be asked for in parts."""
        return response if response.has_header("Accept-Ranges") else super().process_response(request, response)
