"""Files of a hub: whole and as declared or not kept, fetched on from where they were, and evicted in order."""

import fcntl
import hashlib
import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants

from scoring.language_models import HubBusy, HubUnavailable, ModelRefused, NotOnHub, downloads, fetching
from scoring.language_models.downloads import (
    HubFile,
    cache_folder,
    check_unchanged,
    commit_folder,
    download,
    download_small,
    finish,
    is_finished,
    make_room,
)
from scoring.language_models.fetching import fetch_apart

CONTENT = bytes(range(200)) * 3
COMMIT = "c" * 40


class Hub:
    """Sends a content in pieces; `resumes`: from where it is asked to."""

    def __init__(self, content: bytes = CONTENT, resumes: bool = True) -> None:
        self.content, self.resumes = content, resumes
        self.requests: list[tuple[str, str]] = []

    @contextmanager
    def stream(self, path: str, _patience: float, headers: dict[str, str] | None = None) -> Iterator[SimpleNamespace]:
        span = (headers or {}).get("Range", "")
        self.requests.append((path, span))
        start = int(span.removeprefix("bytes=").removesuffix("-")) if span and self.resumes else 0
        pieces = [self.content[place : place + 100] for place in range(start, len(self.content), 100)]
        yield SimpleNamespace(status_code=206 if start else 200, iter_bytes=lambda _size: iter(pieces))


def declared(content: bytes = CONTENT, name: str = "model.bin", by_git: bool = False) -> HubFile:
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    return HubFile(name, len(content), blob, "" if by_git else hashlib.sha256(content).hexdigest())


def get(hub: Hub, folder: Path, file: HubFile | None = None, **options: object) -> None:
    download(hub, "org/name", COMMIT, file or declared(), folder, **options)


@pytest.mark.parametrize("by_git", [False, True])
def test_a_file_is_fetched_once_and_progress_counts_its_bytes(tmp_path, by_git):
    hub, counts = Hub(), []
    for _ in range(2):
        get(hub, tmp_path / "a" / "b", declared(by_git=by_git), progress=counts.append)
    assert (tmp_path / "a" / "b" / "model.bin").read_bytes() == CONTENT
    assert (len(hub.requests), hub.requests[0][1], counts) == (1, "", [100, 200, 300, 400, 500, 600])
    assert not (tmp_path / "a" / "b" / ".model.bin.incomplete").exists()
    (tmp_path / "a" / "b" / "model.bin").write_bytes(b"of another length")
    get(hub, tmp_path / "a" / "b", declared(by_git=by_git))
    assert len(hub.requests) == 1


@pytest.mark.parametrize("resumes", [True, False])
def test_what_was_fetched_before_is_kept_where_the_hub_goes_on_from_there(tmp_path, resumes):
    (tmp_path / ".model.bin.incomplete").write_bytes(CONTENT[:250])
    hub, counts = Hub(resumes=resumes), []
    get(hub, tmp_path, progress=counts.append)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    assert hub.requests[0][1] == "bytes=250-"
    assert counts == ([350, 450, 550, 600] if resumes else [100, 200, 300, 400, 500, 600])


def test_a_file_that_was_fetched_whole_is_asked_for_no_more(tmp_path):
    (tmp_path / ".model.bin.incomplete").write_bytes(CONTENT)
    hub = Hub()
    get(hub, tmp_path)
    assert ((tmp_path / "model.bin").read_bytes(), hub.requests) == (CONTENT, [])


@pytest.mark.parametrize(
    ("content", "before", "words"),
    [
        (
            CONTENT + b"x",
            b"",
            "model.bin of org/name is longer than the 600 bytes that the hub declares: it was not kept",
        ),
        (CONTENT, CONTENT + b"x", "model.bin of org/name is longer than the 600 bytes that the hub declares"),
        (CONTENT[:-1], b"", "model.bin of org/name has 599 bytes where the hub declares 600: it was not kept"),
        (CONTENT[:-1] + b"x", b"", "model.bin of org/name is not what the hub declares: its hash is"),
        (CONTENT, b"x" * 250, "model.bin of org/name is not what the hub declares: its hash is"),
    ],
    ids=["longer", "longer before", "shorter", "other", "other before"],
)
def test_a_file_that_is_not_as_declared_is_refused_and_not_kept(tmp_path, content, before, words):
    if before:
        (tmp_path / ".model.bin.incomplete").write_bytes(before)
    with pytest.raises(ModelRefused, match=words):
        get(Hub(content), tmp_path)
    assert not (tmp_path / "model.bin").exists()
    assert not (tmp_path / ".model.bin.incomplete").exists()


@pytest.mark.parametrize(
    "file", [HubFile("a", None, "b", "c"), HubFile("a", -1, "b", "c"), HubFile("a", 3, "", "")], ids=str
)
def test_a_file_of_which_a_hub_says_too_little_is_refused(tmp_path, file):
    for fetch_file in (lambda: get(Hub(), tmp_path, file), lambda: small(Hub(), tmp_path, file)):
        with pytest.raises(ModelRefused, match="the hub does not say how long a of org/name is"):
            fetch_file()


def small(hub: Hub, folder: Path, file: HubFile, most: int = 600) -> None:
    download_small(hub, "org/name", COMMIT, file, folder, most, 10.0)


def test_a_configuration_is_fetched_up_to_its_limit(tmp_path):
    small(Hub(), tmp_path, declared())
    assert (tmp_path / "model.bin").read_bytes() == CONTENT
    small(Hub(b""), tmp_path, declared(b"", "empty.json", by_git=True))
    assert (tmp_path / "empty.json").read_bytes() == b""
    with pytest.raises(
        ModelRefused, match=r"model\.bin of org/name has 600 bytes, and at most 599 are read: shorten it"
    ):
        small(Hub(), tmp_path, declared(), 599)
    for content, words in (
        (CONTENT + b"x", "is longer than the 600"),
        (CONTENT[1:], "has 599"),
        (b"x" * 600, "its hash"),
    ):
        with pytest.raises(ModelRefused, match=words):
            small(Hub(content), tmp_path / "none", declared())


def test_a_hub_that_sends_too_slowly_and_another_worker_that_never_ends_are_passing_faults(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "PATIENCE", -1.0)
    with pytest.raises(HubUnavailable, match=r"the hub sends model\.bin of org/name too slowly"):
        get(Hub(), tmp_path)
    assert (tmp_path / ".model.bin.incomplete").read_bytes() == CONTENT[:100]
    counts: list[int] = []
    with (tmp_path / ".model.bin.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(HubUnavailable, match=r"another worker has been fetching \.model\.bin for too long"):
            get(Hub(), tmp_path)
        monkeypatch.setattr(downloads, "PATIENCE", 0.1)
        with pytest.raises(HubUnavailable, match="another worker"):
            get(Hub(), tmp_path, progress=counts.append)
    assert set(counts) == {0}
    monkeypatch.setattr(downloads, "PATIENCE", 60.0)
    get(Hub(), tmp_path)
    assert (tmp_path / "model.bin").read_bytes() == CONTENT


# The cache


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return cache_folder()


def kept(name: str, age: float, size: int = 100) -> Path:
    """A folder of the cache that was asked for so many seconds ago."""
    folder = commit_folder(f"org/{name}", COMMIT)
    (folder / "inner").mkdir(parents=True)
    (folder / "model.bin").write_bytes(bytes(size))
    os.utime(folder, (time.time() - age, time.time() - age))
    return folder


def test_what_was_not_asked_for_longest_is_evicted_until_there_is_room(cache):
    older, old, used, own = kept("older", 5000), kept("old", 4000), kept("used", 3000), kept("own", 9000)
    assert older == cache / "org--older" / COMMIT
    make_room(100, own, 400, "org/own")
    assert all(folder.is_dir() for folder in (older, old, used, own))
    make_room(101, own, 400, "org/own")
    assert [folder.is_dir() for folder in (older, old, used, own)] == [False, True, True, True]
    with pytest.raises(ModelRefused, match=r"the files of org/own have 0\.0 GB and there is room for 0\.0 GB"):
        make_room(301, own, 400, "org/own")
    assert [folder.is_dir() for folder in (old, used, own)] == [False, True, True]
    make_room(300, own, 400, "org/own")
    make_room(100, own, None, "org/own")
    with pytest.raises(ModelRefused, match=r"have 1,000,000,000\.0 GB"):
        make_room(10**18, own, None, "org/own")


def test_a_cache_that_is_not_there_yet_has_room(cache):
    assert not cache.exists()
    make_room(100, commit_folder("org/name", COMMIT), 100, "org/name")


def test_a_model_is_whole_once_it_was_noted_and_until_a_file_changes(cache):
    folder = kept("name", 0)
    assert not is_finished(folder)
    finish(folder, {"model.bin": hashlib.sha256(bytes(100)).hexdigest()})
    assert is_finished(folder)
    assert [file.name for file in check_unchanged(folder, "org/name")] == ["model.bin"]
    (folder / "model.bin").write_bytes(b"other")
    for _ in range(2):  # once changed, once gone
        with pytest.raises(
            HubUnavailable, match="the files of org/name that are kept here are damaged: they are fetched"
        ):
            check_unchanged(folder, "org/name")
        assert not folder.exists()


# The process that fetches


def told(monkeypatch, fetch: object) -> list[dict]:
    """The lines that the process writes where `fetch` does this."""
    monkeypatch.setattr(fetching, "fetch", fetch)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", "")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"ref": "org/name", "cache": "/cache"})))
    monkeypatch.setattr("sys.stdout", io.StringIO())
    fetching.main()
    assert constants.HF_HUB_CACHE == "/cache"
    return [json.loads(line) for line in fetching.sys.stdout.getvalue().splitlines()]


def test_the_bytes_of_all_files_are_told_together_now_and_then(monkeypatch):
    def fetch(ref: str, progress) -> Path:
        monkeypatch.setattr(fetching, "MOMENT", -1.0)
        for count in (10, 30, 5, 20, 1):
            progress(count)
        monkeypatch.setattr(fetching, "MOMENT", 1e9)
        progress(9)
        return Path("/cache") / ref

    lines = told(monkeypatch, fetch)
    assert lines == [{"done": count} for count in (10, 30, 35, 50, 51)] + [{"folder": "/cache/org/name"}]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (HubBusy("busy", 7.5), "busy"),
        (NotOnHub("none"), "none"),
        (ModelRefused("x" * 3000), "x" * 2000),
        (KeyError("a"), "KeyError: 'a'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_goes_wrong_in_the_process_that_fetches_is_the_same_error_outside(error, words, monkeypatch):
    def fetch(ref: str, progress) -> Path:
        raise error

    (line,) = told(monkeypatch, fetch)
    outside = fetching._error(line)
    assert str(outside) == words
    assert type(outside) is (HubUnavailable if isinstance(error, KeyError) else type(error))
    assert getattr(outside, "seconds", None) == getattr(error, "seconds", None)


def test_a_fetch_of_which_nothing_comes_ends_and_so_does_one_that_nobody_wants(tmp_path):
    def fetch(**options: object) -> Path:
        usual = {"quota": None, "progress": print, "check": lambda: None, "idle_seconds": 60.0}
        return fetch_apart("org/name", COMMIT, "http://127.0.0.1:9", None, **{**usual, **options})

    with pytest.raises(HubUnavailable, match=r"http://127\.0\.0\.1:9 sent nothing of org/name for -1 s"):
        fetch(idle_seconds=-1.0)
    with pytest.raises(ZeroDivisionError):
        fetch(check=lambda: 1 // 0)
