"""Fetching pinned files from a server that may do anything: the right bytes arrive, or nothing takes their name."""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from scoring.evaluation_sets import CatalogueEntry, CatalogueFile, FetchError, fetch, get
from tests.scoring.evaluation_sets.server import Stage, serving

CONTENT = bytes(range(256)) * 4000  # about a megabyte: more than sockets buffer
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def stage() -> Iterator[Stage]:
    with serving(CONTENT) as stage:
        yield stage


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    # by its full name: the package's attribute `fetch` is the function
    monkeypatch.setattr(sys.modules["scoring.evaluation_sets.fetch"], "BACKOFF", 0.001)


def entry_of(url: str, **changes: object) -> CatalogueEntry:
    file = CatalogueFile(path="one/data.bin", url=url, bytes=len(CONTENT), sha256=SHA256)
    return replace(get("starter"), name="one", files=(replace(file, **changes),))


@pytest.fixture
def entry(stage: Stage) -> CatalogueEntry:
    return entry_of(f"{stage.address}/data.bin")


def target_and_part(folder: Path) -> tuple[Path, Path]:
    target = folder / "one" / "data.bin"
    return target, target.with_name("data.bin.part")


def put_part(folder: Path, content: bytes) -> Path:
    part = target_and_part(folder)[1]
    part.parent.mkdir()
    part.write_bytes(content)
    return part


def test_a_file_arrives_under_its_path_and_progress_is_told(
    entry: CatalogueEntry, stage: Stage, tmp_path: Path
) -> None:
    told: list[tuple[str, int, int]] = []
    target, part = target_and_part(tmp_path)
    assert fetch(entry, tmp_path, progress=lambda *now: told.append(now)) == [target]
    assert target.read_bytes() == CONTENT
    assert not part.exists()
    assert stage.seen == [("/data.bin", None)]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("one/data.bin", len(CONTENT), len(CONTENT))


def test_a_file_that_is_there_is_not_fetched_again(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    fetch(entry, tmp_path)
    fetch(entry, tmp_path)
    assert len(stage.seen) == 1


def test_another_file_under_that_path_is_never_overwritten(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    target, _ = target_and_part(tmp_path)
    target.parent.mkdir()
    target.write_bytes(b"mine")
    with pytest.raises(FetchError, match="Move it away") as caught:
        fetch(entry, tmp_path)
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(b"mine").hexdigest() in str(caught.value)
    assert target.read_bytes() == b"mine"
    assert stage.seen == []


def test_a_folder_under_that_path_is_an_error(entry: CatalogueEntry, tmp_path: Path) -> None:
    target_and_part(tmp_path)[0].mkdir(parents=True)
    with pytest.raises(FetchError, match="it is not a file"):
        fetch(entry, tmp_path)


def test_a_part_is_resumed_where_it_ends(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    put_part(tmp_path, CONTENT[:1000])
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert stage.seen == [("/data.bin", "bytes=1000-")]


def test_a_server_that_ignores_ranges_sends_it_all_again(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    put_part(tmp_path, CONTENT[:1000])
    stage.ranges = False
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("lengths", [True, False])
def test_a_connection_cut_twice_is_resumed_twice(
    entry: CatalogueEntry, stage: Stage, tmp_path: Path, lengths: bool
) -> None:
    stage.cut_after, stage.lengths = [1000, 500], lengths
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert [asked for _, asked in stage.seen] == [None, "bytes=1000-", "bytes=1500-"]


def test_after_three_cuts_the_part_is_kept_and_the_next_call_resumes(
    entry: CatalogueEntry, stage: Stage, tmp_path: Path
) -> None:
    stage.cut_after = [1000, 500, 250]
    target, part = target_and_part(tmp_path)
    with pytest.raises(FetchError, match=f"3 tries failed.*1750 of {len(CONTENT)} bytes are kept.*fetch again"):
        fetch(entry, tmp_path)
    assert part.read_bytes() == CONTENT[:1750]
    assert not target.exists()
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert stage.seen[-1] == ("/data.bin", "bytes=1750-")


def test_a_whole_part_needs_no_server(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    put_part(tmp_path, CONTENT)
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert stage.seen == []


@pytest.mark.parametrize("stale", [b"\0" * len(CONTENT), CONTENT + b"more"])
def test_a_part_that_cannot_become_the_file_is_begun_anew(
    stale: bytes, entry: CatalogueEntry, stage: Stage, tmp_path: Path
) -> None:
    put_part(tmp_path, stale)
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert stage.seen == [("/data.bin", None)]


def test_a_range_that_the_server_cannot_satisfy_is_begun_anew(
    entry: CatalogueEntry, stage: Stage, tmp_path: Path
) -> None:
    put_part(tmp_path, CONTENT[:1000])
    stage.statuses = [416]
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert [asked for _, asked in stage.seen] == ["bytes=1000-", None]


def test_a_server_that_goes_on_elsewhere_is_not_believed(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    put_part(tmp_path, CONTENT[:1000])
    stage.range_start = 990
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert [asked for _, asked in stage.seen] == ["bytes=1000-", None]


def test_wrong_bytes_are_deleted_and_both_checksums_told(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    stage.content = CONTENT[::-1]
    with pytest.raises(FetchError, match="not the pinned file; nothing was kept") as caught:
        fetch(entry, tmp_path)
    assert SHA256 in str(caught.value)
    assert hashlib.sha256(stage.content).hexdigest() in str(caught.value)
    assert list((tmp_path / "one").iterdir()) == []


def test_a_part_of_other_bytes_is_found_out_at_the_end(entry: CatalogueEntry, tmp_path: Path) -> None:
    put_part(tmp_path, b"x" * 1000)
    with pytest.raises(FetchError, match="nothing was kept"):
        fetch(entry, tmp_path)
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("content", [CONTENT + b"x", CONTENT[:-1]])
def test_a_file_of_another_size_is_refused_before_its_bytes(
    content: bytes, entry: CatalogueEntry, stage: Stage, tmp_path: Path
) -> None:
    stage.content = content
    with pytest.raises(FetchError, match=f"{len(content)} bytes where {len(CONTENT)} are declared"):
        fetch(entry, tmp_path)
    assert len(stage.seen) == 1
    assert list((tmp_path / "one").iterdir()) == []


def test_too_many_bytes_stop_the_download_at_once(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    stage.lengths = False
    stage.content = CONTENT * 4
    told: list[int] = []
    with pytest.raises(FetchError, match="sends more than"):
        fetch(entry, tmp_path, progress=lambda _path, done, _total: told.append(done))
    assert max(told, default=0) <= len(CONTENT)
    assert len(stage.seen) == 1
    assert list((tmp_path / "one").iterdir()) == []


def test_a_missing_file_is_not_asked_for_again(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    stage.statuses = [404]
    with pytest.raises(FetchError, match=r"answered 404.*put your own copy at one/data.bin"):
        fetch(entry, tmp_path)
    assert len(stage.seen) == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_server_in_trouble_is_asked_again(status: int, entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    stage.statuses = [status, status]
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert len(stage.seen) == 3


@pytest.mark.slow
def test_a_slow_server_is_given_up_after_three_timeouts(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    stage.delay = 0.4
    with httpx.Client(timeout=0.1) as client, pytest.raises(FetchError, match=r"3 tries failed.*ReadTimeout"):
        fetch(entry, tmp_path, client=client)
    assert len(stage.seen) == 3


def test_nobody_listening_is_an_error_after_three_tries(stage: Stage, tmp_path: Path) -> None:
    with serving(b"") as gone:
        address = gone.address
    with pytest.raises(FetchError, match=r"3 tries failed.*ConnectError.*0 of"):
        fetch(entry_of(f"{address}/data.bin"), tmp_path)


def test_a_redirect_is_followed_with_its_range(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    put_part(tmp_path, CONTENT[:1000])
    stage.redirect = lambda path: "/moved" if path == "/data.bin" else None
    assert fetch(entry, tmp_path)[0].read_bytes() == CONTENT
    assert stage.seen == [("/data.bin", "bytes=1000-"), ("/moved", "bytes=1000-")]


def test_a_ring_of_redirects_ends(entry: CatalogueEntry, stage: Stage, tmp_path: Path) -> None:
    stage.redirect = lambda path: path
    with pytest.raises(FetchError, match="more than 5 redirects"):
        fetch(entry, tmp_path)
    assert len(stage.seen) == 6


@pytest.mark.parametrize("elsewhere", ["http://example.org/data.bin", "ftp://127.0.0.1/data.bin"])
def test_a_redirect_to_an_unsafe_address_is_not_followed(
    elsewhere: str, entry: CatalogueEntry, stage: Stage, tmp_path: Path
) -> None:
    stage.redirect = lambda _path: elsewhere
    with pytest.raises(FetchError, match="is not https"):
        fetch(entry, tmp_path)


@pytest.mark.parametrize("url", ["http://example.org/data.bin", "file:///etc/hostname", "http://127.0.0.1.example.org"])
def test_only_https_is_fetched_but_for_loopback(url: str, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="is not https"):
        fetch(entry_of(url), tmp_path)


def test_https_is_never_redirected_down_to_http(stage: Stage, tmp_path: Path) -> None:
    down = httpx.MockTransport(lambda _request: httpx.Response(302, headers={"Location": f"{stage.address}/data.bin"}))
    with httpx.Client(transport=down) as client, pytest.raises(FetchError, match="is not https"):
        fetch(entry_of("https://example.org/data.bin"), tmp_path, client=client)
    assert stage.seen == []


def test_a_file_without_an_address_says_to_bring_a_copy(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="no known public address"):
        fetch(entry_of(""), tmp_path)


def test_the_starter_set_has_nothing_to_fetch(tmp_path: Path) -> None:
    assert fetch(get("starter"), tmp_path) == []


def test_a_client_that_was_given_stays_open(entry: CatalogueEntry, tmp_path: Path) -> None:
    with httpx.Client() as client:
        fetch(entry, tmp_path, client=client)
        assert not client.is_closed
