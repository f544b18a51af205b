"""Caches without pickles: workers can write to shared caches, and the web process must not unpickle that."""

import json
import os
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.db import IntegrityError, transaction
from django.db.models import Expression, Q
from django.db.models.functions import Now

BODY = "body"
FORGET_EVERY = 256  # writes of one process between two deletions of what has expired
MISSING = object()


class JsonSerializer:
    """For Django's Redis cache: JSON in place of pickles. What is no JSON is read as nothing."""

    def dumps(self, value: object) -> bytes | int:
        """Integers stay as they are, so that Redis can count."""
        return value if type(value) is int else encode(value)

    def loads(self, data: bytes) -> Any:
        """The value; None where the bytes are no JSON, as a pickle is not."""
        value = decode(data)
        return None if value is MISSING else value


def encode(value: Any) -> bytes:
    """A JSON text; of a dictionary with bytes as its `body`, these after a line of JSON with the rest."""
    body = value.get(BODY) if isinstance(value, dict) else None
    if isinstance(body, bytes):
        rest = {name: part for name, part in value.items() if name != BODY}
        return json.dumps(rest).encode() + b"\n" + body
    return json.dumps(value).encode()


def decode(text: str | bytes) -> Any:
    """The value that was encoded, MISSING where the text is none of that; of a plain JSON text its value."""
    try:
        if isinstance(text, bytes) and b"\n" in text:
            rest, _, body = text.partition(b"\n")
            return {**json.loads(rest), BODY: body}
        return json.loads(text)
    except (ValueError, TypeError):
        return MISSING


class FolderCache(BaseCache):
    """A cache in a folder, a file for each value, which all processes of a host share; the oldest files go first.

    Where a file cannot be written, as on a full disk, nothing is kept.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._folder = Path(location)
        self._writes = count(1)

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        """The value; `default` where there is none, it has expired, or it cannot be read."""
        try:
            with open(self._path(key, version), "rb", buffering=0) as file:
                content = file.read()
        except OSError:
            return default
        end, _, text = content.partition(b" ")
        expires_at = decode(end)
        value = decode(text) if isinstance(expires_at, float) and expires_at > time.time() else MISSING
        return default if value is MISSING else value

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Keep a value that `encode` takes: whole, or not at all. Raises TypeError for any other."""
        stamp = self.get_backend_timeout(timeout)
        content = encode(float("inf") if stamp is None else float(stamp)) + b" " + encode(value)
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            if next(self._writes) % FORGET_EVERY == 0:
                self._forget_oldest()
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix="new-", delete=False) as file:
                try:
                    file.write(content)
                    file.flush()
                    os.replace(file.name, self._path(key, version))
                except OSError:
                    os.unlink(file.name)

    def delete(self, key: str, version: int | None = None) -> bool:
        """Forget a value; says whether there was one."""
        try:
            self._path(key, version).unlink()
        except OSError:
            return False
        return True

    def clear(self) -> None:
        """Forget everything."""
        for path in self._folder.glob("*"):
            path.unlink(missing_ok=True)

    def _path(self, key: str, version: int | None) -> Path:
        return self._folder / sha256(self.make_key(key, version=version).encode()).hexdigest()[:32]

    def _forget_oldest(self) -> None:
        ages = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another process forgets too
                ages.append((path.stat().st_mtime, path))
        for _, path in sorted(ages)[: -self._max_entries]:
            path.unlink(missing_ok=True)


class TableCache(BaseCache):
    """A cache in the table of CacheEntry, for the counts of attempts and requests that all web processes share."""

    def __init__(self, _location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._writes = count(1)

    @property
    def _entries(self) -> Any:
        from leaderboard.models import CacheEntry  # caches are made before models are loaded

        return CacheEntry.objects

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        """The value; `default` where there is none, it has expired, or it is no JSON."""
        value = self._read_value(self._live(self.make_and_validate_key(key, version=version)))
        return default if value is MISSING else value

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        """Keep a value that JSON can hold. Raises TypeError for any other."""
        if next(self._writes) % FORGET_EVERY == 0:
            self._entries.filter(expires_at__lte=Now()).delete()
        self._entries.update_or_create(
            key=self.make_and_validate_key(key, version=version),
            defaults={"value": json.dumps(value), "expires_at": self._end(timeout)},
        )

    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Keep a value where there is none yet; says whether that was so."""
        name = self.make_and_validate_key(key, version=version)
        self._entries.filter(key=name, expires_at__lte=Now()).delete()
        try:
            with transaction.atomic():
                self._entries.create(key=name, value=json.dumps(value), expires_at=self._end(timeout))
        except IntegrityError:
            return False
        return True

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Add to a number; two at once both count. Raises ValueError where there is no number."""
        live = self._live(self.make_and_validate_key(key, version=version))
        with transaction.atomic():
            value = self._read_value(live.select_for_update(no_key=True))
            if not isinstance(value, int):
                raise ValueError(f"{key} holds no number")
            live.update(value=json.dumps(value + delta))
        return value + delta

    def touch(self, key: str, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        """Let a value live on; says whether there is one."""
        live = self._live(self.make_and_validate_key(key, version=version))
        return bool(live.update(expires_at=self._end(timeout)))

    def delete(self, key: str, version: int | None = None) -> bool:
        """Forget a value; says whether there was one."""
        return bool(self._entries.filter(key=self.make_and_validate_key(key, version=version)).delete()[0])

    def clear(self) -> None:
        """Forget everything."""
        self._entries.all().delete()

    def _live(self, name: str) -> Any:
        return self._entries.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), key=name)

    @staticmethod
    def _read_value(entries: Any) -> Any:
        text = entries.values_list("value", flat=True).first()
        return MISSING if text is None else decode(text)

    def _end(self, timeout: Any) -> Expression | None:
        """When a value expires, by the clock of the database: those of several web servers may differ."""
        from leaderboard.models.clock import from_now

        seconds = self.default_timeout if timeout is DEFAULT_TIMEOUT else timeout
        return None if seconds is None else from_now(seconds)
