"""The form of backups: sets that share objects by hash.

    objects/ab/NAME       pieces of files, blocks of databases, and manifests: encrypted, if the set is
    sets/board            whose sets these are: one board's
    sets/SET.begun        a set that is being written, or was interrupted
    sets/SET.json         a whole set, written last: the envelope, which is not encrypted, and names its objects

The name of an object follows from the hash of what it holds; in an encrypted set by a secret of this host's, so that
nobody else can tell from a name whether a text is in it.
"""

import gzip
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self

from django.conf import settings

from leaderboard.operations.backups.encryption import Cipher, WrongKey
from leaderboard.operations.backups.places import BackupPlace
from scoring.refusals import Refused

FORMAT = 1
PIECE = 2**23  # bytes of a file in one object
BLOCK = 2**20  # bytes of a database in one object: what changed in one is copied again
OWNER = "sets/board"
NEW_COPY = "Delete that object and back up again: it is copied anew"


class DamagedSet(Refused):
    """An object of a set is missing, or is not what was put there."""


@dataclass(frozen=True)
class Envelope:
    """What is told of a whole set without a key. objects: the names of all that belong to it."""

    name: str
    begun_at: datetime
    finished_at: datetime
    board: str
    code: str
    vendor: str
    encryption: str
    files: int
    size: int
    copied: int
    lost: int
    manifest: str
    objects: tuple[str, ...]

    def to_json(self) -> bytes:
        """Return the bytes of the file."""
        values = asdict(self) | {"begun_at": self.begun_at.isoformat(), "finished_at": self.finished_at.isoformat()}
        return json.dumps({"plumbline_backup": FORMAT, **values}, indent=1).encode()

    @classmethod
    def from_json(cls, content: bytes, label: str) -> Self:
        """Read the file. Raises Refused where it is damaged, or of a later release."""
        try:
            values = json.loads(content)
            if values.pop("plumbline_backup") > FORMAT:
                raise Refused(f"{label} has a form that this release does not know: install the release that wrote it")
            moments = {name: datetime.fromisoformat(values[name]) for name in ("begun_at", "finished_at")}
            return cls(**values | moments | {"objects": tuple(values["objects"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, Refused):
                raise
            raise DamagedSet(f"{label} is damaged ({error}): use another set") from error


@dataclass(frozen=True)
class DatabaseBlock:
    """A part of a database: the hash and size of its bytes, and the object that holds them compressed."""

    sha256: str
    size: int
    object: str


@dataclass(frozen=True)
class FileCopy:
    """A file of the storage: its name there, hash and size, and the objects that hold its pieces in turn."""

    name: str
    sha256: str
    size: int
    objects: tuple[str, ...]


@dataclass(frozen=True)
class TableCopy:
    """A table of a PostgreSQL database, as rows of COPY. sequences: the last number by column, and if it was used."""

    name: str
    columns: tuple[str, ...]
    sequences: dict[str, tuple[int, bool]]
    blocks: tuple[DatabaseBlock, ...]


@dataclass(frozen=True)
class Manifest:
    """What a set holds; encrypted, if the set is.

    migrations: app and name of those applied, in their order. rows: of each table. blocks: of an SQLite file. tables:
    of a PostgreSQL database. lost: what is wrong with files that the database mentions, by name. absent: files that the
    board knows by their hashes only.
    """

    migrations: tuple[tuple[str, str], ...]
    rows: dict[str, int]
    blocks: tuple[DatabaseBlock, ...] = ()
    tables: tuple[TableCopy, ...] = ()
    files: tuple[FileCopy, ...] = ()
    lost: dict[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Read the object."""
        values: dict[str, Any] = json.loads(content)
        return cls(
            migrations=tuple((app, name) for app, name in values["migrations"]),
            rows=values["rows"],
            blocks=tuple(DatabaseBlock(**block) for block in values["blocks"]),
            tables=tuple(
                TableCopy(
                    name=table["name"],
                    columns=tuple(table["columns"]),
                    sequences={column: (last, used) for column, (last, used) in table["sequences"].items()},
                    blocks=tuple(DatabaseBlock(**block) for block in table["blocks"]),
                )
                for table in values["tables"]
            ),
            files=tuple(FileCopy(**file | {"objects": tuple(file["objects"])}) for file in values["files"]),
            lost=values["lost"],
            absent=tuple(values["absent"]),
        )


def place_of(name: str) -> str:
    """Where the object of that name lies."""
    return f"objects/{name[:2]}/{name}"


class SetWriter:
    """Writes the objects of one set. copied: bytes, and new_objects: their number, that the place did not have."""

    def __init__(self, place: BackupPlace, cipher: Cipher) -> None:
        self._place, self._cipher = place, cipher
        self._names: dict[str, set[str]] = {}  # by folder, listed once
        self._key = _read_naming_key() if cipher.name else b""
        self.objects: set[str] = set()
        self.copied = self.new_objects = 0

    def name_pieces(self, sha256: str, size: int) -> list[str]:
        """The names of the objects that hold the pieces of a file."""
        count = max(1, -(-size // PIECE))
        return [self._name(sha256 if count == 1 else f"{sha256}-{number}") for number in range(count)]

    def has(self, name: str) -> bool:
        """Whether the place has the object; if so, the set now holds it."""
        folder = f"objects/{name[:2]}"
        if folder not in self._names:
            self._names[folder] = self._place.names(folder)
        if name in self._names[folder]:
            self.objects.add(name)
            return True
        return False

    def put(self, name: str, content: bytes) -> None:
        """Write an object, unless the place has it."""
        if self.has(name):
            return
        stored_bytes = self._cipher.encrypt(content)
        self._place.write(place_of(name), stored_bytes)
        self._names[f"objects/{name[:2]}"].add(name)
        self.objects.add(name)
        self.new_objects += 1
        self.copied += len(stored_bytes)

    def put_block(self, content: bytes) -> DatabaseBlock:
        """Write a part of a database, compressed."""
        sha256 = hashlib.sha256(content).hexdigest()
        name = self._name(f"{sha256}.gz")
        if not self.has(name):
            self.put(name, gzip.compress(content, 6, mtime=0))
        return DatabaseBlock(sha256, len(content), name)

    def put_manifest(self, manifest: Manifest) -> str:
        """Write the manifest; returns the name of its object."""
        return self.put_block(manifest.to_json()).object

    def _name(self, content: str) -> str:
        if not self._cipher.name:
            return content
        message = "\n".join((*self._cipher.recipients, content))  # another key makes another object
        return hmac.new(self._key, message.encode(), hashlib.sha256).hexdigest()


def _read_naming_key() -> bytes:
    """The secret by which this host names encrypted objects, made once. Without it all is copied once more."""
    path = settings.VAR / "backup_names_key"
    if not path.exists():
        try:
            with path.open("x", encoding="ascii") as file:
                file.write(secrets.token_hex(32))
        except FileExistsError:
            pass  # another process was first
    return path.read_bytes()


class SetReader:
    """Reads the objects of a set, and compares them with their hashes."""

    def __init__(self, place: BackupPlace, cipher: Cipher) -> None:
        self._place, self._cipher = place, cipher
        self._is_key_right = False

    def read_manifest(self, envelope: Envelope) -> Manifest:
        """What the set holds. Raises WrongKey, DamagedSet."""
        content = self._unpack(envelope.manifest)
        self._is_key_right = True
        return Manifest.from_json(content)

    def read_block(self, block: DatabaseBlock) -> bytes:
        """The bytes of a part of a database. Raises DamagedSet."""
        content = self._unpack(block.object)
        if hashlib.sha256(content).hexdigest() != block.sha256:
            raise DamagedSet(f"{place_of(block.object)} is damaged: its bytes are not those that were put there")
        return content

    def read_pieces(self, file: FileCopy) -> Iterator[bytes]:
        """The pieces of a file; once they are through, they were the right ones. Raises DamagedSet."""
        digest = hashlib.sha256()
        for name in file.objects:
            piece = self._open(name)
            digest.update(piece)
            yield piece
        if digest.hexdigest() != file.sha256:
            places = ", ".join(map(place_of, file.objects))
            raise DamagedSet(f"{file.name}: {places} is damaged: its bytes have the sha256 {digest.hexdigest()}")

    def _open(self, name: str) -> bytes:
        place = place_of(name)
        try:
            stored_bytes = self._place.read(place)
        except FileNotFoundError as error:
            raise DamagedSet(f"{place} is missing in {self._place.label}") from error
        try:
            return self._cipher.decrypt(stored_bytes)
        except WrongKey as error:
            if not self._is_key_right:
                raise
            raise DamagedSet(f"{place} is damaged: the key that decrypts the manifest does not decrypt it") from error

    def _unpack(self, name: str) -> bytes:
        try:
            return gzip.decompress(self._open(name))
        except (OSError, EOFError, ValueError) as error:
            if isinstance(error, Refused):
                raise
            raise DamagedSet(f"{place_of(name)} is damaged ({error})") from error


def set_names(place: BackupPlace) -> tuple[list[str], list[str]]:
    """The names of the whole sets, newest first, and of those that were interrupted or are being written."""
    names = place.names("sets")
    whole_names = {name.removesuffix(".json") for name in names if name.endswith(".json")}
    unfinished_names = {name.removesuffix(".begun") for name in names if name.endswith(".begun")}
    return sorted(whole_names, reverse=True), sorted(unfinished_names - whole_names)


def list_sets(place: BackupPlace) -> tuple[list[Envelope], list[DamagedSet]]:
    """The whole sets, newest first, and what is wrong with those whose envelopes are damaged."""
    envelopes, damages = [], []
    for name in set_names(place)[0]:
        try:
            envelopes.append(read_envelope(place, name))
        except DamagedSet as error:
            damages.append(error)
    return envelopes, damages


def refuse_plain_successor(place: BackupPlace) -> None:
    """Raise Refused where the newest set is encrypted: one that is not must be meant."""
    for envelope in list_sets(place)[0][:1]:
        if envelope.encryption:
            raise Refused(
                f"the newest set in {place.label} is encrypted by {envelope.encryption}, and this one would not be: "
                "give --recipient or set BACKUP_RECIPIENT, or give --plain where that is meant"
            )


def read_envelope(place: BackupPlace, name: str) -> Envelope:
    """The envelope of a whole set. Raises Refused where there is none of that name."""
    try:
        content = place.read(f"sets/{name}.json")
    except FileNotFoundError as error:
        raise Refused(f"{place.label} has no whole set {name}: `manage.py backup TARGET --list` names them") from error
    return Envelope.from_json(content, f"sets/{name}.json")


def claim_place(place: BackupPlace, board: str) -> None:
    """Note that the sets in a place are those of the board with this identity. Raises Refused where they are another's.

    Sets of two boards would go on with what the other left half done, and be removed as each other's old ones.
    """
    try:
        content = place.read(OWNER)
    except FileNotFoundError:
        place.write(OWNER, json.dumps({"board": board, "address": settings.SITE_URL}).encode())
        return
    hand_over = f"Where they are this board's as well, delete {OWNER} in it and back up again"
    try:
        values = json.loads(content)
        owner, address = values["board"], values["address"]
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"{OWNER} in {place.label} is damaged ({error}): nobody can tell whose sets these are. {hand_over}"
        ) from error
    if owner != board:
        raise Refused.of_value(
            "TARGET or BACKUP_TARGET",
            place.label,
            f"it holds the sets of another board, {address}: name a place of its own for {settings.SITE_URL}. "
            f"{hand_over}",
        )


def choose_set(place: BackupPlace, name: str) -> Envelope:
    """The set of that name; the newest one without a name. Raises Refused."""
    if name:
        return read_envelope(place, name)
    whole_sets, interrupted_sets = set_names(place)
    if not whole_sets:
        reason = f"only what was interrupted ({', '.join(interrupted_sets)})" if interrupted_sets else "no backup"
        raise Refused(f"{place.label} holds {reason}: give the place that `manage.py backup` wrote to")
    return read_envelope(place, whole_sets[0])


def remove_old_sets(place: BackupPlace, keep: int) -> tuple[list[str], int]:
    """Remove all whole sets but the newest `keep`, and objects that no set has; returns the sets, and how many objects.

    While another set is being written nothing is removed: it may count on any object. Raises DamagedSet where an
    envelope is damaged: nobody knows which objects it names.
    """
    if set_names(place)[1]:
        return [], 0
    envelopes, damages = list_sets(place)
    if damages:
        raise DamagedSet(
            f"no older set is removed from {place.label}: {damages[0]}, and delete that file to give its set up"
        )
    for envelope in envelopes[keep:]:
        place.delete(f"sets/{envelope.name}.json")  # first: a set is whole, or it is none
    count = remove_objects(place, envelopes[:keep])
    return [envelope.name for envelope in envelopes[keep:]], count


def remove_objects(place: BackupPlace, envelopes: Iterable[Envelope]) -> int:
    """Remove the objects that none of the sets has; returns how many."""
    used_names = {name for envelope in envelopes for name in envelope.objects}
    count = 0
    for number in range(256):
        folder = f"objects/{number:02x}"
        for name in place.names(folder) - used_names:
            place.delete(f"{folder}/{name}")
            count += 1
    return count
