"""`manage.py storage`: what is missing, different or referred to by nothing, and files that move while a board runs."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.core.files.base import ContentFile
from django.core.management import CommandError, call_command
from django.utils import timezone

from leaderboard import tasks
from leaderboard.models import Artefact, StorageMark
from leaderboard.operations.services import stored_files
from leaderboard.services import artefacts, storage_marks
from leaderboard.services.artefacts import SENTINEL
from leaderboard.services.storage_marks import MARK
from leaderboard.storage import board_storage
from leaderboard.submissions.services import uploads

pytestmark = pytest.mark.django_db


def keep_file(text: str) -> Artefact:
    """Store a file with that text."""
    path = Path(django_settings.VAR) / "written"
    path.write_text(text)
    return artefacts.store_file(path)


def read(artefact: Artefact) -> str:
    with artefacts.open_whole(artefact) as file:
        return file.read().decode()


def run(*words: str) -> str:
    out = StringIO()
    call_command("storage", *words, stdout=out)
    return out.getvalue()


def interrupted(count: int):
    """A progress that is interrupted at the given number."""

    def progress(done: int, total: int) -> None:
        if done == count:
            raise KeyboardInterrupt

    return progress


@pytest.mark.slow
def test_a_check_tells_what_is_missing_different_and_unreferenced(storage):
    missing, different, sound = (keep_file(f"checked {name}") for name in ("missing", "different", "sound"))
    assert run("check").startswith("0 missing, 0 different, 0 that nothing refers to, of 4 files")
    storage.delete(missing.storage_name)
    storage.save(different.storage_name, ContentFile(b"checked differend"))
    storage.save("stray", ContentFile(b"12345"))
    storage.save("shards/run-1/x", ContentFile(b"of work under way"))
    with pytest.raises(CommandError, match="1 missing, 1 different, 1 that nothing refers to, of 5 files"):
        run("check")
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("storage", "check", "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert answer["missing"] == [missing.storage_name]
    assert answer["different"] == [different.storage_name]
    assert [(file["name"], file["bytes"]) for file in answer["unreferenced"]] == [("stray", 5)]
    assert read(sound) == "checked sound"


@pytest.mark.slow
def test_an_interrupted_check_goes_on_and_forgets_nothing(storage):
    files = [keep_file(f"interrupted {number}") for number in range(4)]
    storage.delete(files[0].storage_name)
    with pytest.raises(KeyboardInterrupt):
        stored_files.compare_files(interrupted(2))
    comparison = stored_files.compare_files(lambda *_: None)
    assert (comparison.read, comparison.missing) == (2, [files[0].storage_name])
    assert stored_files.compare_files(lambda *_: None).read == 4


def test_a_check_ends_though_another_one_ended_meanwhile(storage):
    keep_file("checked twice")
    comparison = stored_files.compare_files(lambda *_: stored_files.compare_files(lambda *_: None))
    assert (comparison.read, comparison.missing) == (1, [])


@pytest.mark.slow
def test_an_interrupted_check_can_be_begun_anew(storage):
    for number in range(4):
        keep_file(f"interrupted {number}")
    with pytest.raises(KeyboardInterrupt):
        stored_files.compare_files(interrupted(2))
    assert json.loads(run("check", "--from-start", "--json"))["read"] == 4


@pytest.mark.parametrize("change", ["none", "a day passes", "another storage"])
def test_a_check_goes_on_within_a_day_and_in_one_storage_and_says_what_it_read(tmp_path, use_storage, change):
    use_storage(f"file://{tmp_path}/files")
    artefacts.mark_storage()
    for number in range(4):
        keep_file(f"interrupted {number}")
    with pytest.raises(KeyboardInterrupt):
        stored_files.compare_files(interrupted(2))
    if change == "a day passes":
        path = Path(django_settings.VAR) / "storage-check.json"
        earlier = timezone.now() - timedelta(hours=25)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"began_at": earlier.isoformat()}))
    if change == "another storage":
        (tmp_path / "files").rename(tmp_path / "moved")
        use_storage(f"file://{tmp_path}/moved")
    words = "2 read now, 2 earlier, since 2" if change == "none" else "4 read now\n"
    assert f"0 missing, 0 different, 0 that nothing refers to, of 5 files; {words}" in run("check")


@pytest.mark.slow
def test_what_nothing_refers_to_is_deleted_after_a_day_and_listed_before(storage, monkeypatch):
    artefact = keep_file("referred to")
    upload = uploads.keep(ContentFile(b"of nobody"))
    storage.save(f"{'ab' * 32}.parquet", ContentFile(b"orphan"))
    assert json.loads(run("gc", "--json")) == {"dry_run": False, "files": []}
    monkeypatch.setattr(stored_files, "OLD", timedelta(minutes=-5))
    names = {f"{'ab' * 32}.parquet", upload}
    assert {file["name"] for file in json.loads(run("gc", "--dry-run", "--json"))["files"]} == names
    assert all(map(storage.exists, names))
    if not storage.reads_in_place:
        storage.client.create_multipart_upload(Bucket=storage.bucket_name, Key=storage.key("half"))
    assert "2 files" in run("gc")
    assert storage.drop_remains(timezone.now() + timedelta(days=1)) == 0, "what a killed writer left is gone, too"
    assert {file.name for file in storage.list_files()} == {SENTINEL, artefact.storage_name}


def test_nothing_is_cleared_beside_a_database_of_another_time(storage, monkeypatch):
    monkeypatch.setattr(stored_files, "OLD", timedelta(minutes=-5))
    monkeypatch.setattr(uploads, "FORGOTTEN_AFTER", timedelta(minutes=-5))
    artefact = keep_file("of a database that was replaced by an older one")
    storage_marks.write_marks()
    names = {artefact.storage_name, uploads.keep(ContentFile(b"sent since")), "shards/run-1/x"}
    storage.save("shards/run-1/x", ContentFile(b"of work under way"))
    artefact.delete()
    StorageMark.objects.all().delete()
    with pytest.raises(CommandError, match="The database is older than the storage"):
        run("gc")
    tasks.watch()
    assert all(map(storage.exists, names))
    storage_marks.write_marks()
    tasks.watch()
    assert {name for name in names if storage.exists(name)} == {artefact.storage_name}


@pytest.mark.parametrize("folder", ["", "backups/"])
def test_a_backup_in_the_storage_is_not_deleted(storage, monkeypatch, folder):
    names = {f"{folder}objects/55/{'5' * 64}{ending}" for ending in ("", "-1", ".gz")}
    sets = ("board", "20260101T000000000Z.json", "20260102T000000000Z.begun")
    names |= {f"{folder}sets/{name}" for name in sets}
    for name in (*names, "objects/stray"):
        storage.save(name, ContentFile(b"kept"))
    monkeypatch.setattr(stored_files, "OLD", timedelta(minutes=-5))
    assert [file["name"] for file in json.loads(run("gc", "--json"))["files"]] == ["objects/stray"]
    assert {file.name for file in storage.list_files()} == {SENTINEL, *names}


@pytest.fixture(params=["to the bucket", "to the folder"])
def places(request, tmp_path, bucket_address, use_host) -> tuple[str, str]:
    """The addresses of the old storage and of the new one."""
    use_host("first")
    addresses = (f"file://{tmp_path}/files", bucket_address)
    return addresses if request.param == "to the bucket" else addresses[::-1]


@pytest.mark.slow
def test_a_board_moves_while_it_runs_and_no_process_misses_a_file(places, use_storage, use_host):
    old, new = places
    use_storage(old)
    artefacts.mark_storage()
    before = [keep_file(f"moved {number}") for number in range(5)]
    # One process after the other gets both settings, still writing to the old storage; then they change places.
    use_storage(old, new)
    artefacts.mark_storage()
    early = keep_file("written to the old one meanwhile")
    use_storage(new, old)
    late = keep_file("written to the new one")
    assert not use_storage(old).exists(late.storage_name)
    use_storage(old, new)
    use_host("not yet restarted")
    assert read(late) == "written to the new one"
    use_storage(new, old)
    with pytest.raises(KeyboardInterrupt):
        stored_files.move_files(interrupted(3))
    assert [read(artefact) for artefact in before] == [f"moved {number}" for number in range(5)]
    straggler = keep_file("of a straggler")
    board_storage().second.save(straggler.storage_name, ContentFile(b"of a straggler"))
    board_storage().first.delete(straggler.storage_name)
    answer = json.loads(run("move", "--json"))
    assert (answer["copied"], answer["not_copied"]) == (5, [])
    assert json.loads(run("move", "--json"))["copied"] == 0
    use_storage(new)
    use_host("after the move")
    assert [read(artefact) for artefact in (*before, early, late)][:2] == ["moved 0", "moved 1"]
    assert read(straggler) == "of a straggler"
    assert run("check").startswith("0 missing, 0 different, 0 that nothing refers to")


@pytest.mark.slow
def test_a_damaged_file_is_not_moved_and_is_told(places, use_storage):
    old, new = places
    storage = use_storage(new, old)
    artefacts.mark_storage()
    artefact = keep_file("damaged before it moves")
    storage.first.delete(artefact.storage_name)
    storage.second.save(artefact.storage_name, ContentFile(b"Damaged before it moves"))
    with pytest.raises(CommandError, match="1 not copied"):
        run("move")
    assert not storage.first.exists(artefact.storage_name)


@pytest.mark.slow_cases
def test_what_is_deleted_during_a_move_does_not_come_back(places, use_storage, monkeypatch):
    old, new = places
    storage = use_storage(new, old)
    artefacts.mark_storage()
    storage.second.save("submissions/upload", ContentFile(b"read by a worker"))
    save = storage.first.save

    def save_late(name, content, max_length=None):
        storage.delete(name)
        return save(name, content, max_length)

    monkeypatch.setattr(storage.first, "save", save_late)
    move = stored_files.move_files(lambda *_: None)
    assert not storage.exists("submissions/upload")
    assert (move.copied, move.damaged) == (0, [])


@pytest.mark.parametrize("is_target_newer", [True, False])
def test_of_two_marks_a_move_leaves_the_newer_one(tmp_path, use_storage, is_target_newer):
    old, new = f"file://{tmp_path}/old", f"file://{tmp_path}/new"
    storage = use_storage(new, old)
    artefacts.mark_storage()
    storage_marks.write_marks()
    earlier_part = storage.second if is_target_newer else storage.first
    with earlier_part.open(MARK) as file:
        earlier_mark = file.read()
    keep_file("of a later mark")
    assert storage_marks.renew_mark()
    earlier_part.save(MARK, ContentFile(earlier_mark))
    assert storage_marks.find_mismatch() == ""
    run("move")
    use_storage(new)
    assert storage_marks.read_mark().number == StorageMark.objects.get().number
    assert storage_marks.find_mismatch() == ""


def test_a_move_without_a_second_storage_is_refused(storage):
    with pytest.raises(CommandError, match="STORAGE_ALSO_URL is not set: set it to the storage"):
        run("move")


@pytest.mark.slow_cases
def test_one_of_two_storages_that_is_away_is_a_storage_that_is_away(places, use_storage):
    old, new = places
    storage = use_storage(new, old)
    artefacts.mark_storage()
    artefact = keep_file("there")
    storage.second.delete(SENTINEL)
    storage.first.delete(artefact.storage_name)
    with pytest.raises(OSError, match="the storage of files is away"):
        artefacts.verify_stored(artefact)
    artefact.refresh_from_db()
    assert artefact.state == Artefact.State.WHOLE
