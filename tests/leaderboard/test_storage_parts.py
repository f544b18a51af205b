"""The parts of a storage by themselves: addresses, an object that is read over connections that break, and copies."""

import hashlib
import io
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
from django.core.files.base import ContentFile
from django.utils import timezone

from leaderboard.storage import StorageAway, StoredObject, copies, marks
from leaderboard.storage.addresses import WrongAddress, read_both, read_storage_address
from leaderboard.storage.both import BothStorages
from leaderboard.storage.folder import UNFINISHED, FolderStorage
from leaderboard.storage.objects import ObjectReader, asking, identity_of

CONTENT = bytes(range(200))
MOMENT = datetime(2026, 11, 1, tzinfo=UTC)


def test_an_address_is_read_into_the_entry_of_its_storage():
    folder = {"BACKEND": "leaderboard.storage.folder.FolderStorage", "OPTIONS": {"location": Path("/srv/my files")}}
    bucket = {
        "BACKEND": "leaderboard.storage.bucket.BucketStorage",
        "OPTIONS": {
            "bucket_name": "board",
            "location": "a/b c",
            "endpoint_url": "https://storage.example.org",
            "region_name": "eu-central-1",
        },
    }
    bare = {"bucket_name": "board", "location": "", "endpoint_url": None, "region_name": None}
    assert read_storage_address("file:///srv/my%20files") == folder
    endpoint = "endpoint=https://storage.example.org/&region=eu-central-1"
    assert read_storage_address(f"s3://board/a/b%20c/?{endpoint}") == bucket
    assert read_storage_address("s3://board?endpoint=&region=")["OPTIONS"] == bare
    both = {"BACKEND": "leaderboard.storage.both.BothStorages", "OPTIONS": {"first": folder, "second": bucket}}
    assert read_both(folder, bucket) == both


@pytest.mark.parametrize("address", ["file://host/files", "s3://board?word="])
def test_an_address_with_more_than_it_can_have_is_refused(address):
    with pytest.raises(WrongAddress):
        read_storage_address(address)


class Body(io.BytesIO):
    """An answer whose connection breaks after so many bytes, as often as `breaks` says."""

    def __init__(self, content: bytes, breaks_after: int | None) -> None:
        super().__init__(content)
        self.left = breaks_after

    def read(self, size: int | None = -1, /) -> bytes:
        if self.left is None:
            return super().read(size)
        if not self.left:
            raise EndpointConnectionError(endpoint_url="https://storage.example.org")
        piece = super().read(min(size or 0, self.left))
        self.left -= len(piece)
        return piece


class Client:
    """A server with one object; `breaks`: after how many bytes the next answers break."""

    def __init__(self, *breaks: int | None) -> None:
        self.breaks = list(breaks)
        self.asked: list[dict[str, str]] = []
        self.bodies: list[Body] = []

    def get_object(self, **options: str) -> dict:
        self.asked.append(options)
        start = int(options.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        content = CONTENT[start:]
        body = Body(content, self.breaks.pop(0) if self.breaks else None)
        self.bodies.append(body)
        return {"ETag": '"e"', "ContentLength": len(content), "Body": body, "LastModified": MOMENT}


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def open_object(client: Client) -> ObjectReader:
    return ObjectReader(client, "board", "a/key", "key")


def test_an_object_is_read_from_any_place_with_a_request_for_each_move():
    client = Client()
    with open_object(client) as reader:
        assert (reader.readable(), reader.seekable(), reader.tell()) == (True, True, 0)
        assert reader.identity == ('"e"', "200", MOMENT.isoformat())
        assert reader.read(3) == CONTENT[:3]
        assert reader.tell() == 3
        assert reader.seek(0, io.SEEK_CUR) == 3
        assert len(client.asked) == 1, "it stays where it is"
        assert (reader.seek(2, io.SEEK_CUR), reader.read(2)) == (5, CONTENT[5:7])
        assert (reader.seek(-4, io.SEEK_END), reader.read()) == (196, CONTENT[196:])
        assert (reader.read(4), reader.readinto(bytearray(4))) == (b"", 0)
        assert (reader.seek(-9), reader.read(1)) == (0, CONTENT[:1])
    assert all(body.closed for body in client.bodies), "the connections are given back"
    part = {"Bucket": "board", "Key": "a/key", "IfMatch": '"e"'}
    assert client.asked == [
        {"Bucket": "board", "Key": "a/key"},
        part | {"Range": "bytes=5-"},
        part | {"Range": "bytes=196-"},
        part | {"Range": "bytes=0-"},
    ]


def test_a_read_that_breaks_goes_on_where_it_stopped_after_pauses_that_grow(pauses):
    client = Client(50, 30, 0, 0)
    with open_object(client) as reader:
        assert reader.readall() == CONTENT
    assert [options.get("Range") for options in client.asked] == [None, "bytes=50-", *["bytes=80-"] * 3]
    assert pauses == [0.1, 0.1, 0.5, 2.0]


def test_a_read_that_breaks_again_and_again_is_a_storage_that_is_away(pauses):
    with open_object(Client(50, *[0] * 9)) as reader:
        assert len(reader.read(50)) == 50
        with pytest.raises(StorageAway, match=r"did not give or take key \(EndpointConnectionError\)"):
            reader.read(1)
    assert pauses == [0.1, 0.5, 2.0]


def test_an_object_that_ends_too_early_is_a_storage_that_is_away(pauses):
    client = Client()
    with open_object(client) as reader:
        reader.read(150)
        client.get_object = lambda **_: {"Body": io.BytesIO()}
        reader._body = None
        with pytest.raises(StorageAway, match="the bucket ended key after 150 of 200 bytes"):
            reader.read(1)
    assert pauses == [0.1, 0.5, 2.0, 0.0]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ClientError({"Error": {"Code": "404"}}, "HeadObject"), FileNotFoundError, "there is no such file"),
        (ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject"), FileNotFoundError, "there is no such file"),
        (ClientError({"Error": {"Code": "403"}}, "GetObject"), StorageAway, "answered 403 to GetObject of key"),
        (ClientError({}, "GetObject"), StorageAway, "answered an error to GetObject of key"),
        (BotoCoreError(), StorageAway, r"did not give or take key \(BotoCoreError\)"),
    ],
)
def test_what_a_bucket_answers_in_place_of_a_file_is_told(error, kind, words):
    with pytest.raises(kind, match=words) as caught, asking("key"):
        raise error
    if kind is FileNotFoundError:
        assert (caught.value.errno, caught.value.filename) == (2, "key")


def test_an_object_is_another_one_by_its_tag_its_size_or_its_time():
    answer = {"ETag": '"e"', "ContentLength": 10, "LastModified": MOMENT}
    assert identity_of(answer) == ('"e"', "10", "2026-11-01T00:00:00+00:00")
    assert identity_of(answer | {"ContentRange": "bytes 5-14/99"}) == ('"e"', "99", "2026-11-01T00:00:00+00:00")


@pytest.fixture
def var(settings, tmp_path, monkeypatch) -> Path:
    settings.VAR, settings.STORAGE_CACHE_GB = tmp_path, 1.0
    monkeypatch.setattr(marks, "_checked", {})
    return tmp_path


def keep(content: bytes, used_ago: float = 0.0) -> Path:
    """A copy that was last used so many seconds ago."""
    sha256 = hashlib.sha256(content).hexdigest()
    copies.keep_copy(sha256, [content]).close()
    path = copies.copies_folder() / sha256[:2] / sha256
    os.utime(path, (time.time() - used_ago, path.stat().st_mtime))
    return path


def test_the_copies_that_were_not_used_for_longest_go_until_the_others_fit(var):
    oldest, middle, newest = keep(b"a" * 10, 300), keep(b"b" * 20, 200), keep(b"c" * 30, 100)
    copies.drop_oldest(60)
    assert all(path.exists() for path in (oldest, middle, newest)), "they fit"
    copies.drop_oldest(59)
    assert [path.exists() for path in (oldest, middle, newest)] == [False, True, True]
    copies.drop_oldest(30)
    assert [path.exists() for path in (oldest, middle, newest)] == [False, False, True]


def test_what_another_process_is_writing_is_left_alone_for_a_day(var):
    path = keep(b"a" * 10, 300)
    drafts = [path.with_name(f"{UNFINISHED}{name}") for name in ("young", "old")]
    for draft, hours in zip(drafts, (23, 25), strict=True):
        draft.write_bytes(b"x" * 10)
        os.utime(draft, (time.time() - hours * 3600, draft.stat().st_mtime))
    copies.drop_oldest(0)
    assert [each.exists() for each in (path, *drafts)] == [False, True, False]


def test_a_copy_is_kept_whole_or_not_at_all_and_the_bound_is_in_billions_of_bytes(var, settings):
    sha256 = hashlib.sha256(b"bytes").hexdigest()
    with pytest.raises(copies.WrongBytes, match=hashlib.sha256(b"others").hexdigest()) as caught:
        copies.keep_copy(sha256, [b"oth", b"ers"])
    assert (caught.value.actual, caught.value.size) == (hashlib.sha256(b"others").hexdigest(), 6)
    assert [path for path in copies.copies_folder().rglob("*") if path.is_file()] == []
    assert copies.open_copy(sha256) is None
    old = keep(b"old", 300)
    settings.STORAGE_CACHE_GB = 7e-9
    with copies.keep_copy(sha256, [b"by", b"tes"]) as copy:
        assert copy.read() == b"bytes"
    assert not old.exists(), "seven bytes have no room for both"
    copies.drop_copy(sha256)
    copies.drop_copy(sha256)
    assert copies.open_copy(sha256) is None


def test_a_copy_that_is_read_counts_as_used_and_as_unchanged(var):
    path = keep(b"bytes", 300)
    before = path.stat()
    for _ in range(2):
        with copies.open_copy(path.name) as copy:
            assert copy.read() == b"bytes"
    after = path.stat()
    assert after.st_mtime_ns == before.st_mtime_ns
    assert after.st_atime - before.st_atime > 200
    marks.forget_checked(str(path))
    with copies.open_copy(path.name) as copy:
        assert copy.read() == b"bytes", "it is hashed again, and read from its beginning"


def test_marks_of_files_are_of_their_state_and_known_to_other_processes(var, monkeypatch):
    marks.note_checked("/a", ("1", "2"))
    marks.note_checked("/b", ("3", "4"))
    for _ in range(2):
        assert marks.is_checked("/a", ("1", "2"))
        assert not marks.is_checked("/a", ("1", "3"))
        assert not marks.is_checked("/c", ("1", "2"))
        monkeypatch.setattr(marks, "_checked", {})  # another process
    marks.forget_checked("/a")
    assert not marks.is_checked("/a", ("1", "2"))
    monkeypatch.setattr(marks, "_checked", {})
    assert not marks.is_checked("/a", ("1", "2"))
    assert marks.is_checked("/b", ("3", "4"))


@pytest.fixture
def folders(tmp_path) -> tuple[FolderStorage, FolderStorage]:
    return FolderStorage(tmp_path / "first"), FolderStorage(tmp_path / "second")


def test_a_folder_lists_its_files_by_name_and_drops_what_killed_writers_left(folders, tmp_path):
    storage = folders[0]
    assert list(storage.list_files()) == []
    assert storage.listdir("nowhere") == ([], [])
    for name in ("c/3", "b/2", "a/1"):
        assert storage.save(name, ContentFile(b"x" * 5)) == name
    modified_at = timezone.now().replace(microsecond=0) - timedelta(hours=1)
    os.utime(tmp_path / "first" / "c" / "3", (0, modified_at.timestamp()))
    files = list(storage.list_files())
    assert [file.name for file in files] == ["a/1", "b/2", "c/3"]
    assert files[2] == StoredObject("c/3", 5, modified_at)
    assert [file.name for file in storage.list_files("b")] == ["b/2"]
    for name in ("b/.unfinished-x", ".unfinished-y"):
        path = tmp_path / "first" / name
        path.write_bytes(b"half")
        os.utime(path, (0, modified_at.timestamp()))
    assert storage.drop_remains(modified_at) == 0
    assert storage.drop_remains(modified_at + timedelta(seconds=1)) == 2
    assert [file.name for file in storage.list_files()] == ["a/1", "b/2", "c/3"]
    identity = storage.identity("a/1")
    storage.save("a/1", ContentFile(b"y" * 5))
    assert storage.identity("a/1") != identity
    assert storage.place("a/1") == str(tmp_path / "first" / "a" / "1")


def test_of_two_storages_the_first_is_written_and_both_are_read(folders, tmp_path):
    first, second = folders
    entries = [read_storage_address(f"file://{tmp_path}/{name}") for name in ("first", "second")]
    both = BothStorages(*entries)
    second.save("old", ContentFile(b"old"))
    second.save("common", ContentFile(b"2nd"))
    both.save("common", ContentFile(b"first"))
    assert (first.exists("common"), first.exists("old"), both.reads_in_place) == (True, False, True)
    with both.open("common") as common, both.open("old") as old:
        assert (common.read(), old.read()) == (b"first", b"old")
    assert (both.size("common"), both.size("old")) == (5, 3)
    assert [(file.name, file.size) for file in both.list_files()] == [("common", 5), ("old", 3)]
    assert both.listdir("") == ([], ["common", "old"])
    assert both.place("old") == second.place("old")
    assert both.place("new") == first.place("new")
    assert [both.exists(name) for name in ("common", "old", "new")] == [True, True, False]
    assert both.get_modified_time("old") == second.get_modified_time("old")
    assert both.identity("old") == second.identity("old")
    assert both.link("old", "text/plain", "old.txt") is None
    for folder in ("first", "second"):
        (tmp_path / folder / f"{UNFINISHED}x").write_bytes(b"half")
    assert both.drop_remains(timezone.now() + timedelta(days=1)) == 2
    both.delete("common")
    assert not both.exists("common")
    with pytest.raises(FileNotFoundError):
        both.open("common")
