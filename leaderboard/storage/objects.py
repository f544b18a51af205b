"""Reading an object of a bucket as a file: from any place, over connections that may break."""

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from leaderboard.storage import StorageAway

ABSENT = ("404", "NoSuchKey", "NotFound")
BROKEN = (BotoCoreError, Boto3Error)
PAUSES = (0.1, 0.5, 2.0)  # seconds before a broken read goes on where it stopped


@contextmanager
def asking(name: str) -> Iterator[None]:
    """Turn what the server or the network answers instead of the file into FileNotFoundError or StorageAway."""
    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        if code in ABSENT:
            raise FileNotFoundError(2, "there is no such file on the storage", name) from error
        answer = code or "an error"
        raise StorageAway(f"the bucket answered {answer} to {error.operation_name} of {name}") from error
    except BROKEN as error:
        raise StorageAway(f"the bucket did not give or take {name} ({type(error).__name__})") from error


def identity_of(answer: dict[str, Any]) -> tuple[str, ...]:
    """What of an answer about an object changes when somebody writes to it."""
    size = answer.get("ContentRange", "").rpartition("/")[2] or answer["ContentLength"]
    return str(answer["ETag"]), str(size), answer["LastModified"].isoformat()


class ObjectReader(io.RawIOBase):
    """The bytes of one state of an object. A read that breaks goes on where it stopped, some times.

    Raises FileNotFoundError, StorageAway: also where the object is replaced while it is read.
    """

    def __init__(self, client: Any, bucket: str, key: str, name: str) -> None:
        super().__init__()
        self._client, self._bucket, self._key, self._name = client, bucket, key, name
        self._position = 0
        with asking(name):
            answer = client.get_object(Bucket=bucket, Key=key)
        self.identity = identity_of(answer)
        self._tag, self._size, self._body = answer["ETag"], int(answer["ContentLength"]), answer["Body"]

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is: at the cost of another request."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a place; returns it."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        position = max(0, start + offset)
        if position != self._position:
            self._hang_up()
            self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or a part of it; returns how many bytes. 0: the end."""
        if self._position >= self._size:
            return 0
        with asking(self._name):
            piece = self._read(len(buffer))
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def close(self) -> None:
        """Give the connection back."""
        self._hang_up()
        super().close()

    def _read(self, most_bytes: int) -> bytes:
        for pause in (*PAUSES, None):
            try:
                if self._body is None:
                    self._body = self._ask()
                piece: bytes = self._body.read(most_bytes)
                if piece:
                    return piece
            except BROKEN:
                if pause is None:
                    raise
            self._hang_up()
            time.sleep(pause or 0.0)
        raise StorageAway(f"the bucket ended {self._name} after {self._position} of {self._size} bytes")

    def _ask(self) -> Any:
        part = f"bytes={self._position}-"
        return self._client.get_object(Bucket=self._bucket, Key=self._key, Range=part, IfMatch=self._tag)["Body"]

    def _hang_up(self) -> None:
        if self._body is not None:
            with suppress(*BROKEN):
                self._body.close()
            self._body = None
