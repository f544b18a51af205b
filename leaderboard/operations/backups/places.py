"""Where backups lie: a folder or a bucket, as the files of a board. What is written is whole or absent."""

from pathlib import Path, PurePosixPath
from typing import cast

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from leaderboard.private_files import FOLDER_MODE
from leaderboard.storage import BoardStorage, board_storage
from leaderboard.storage.addresses import WrongAddress, folder_entry, read_storage_address
from leaderboard.storage.folder import UNFINISHED
from scoring.refusals import Refused


class BackupPlace:
    """A place of backups. label: its address, without parameters."""

    def __init__(self, storage: BoardStorage, label: str) -> None:
        self._storage = storage
        self.label = label

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError, OSError."""
        with self._storage.open(name, "rb") as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file, all of it or nothing, in place of what has the name. Raises OSError."""
        self._storage.save(name, ContentFile(content))

    def names(self, folder: str) -> set[str]:
        """The names of the files in a folder; none where it is not there. Raises OSError."""
        return {name for name in self._storage.listdir(folder)[1] if not name.startswith(UNFINISHED)}

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        self._storage.delete(name)

    def refuse_own_storage(self) -> None:
        """Raise Refused where sets would lie among the files of the board, or these among the sets."""
        root = _root_of(self._storage)
        for own_root in map(_root_of, board_storage().parts):
            if root == own_root or root in own_root.parents or own_root in root.parents:
                raise Refused.of_value(
                    "TARGET or BACKUP_TARGET",
                    self.label,
                    "it shares a folder with the storage that it backs up, and is lost with it: name a folder or "
                    "bucket that neither lies in the storage of STORAGE_URL nor holds it",
                )


def _root_of(storage: BoardStorage) -> PurePosixPath:
    """Where a storage begins: its folder, or its server, bucket and prefix."""
    address = storage.place("")
    return PurePosixPath(Path(address).resolve() if storage.reads_in_place else address)


def open_place(target: str) -> BackupPlace:
    """The place that `target` names: a folder, which is made, or an address as STORAGE_URL takes. Raises Refused."""
    if not target:
        raise Refused("BACKUP_TARGET is not set: name a folder or a bucket, as in `manage.py backup /mnt/backups`")
    try:
        entry = read_storage_address(target) if "://" in target else folder_entry(Path(target).resolve())
    except WrongAddress as error:
        raise Refused(f"the place of backups: {error}") from error
    options = entry["OPTIONS"]
    if "bucket_name" in options:
        label = target.partition("?")[0]
        options |= _read_keys()
    else:
        label = str(options["location"])
        Path(label).mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    return BackupPlace(cast(BoardStorage, storages.create_storage(entry)), label)


def _read_keys() -> dict[str, str]:
    """The credentials of a bucket of backups; none where they are those of the storage, which boto3 reads itself."""
    key_id, secret = settings.BACKUP_ACCESS_KEY_ID, settings.BACKUP_SECRET_ACCESS_KEY
    if bool(key_id) != bool(secret):
        raise Refused("BACKUP_ACCESS_KEY_ID and BACKUP_SECRET_ACCESS_KEY: one of them is empty; set both or neither")
    return {"access_key": key_id, "secret_key": secret} if key_id else {}
