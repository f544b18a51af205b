"""Caches that hold JSON only: workers can write to shared caches, and the web process must not unpickle that."""

import json
from itertools import count
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.db import IntegrityError, transaction
from django.db.models import Expression, Q
from django.db.models.functions import Now

FORGET_EVERY = 256  # writes of one process between two deletions of what has expired
MISSING = object()


class JsonSerializer:
    """For Django's Redis cache: JSON in place of pickles. What is no JSON is read as nothing."""

    def dumps(self, value: object) -> bytes | int:
        """Integers stay as they are, so that Redis can count."""
        return value if type(value) is int else json.dumps(value).encode()

    def loads(self, data: bytes) -> Any:
        """The value; None where the bytes are no JSON, as a pickle is not."""
        value = decode(data)
        return None if value is MISSING else value


def decode(text: str | bytes) -> Any:
    """The value of a JSON text; MISSING where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return MISSING


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
