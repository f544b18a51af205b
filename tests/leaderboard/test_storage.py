"""The same on a folder and on a bucket: what is stored is whole or absent, and read only with the bytes of its hash."""

import hashlib
import io
import os
from datetime import timedelta
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from django.conf import settings as django_settings
from django.core.files import File
from django.core.files.base import ContentFile
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import Artefact
from leaderboard.operations.monitoring import readiness
from leaderboard.operations.services import scrub
from leaderboard.services import artefacts, folders
from leaderboard.services import manifest as manifests
from leaderboard.services.artefacts import SENTINEL, ArtefactLost
from leaderboard.storage import BoardStorage, StorageAway, board_storage, copies, marks, objects
from leaderboard.storage.folder import UNFINISHED
from leaderboard.submissions.services import uploads
from tests.breaking_proxy import break_the_way

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

MEGABYTE = 2**20


def keep_file(text: str) -> Artefact:
    """Store a file with that text."""
    path = Path(django_settings.VAR) / "written"
    path.write_text(text)
    return artefacts.store_file(path)


def damage(board: BoardStorage, artefact: Artefact) -> None:
    """Replace the file on the storage by one of the same size."""
    with board.open(artefact.storage_name, "rb") as file:
        content = file.read()
    board.save(artefact.storage_name, ContentFile(content[:-1] + bytes([content[-1] ^ 1])))


def names_on(board: BoardStorage) -> list[str]:
    return [file.name for file in board.list_files()]


def read(artefact: Artefact) -> bytes:
    with artefacts.open_whole(artefact) as file:
        return file.read()


@pytest.mark.slow
def test_what_is_stored_is_read_back_and_stored_once(storage):
    artefact = keep_file("0.5, 0.25")
    assert b"0.25" in read(artefact)
    assert keep_file("0.5, 0.25") == artefact
    assert set(names_on(storage)) == {artefact.storage_name, SENTINEL}
    assert artefacts.is_stored(artefact)
    assert not artefacts.is_stored(Artefact(sha256="0" * 64, kind=Artefact.FILE))


def test_what_nothing_refers_to_is_forgotten_with_its_row_and_may_be_forgotten_twice(storage):
    artefact = keep_file("0.5, 0.25")
    for _ in range(2):
        artefacts.forget(artefact)
        assert names_on(storage) == [SENTINEL]
        assert not Artefact.objects.exists()
    assert read(keep_file("0.5, 0.25")) == b"0.5, 0.25"


def test_what_something_refers_to_is_not_forgotten(storage):
    artefact = keep_file("0.5, 0.25")
    folders.store_folder("scorer own", Path(django_settings.VAR) / "written")
    artefacts.forget(artefact)
    assert read(Artefact.objects.get()) == b"0.5, 0.25"


def test_where_the_file_cannot_be_deleted_its_row_stays(storage, monkeypatch):
    artefact = keep_file("0.5, 0.25")

    def refuse(name):
        raise StorageAway("the storage refuses it")

    monkeypatch.setattr(type(board_storage()), "delete", lambda _, name: refuse(name))
    with pytest.raises(StorageAway):
        artefacts.forget(artefact)
    assert read(Artefact.objects.get()) == b"0.5, 0.25"


class BreakingSource(io.BytesIO):
    """A source that ends with an error after some bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(b"x" * size)
        self.size = size

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if not piece or len(piece) < (size or 0):
            raise OSError("the source is gone")
        return piece


@pytest.mark.slow_cases
@pytest.mark.parametrize("megabytes", [1, 40])
def test_a_write_that_breaks_leaves_nothing(storage, megabytes):
    with pytest.raises(OSError, match="the source is gone"):
        storage.save("large", File(BreakingSource(megabytes * MEGABYTE)))
    assert names_on(storage) == [SENTINEL]
    assert not storage.exists("large")
    assert storage.drop_remains(timezone.now() + timedelta(days=1)) == 0


@pytest.mark.slow
def test_a_large_file_is_whole_under_its_name_once_it_is_there(storage):
    content = os.urandom(MEGABYTE) * 18
    storage.save("large", ContentFile(content))
    with storage.open("large", "rb") as file:
        assert file.read() == content
        file.seek(17 * MEGABYTE + 5)
        assert file.read(10) == content[17 * MEGABYTE + 5 :][:10]
    assert storage.size("large") == len(content)


@pytest.mark.slow
def test_a_name_is_taken_over_by_what_is_saved_last(storage):
    storage.save("a/name", ContentFile(b"first"))
    earlier = storage.identity("a/name")
    assert storage.save("a/name", ContentFile(b"other")) == "a/name"
    assert storage.identity("a/name") != earlier
    assert storage.listdir("a") == ([], ["name"])
    assert storage.listdir("nowhere") == ([], [])
    assert list(storage.list_files("nowhere")) == []
    storage.delete("a/name")
    storage.delete("a/name")
    with pytest.raises(FileNotFoundError):
        storage.open("a/name", "rb")
    with pytest.raises(FileNotFoundError):
        storage.identity("a/name")


@pytest.mark.slow
def test_remains_of_killed_writers_are_dropped(storage, object_store):
    if storage.reads_in_place:
        Path(storage.path(f"{UNFINISHED}x")).write_bytes(b"half")
    else:
        storage.client.create_multipart_upload(Bucket=storage.bucket_name, Key=storage.key("half"))
    if storage.reads_in_place or object_store.name != "moto":  # which says that every upload began in 2010
        assert storage.drop_remains(timezone.now() - timedelta(days=1)) == 0
    assert storage.drop_remains(timezone.now() + timedelta(days=1)) == 1
    assert storage.drop_remains(timezone.now() + timedelta(days=1)) == 0


@pytest.mark.slow
def test_a_damaged_file_is_read_by_no_host(storage, use_host):
    artefact = keep_file("0.125")
    damage(storage, artefact)
    use_host("second")
    with pytest.raises(ArtefactLost, match="its bytes have the sha256"):
        read(artefact)
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.DAMAGED
    keep_file("0.125")
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.WHOLE
    assert b"0.125" in read(artefact)


def test_the_nightly_look_finds_damage_behind_a_copy(storage):
    artefact = keep_file("0.375")
    read(artefact)
    damage(storage, artefact)
    assert not scrub.look_at(artefact)
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.DAMAGED


def test_a_missing_file_is_told_from_a_storage_that_is_away(storage, use_host):
    artefact = keep_file("0.0625")
    storage.delete(artefact.storage_name)
    use_host("second")
    with pytest.raises(ArtefactLost, match="is not there"):
        read(artefact)
    storage.delete(SENTINEL)
    with pytest.raises(StorageAway, match="mark_storage"):
        read(artefact)
    with pytest.raises(StorageAway):
        keep_file("1.0")
    assert readiness.storage() == f"away: its file {SENTINEL} cannot be read; mount the storage"


def test_bytes_are_hashed_once_a_host(storage, use_host, monkeypatch):
    artefact = keep_file("0.75")
    hashed = []
    digest, keep_copy = artefacts.digest, artefacts.keep_copy
    monkeypatch.setattr(artefacts, "digest", lambda file: hashed.append("read") or digest(file))
    monkeypatch.setattr(artefacts, "keep_copy", lambda *given: hashed.append("fetched") or keep_copy(*given))
    for host in ("second", "second", "third"):
        use_host(host)
        read(artefact)
        artefacts.verify_stored(artefact)
    assert len(hashed) == 2
    use_host("fourth")
    for _ in range(2):
        artefacts.verify_stored(artefact)
    assert len(hashed) == 3


def test_a_damaged_copy_is_no_copy_and_goes(settings, tmp_path):
    settings.VAR = tmp_path
    sha256 = hashlib.sha256(b"bytes").hexdigest()
    with copies.keep_copy(sha256, [b"by", b"tes"]) as copy:
        assert copy.read() == b"bytes"
    (path,) = (path for path in copies.copies_folder().rglob("*") if path.is_file())
    path.write_bytes(b"others")
    assert copies.open_copy(sha256) is None
    assert not path.exists()


@pytest.mark.slow
def test_uploads_that_nothing_refers_to_go_after_hours(storage, monkeypatch):
    name = uploads.keep(ContentFile(b"rows"))
    uploads.remove_unreferenced()
    assert storage.exists(name)
    monkeypatch.setattr(uploads, "FORGOTTEN_AFTER", timedelta(seconds=-60))
    uploads.remove_unreferenced()
    assert not storage.exists(name)


def test_readiness_leaves_nothing_behind(storage):
    assert readiness.storage() == ""
    assert names_on(storage) == [SENTINEL]


@pytest.fixture
def bucket(bucket_address, use_host, use_storage) -> BoardStorage:
    use_host("first")
    board = use_storage(bucket_address)
    artefacts.mark_storage()
    return board


def kept_copies() -> set[str]:
    return {path.name for path in copies.copies_folder().glob("*/*")}


def test_a_copy_needs_no_bucket(bucket, settings):
    artefact = keep_file("0.8")
    content = read(artefact)
    bucket.delete(artefact.storage_name)
    bucket.delete(SENTINEL)
    assert read(artefact) == content


def test_a_damaged_copy_is_fetched_again(bucket, use_host):
    artefact = keep_file("0.9")
    content = read(artefact)
    path = copies.copies_folder() / artefact.sha256[:2] / artefact.sha256
    path.write_bytes(content[:-1])
    assert read(artefact) == content
    path.write_bytes(b"")
    use_host("first")
    assert read(artefact) == content


@pytest.mark.slow
def test_copies_stay_within_their_bound_and_the_least_recently_used_goes(bucket, settings):
    first, second, third = (keep_file(f"text {number} " * 40) for number in range(3))
    for artefact in (first, second, first):
        read(artefact)
    settings.STORAGE_CACHE_GB = 2.5 * third.size / copies.GB
    read(third)
    assert kept_copies() == {first.sha256, third.sha256}
    settings.STORAGE_CACHE_GB = 0.0
    assert b"text 1" in read(second)
    assert kept_copies() == set()


@pytest.mark.slow
def test_a_bucket_that_is_not_there_or_refuses_is_a_storage_that_is_away(
    bucket, object_store, monkeypatch, use_storage, bucket_address
):
    artefact = keep_file("refused")
    use_storage(bucket_address.replace("s3://board", "s3://bored"))
    with pytest.raises(StorageAway):
        read(artefact)
    if object_store.name != "moto":  # which takes any key
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        use_storage(bucket_address)
        with pytest.raises(StorageAway, match="answered 403") as caught:
            read(artefact)
        assert "another" not in str(caught.value)


def test_a_torn_table_of_checked_files_is_made_anew(storage, use_host):
    artefact = keep_file("0.45")
    read(artefact)
    (Path(django_settings.VAR) / "checked.sqlite3").write_bytes(b"torn" * 5000)
    use_host("first")
    assert b"0.45" in read(artefact)
    assert marks.is_checked(board_storage().place("nothing"), ("1",)) is False


@pytest.fixture
def download(storage, client, monkeypatch):
    """Ask for a file as a visitor whose page names it."""
    artefact = keep_file("a file to download")
    monkeypatch.setattr(manifests, "downloadable", lambda sha256: artefact if sha256 == artefact.sha256 else None)

    def ask(sha256: str = artefact.sha256, **headers: str):
        return client.get(reverse("artefact", args=[sha256]), headers=headers)

    return ask


@pytest.mark.slow
def test_a_download_is_streamed_whole_or_in_part(download):
    whole = download()
    assert (whole.status_code, whole.getvalue()) == (200, b"a file to download")
    part = download(range="bytes=2-5")
    assert (part.status_code, part.getvalue(), part["Content-Range"]) == (206, b"file", "bytes 2-5/18")


@pytest.mark.slow
def test_a_download_is_a_signed_link_where_the_bucket_answers_itself(download, storage, settings):
    settings.STORAGE_DOWNLOADS = "signed"
    answer = download()
    if storage.reads_in_place:
        assert answer.getvalue() == b"a file to download"
        return
    assert (answer.status_code, answer["Cache-Control"]) == (302, "private, no-store")
    with urlopen(Request(answer["Location"], headers={"Range": "bytes=2-5"})) as part:  # noqa: S310 (our own server)
        assert (part.status, part.read()) == (206, b"file")
        assert part.headers["Content-Type"] == "application/vnd.apache.parquet"
        assert part.headers["Content-Disposition"].startswith("attachment; filename=")
    assert not copies.copies_folder().exists(), "the web process keeps no copy of what it does not send"
    assert download("0" * 64).status_code == 404


def test_no_link_leads_to_a_damaged_file(download, storage, settings):
    settings.STORAGE_DOWNLOADS = "signed"
    damage(storage, Artefact.objects.get())
    assert download().status_code == 404


@pytest.mark.slow_cases
@pytest.mark.parametrize("way", ["streamed", "signed"])
def test_the_board_is_downloaded(storage, client, settings, way):
    settings.STORAGE_DOWNLOADS = way
    storage.save("exports/20261101T000000Z-abcdefabcdef.zip", ContentFile(b"the board"))
    answer = client.get(reverse("board_download"))
    if way == "signed" and not storage.reads_in_place:
        with urlopen(answer["Location"]) as file:  # noqa: S310 (our own server)
            assert (file.headers["Content-Type"], file.read()) == ("application/zip", b"the board")
    else:
        assert b"".join(answer.streaming_content) == b"the board"


@pytest.mark.slow
@pytest.mark.parametrize("cut", [None, 0, 100_000])
def test_a_read_that_breaks_goes_on_or_waits_and_loses_no_file(
    bucket, object_store, bucket_address, use_storage, use_host, monkeypatch, cut
):
    text = "a long text " * 30_000
    artefact = keep_file(text)
    with break_the_way(object_store.endpoint) as proxy:
        name = f"s3://{bucket.bucket_name}/board/files?endpoint={proxy.address}&region=us-east-1"
        if object_store.name != "moto":  # a signature names the host
            pytest.skip("a proxy of another name breaks signatures")
        use_storage(name)
        monkeypatch.setattr(objects, "PAUSES", (0.0, 0.0))
        use_host("second")
        proxy.cut, proxy.breaks = cut, 2
        assert read(artefact) == text.encode()
        use_host("third")
        proxy.cut, proxy.breaks = cut and 0, 1000  # or each attempt would come a bit further
        with pytest.raises(StorageAway):
            read(artefact)
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.WHOLE
    assert not kept_copies()


def test_what_is_noted_once_a_torn_table_is_gone_is_known_to_other_processes(settings, tmp_path, monkeypatch):
    settings.VAR = tmp_path
    monkeypatch.setattr(marks, "_checked", {})
    (tmp_path / "checked.sqlite3").write_bytes(b"no table " * 1000)
    assert marks.is_checked("place", ("1",)) is False
    marks.note_checked("place", ("1",))
    marks._checked.clear()  # as another process is, which reads the table
    assert marks.is_checked("place", ("1",)) is True
