"""Folders that every host of a board needs, kept in the storage by the hash of each file, and fetched by each host.

A host keeps what it fetched in PLUMBLINE_VAR, compares it with the hashes before it first uses it and whenever
a file of it changes, and fetches it anew where it differs.
"""

import hashlib
import logging
import tempfile
from pathlib import Path

from django.conf import settings
from django.db import transaction

from leaderboard.models import FolderFile, LanguageModel, StoredFolder
from leaderboard.services import artefacts
from leaderboard.storage.folder import identity_of
from leaderboard.storage.marks import is_checked, note_checked
from scoring.artefacts import sha256

log = logging.getLogger(__name__)


class HostLacks(OSError):
    """This host lacks something that work needs and another host may have; the message says what, and the remedy."""


def name_of_scorer(scorer: str) -> str:
    """The name under which the files of a scorer are stored."""
    return f"scorer {scorer}"


def name_of_model(model: LanguageModel) -> str:
    """The name under which the files of an operator's model are stored."""
    return f"model {model.slug}"


def store_folder(name: str, path: Path) -> StoredFolder:
    """Store the folder or the file at `path` as `name`, in place of what was stored under that name.

    Hidden files are left out. Raises OSError where something cannot be read or written.
    """
    single = path.is_file()
    places = [path] if single else sorted(entry for entry in path.rglob("*") if entry.is_file())
    artefacts_by_place = {
        place.name if single else place.relative_to(path).as_posix(): artefacts.store_file(place)
        for place in places
        if single or not any(part.startswith(".") for part in place.relative_to(path).parts)
    }
    if not artefacts_by_place:
        raise FileNotFoundError(f"{path} holds no files: give a folder with the files of {name}")
    with transaction.atomic():
        values = {
            "sha256": hash_of({place: artefact.sha256 for place, artefact in artefacts_by_place.items()}),
            "single": single,
        }
        folder, _ = StoredFolder.objects.update_or_create(name=name, defaults=values)
        folder.files.all().delete()
        FolderFile.objects.bulk_create(
            FolderFile(folder=folder, path=place, artefact=artefact) for place, artefact in artefacts_by_place.items()
        )
    return folder


def hash_of(files: dict[str, str]) -> str:
    """The hash of a folder, from the hashes of its files by their path."""
    return hashlib.sha256("\n".join(f"{files[place]}  {place}" for place in sorted(files)).encode()).hexdigest()


def fetch_folder(name: str) -> Path | None:
    """Where the folder or file called `name` lies on this host, fetched and checked; None where the board keeps none.

    Raises ArtefactLost, StorageAway.
    """
    folder = StoredFolder.objects.filter(name=name).first()
    if folder is None:
        return None
    target = Path(settings.VAR) / "folders" / folder.sha256
    if not _is_whole(folder, target):
        _fetch(folder, target)
    return next(target.iterdir()) if folder.single else target


def _is_whole(folder: StoredFolder, target: Path) -> bool:
    """Whether this host has all files with the right bytes: hashed once a host, and again when one changes."""
    if not target.is_dir():
        return False
    places = {place.relative_to(target).as_posix(): place for place in sorted(target.rglob("*")) if place.is_file()}
    statuses = {place: path.stat() for place, path in places.items()}
    identity = tuple(part for place, status in statuses.items() for part in (place, *identity_of(status)))
    if is_checked(str(target), identity):
        return True
    whole = hash_of({place: sha256(path) for place, path in places.items()}) == folder.sha256
    if whole:
        note_checked(str(target), identity)
    else:
        log.warning("the copy of %s on this host is not what the board keeps: it is fetched anew", folder)
    return whole


def _fetch(folder: StoredFolder, target: Path) -> None:
    """Bring all files from the storage, or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as workshop:
        fresh_copy = Path(workshop) / "copied"
        for file in folder.files.select_related("artefact"):
            place = fresh_copy / file.path
            place.parent.mkdir(parents=True, exist_ok=True)
            artefacts.copy_to(file.artefact, place)
        if target.exists():
            target.rename(Path(workshop) / "damaged")
        fresh_copy.rename(target)
    if not _is_whole(folder, target):
        raise OSError(f"{target}: what was written there is not what was read back. Look at this host's disk")
    log.info("%s: fetched from the storage", folder)
