"""Limit uploads while they arrive: strangers may send nothing, and others a limited number of bytes."""

from typing import Any, cast

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest

from leaderboard.people.authentication import user_of
from leaderboard.people.services.tokens import TokenRefused


def find_oversized_fields(request: HttpRequest) -> set[str]:
    """Return the fields whose files were too large; the request does not contain those files."""
    fields: set[str] = getattr(request, "files_too_large", set())
    return fields


class UploadLimit(FileUploadHandler):
    """Passes a file to the next handlers piece by piece, and drops it once it is too large."""

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._count, self._known = 0, self._is_known()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._count += len(raw_data)
        if not self._known:
            raise SkipFile
        if self._count > settings.UPLOAD_MOST_BYTES:
            fields = {*find_oversized_fields(self._sender), self.field_name}
            self._sender.files_too_large = fields  # type: ignore[attr-defined] # for find_oversized_fields
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> "UploadedFile[bytes] | None":
        return None

    @property
    def _sender(self) -> HttpRequest:
        """The request that sends the file: Django gives a handler one before any file."""
        return cast(HttpRequest, self.request)

    def _is_known(self) -> bool:
        """Whether the request has a signed-in session or a valid API token."""
        user = getattr(self._sender, "user", None)
        if user and user.is_authenticated:
            return True
        try:
            return user_of(self._sender) is not None
        except TokenRefused:
            return False
