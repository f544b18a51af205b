"""How much of an upload is taken, decided while it arrives: nothing of a stranger's, and of others' so many bytes."""

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest

from leaderboard.services.tokens import TokenRefused
from leaderboard.views.authentication import user_of


def too_large(request: HttpRequest) -> set[str]:
    """The fields whose files were more than may be sent; they are not among the request's files."""
    found: set[str] = getattr(request, "files_too_large", set())
    return found


class UploadLimit(FileUploadHandler):
    """Passes a file on to the next handlers piece by piece, until it is too much; then the rest is not kept."""

    def new_file(self, *args: object, **kwargs: object) -> None:
        super().new_file(*args, **kwargs)
        self._count, self._known = 0, self._is_known()

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._count += len(raw_data)
        if not self._known:
            raise SkipFile
        if self._count > settings.UPLOAD_MOST_BYTES:
            self.request.files_too_large = {*too_large(self.request), self.field_name}
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> UploadedFile | None:
        return None

    def _is_known(self) -> bool:
        """Whether it is somebody's session, or a program with somebody's token."""
        user = getattr(self.request, "user", None)
        if user and user.is_authenticated:
            return True
        try:
            return user_of(self.request) is not None
        except TokenRefused:
            return False
