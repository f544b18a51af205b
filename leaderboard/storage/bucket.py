"""A bucket of an S3 server as storage. Only a board that keeps its files in one imports this, and boto3 with it."""

import os
import threading
from collections.abc import Iterator
from datetime import datetime
from io import BufferedReader
from typing import Any
from weakref import WeakSet

from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from django.core.files import File
from django.utils.deconstruct import deconstructible
from storages.backends.s3 import S3Storage

from leaderboard.storage import BoardStorage, StoredObject
from leaderboard.storage.objects import ObjectReader, asking, identity_of

PART = 16 * 2**20  # bytes; larger files go up in such parts, and become visible when all of them have arrived
LINK_SECONDS = 300

_instances: "WeakSet[BucketStorage]" = WeakSet()


@deconstructible
class BucketStorage(BoardStorage, S3Storage):
    """Files in a bucket, under a prefix. Credentials are those of the environment, as AWS names them."""

    def __init__(self, **options: Any) -> None:
        # Four attempts each, with pauses. Checksums of a newer kind only where the server wants them: many do not know
        # them. Files are compared with their own hashes.
        config = Config(
            connect_timeout=5,
            read_timeout=20,
            retries={"mode": "standard", "total_max_attempts": 4},
            signature_version="s3v4",
            s3={"addressing_style": "path" if options.get("endpoint_url") else "auto"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        transfer = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=4)
        super().__init__(client_config=config, transfer_config=transfer, **options)
        _instances.add(self)

    @property
    def bucket(self) -> Any:
        """The bucket, over the connection of this thread."""
        return self.connection.Bucket(self.bucket_name)

    @property
    def client(self) -> Any:
        """The connection of this thread."""
        return self.connection.meta.client

    def key(self, name: str) -> str:
        """The name within the bucket."""
        return str(self._normalize_name(name)).rstrip("/")

    def _open(self, name: str, mode: str = "rb") -> "File[bytes]":
        if mode != "rb":
            raise ValueError(f"mode = {mode!r}: files of a bucket are opened to be read, as rb, and written by save()")
        return File(BufferedReader(ObjectReader(self.client, self.bucket_name, self.key(name), name), 2**20), name)

    def _save(self, name: str, content: "File[Any]") -> str:
        with asking(name):
            return str(super()._save(name, content))

    def exists(self, name: str) -> bool:
        """Whether there is a file of that name."""
        with asking(name):
            return bool(super().exists(name))

    def delete(self, name: str) -> None:
        """Delete the file, if it is there."""
        with asking(name):
            super().delete(name)

    def listdir(self, name: str) -> tuple[list[str], list[str]]:
        """Names of folders and files in a folder."""
        with asking(name):
            folders, files = super().listdir(name)
        return folders, files

    def size(self, name: str) -> int:
        """Bytes of the file."""
        return int(self._head(name)["ContentLength"])

    def get_modified_time(self, name: str) -> datetime:
        """When the file was written."""
        modified_at: datetime = self._head(name)["LastModified"]
        return modified_at

    def place(self, name: str) -> str:
        """The address of the file."""
        return f"{self.endpoint_url or 's3:/'}/{self.bucket_name}/{self.key(name)}"

    def identity(self, name: str) -> tuple[str, ...]:
        """The server's tag of the contents, bytes, and time of the last change."""
        return identity_of(self._head(name))

    def list_files(self, folder: str = "") -> Iterator[StoredObject]:
        """All files in a folder and below it, by name."""
        prefix = self.key(folder)
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket_name, Prefix=f"{prefix}/" if prefix else ""
        )
        start = len(self.location.strip("/")) + 1 if self.location else 0
        with asking(folder):
            for page in pages:
                for entry in page.get("Contents", ()):
                    yield StoredObject(entry["Key"][start:], entry["Size"], entry["LastModified"])

    def link(self, name: str, content_type: str, file_name: str) -> str | None:
        """An address signed for LINK_SECONDS, which answers with that type and name."""
        parameters = {
            "ResponseContentType": content_type,
            "ResponseContentDisposition": f'attachment; filename="{file_name}"',
        }
        with asking(name):
            return str(S3Storage.url(self, name, parameters=parameters, expire=LINK_SECONDS))

    def drop_remains(self, deadline: datetime) -> int:
        """Abort uploads in parts whose process was killed: the server keeps, and charges for, the parts."""
        count = 0
        with asking(self.bucket_name):
            pages = self.client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket_name, Prefix=self.location
            )
            for page in pages:
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < deadline:
                        self.client.abort_multipart_upload(
                            Bucket=self.bucket_name, Key=upload["Key"], UploadId=upload["UploadId"]
                        )
                        count += 1
        return count

    def _head(self, name: str) -> dict[str, Any]:
        with asking(name):
            answer: dict[str, Any] = self.client.head_object(Bucket=self.bucket_name, Key=self.key(name))
        return answer


def _forget_connections() -> None:
    """Let a forked process open connections of its own: two on one socket would read each other's answers."""
    for storage in _instances:
        storage._connections = threading.local()


os.register_at_fork(after_in_child=_forget_connections)
