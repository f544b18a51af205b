"""Backups: a set of database and files that was taken beside work restores, or says why it does not."""

import gzip
import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pyrage
import pytest
from django.conf import settings as board_settings
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.backends.sqlite3._functions import register
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from leaderboard.management.commands import backup as backup_command
from leaderboard.management.commands import restore as restore_command
from leaderboard.models import (
    Artefact,
    AuditEvent,
    Backup,
    Incident,
    Invitation,
    MetricVersion,
    Pulse,
    Release,
    StorageMark,
    Submission,
)
from leaderboard.operations.alerts import look
from leaderboard.operations.backups import databases, making, restoring, sets, verifying
from leaderboard.operations.backups.databases import Progress
from leaderboard.operations.backups.encryption import Plain, WrongKey, cipher_called, cipher_for
from leaderboard.operations.backups.places import BackupPlace, open_place
from leaderboard.operations.backups.verifying import TrialRestore, scratch_database, verify_set
from leaderboard.services import artefacts, storage_marks
from leaderboard.services.backup_state import describe_problem
from leaderboard.services.publish import publish_standings
from leaderboard.services.signs_of_life import pulse
from scoring.refusals import Refused
from tests.leaderboard.stored import metric_of, runs_on, score_all, score_one, version_of
from tests.object_store import KEY_ID, SECRET
from tests.rows import read_board

RELEASES = board_settings.BASE_DIR / "tests" / "releases"


def silent(_part: str, _count: int, _total: int) -> None:
    """No progress."""


def harsh(scores):
    return scores


def mild(scores):
    return scores / 2


@pytest.fixture
def place(tmp_path: Path) -> BackupPlace:
    return open_place(str(tmp_path / "backups"))


@pytest.fixture
def version(transactional_db) -> MetricVersion:
    """Four entries in one published version."""
    artefacts.mark_storage()
    metric = metric_of("rude", "profanity")
    version = version_of(metric, "first")
    score_all(version, runs_on(metric), {"profanity": harsh})
    return version


def back_up(place: BackupPlace, **options) -> sets.Envelope:
    return making.back_up(place, options.get("cipher", Plain()), options.get("progress", silent)).envelope


def object_paths(folder: Path) -> set[Path]:
    return {path for path in (folder / "objects").rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_set_made_during_a_publication_restores_with_one_whole_version_and_the_next_copies_what_is_new(
    version: MetricVersion, place: BackupPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    identity = pyrage.x25519.Identity.generate()
    key = tmp_path / "key.txt"
    key.write_text(f"# a key\n{identity}\n")
    cipher = cipher_for([str(identity.to_public())])
    next_version = version_of(version.metric, "second")
    for number, run in enumerate([scoring.run for scoring in version.scorings.order_by("pk")]):
        score_one(next_version, run, number, {"profanity": mild})

    def publish() -> None:
        try:
            publish_standings(next_version)
        finally:
            connection.close()

    threads = [threading.Thread(target=publish)]

    def publish_meanwhile(part: str, _count: int, _total: int) -> None:
        if threads and part == "database":
            thread = threads.pop()
            thread.start()
            thread.join()

    first = back_up(place, cipher=cipher, progress=publish_meanwhile)
    assert MetricVersion.objects.get(status="current") == next_version
    mentioned_files = Artefact.objects.count()
    assert (first.files, first.lost, first.encryption) == (mentioned_files, 0, "age")
    second = back_up(place, cipher=cipher)
    assert second.files == first.files
    new_objects = set(second.objects) - set(first.objects)
    assert len(new_objects) <= len(second.objects) - second.files, "no file is copied again"
    assert second.copied < first.copied

    folder = tmp_path / "backups"
    plain_names = {artefact.sha256 for artefact in Artefact.objects.all()}
    assert not [path for path in object_paths(folder) if path.name[:64] in plain_names]
    with pytest.raises(Refused, match="give the file with its key"):
        restoring.open_set(place, "", None)
    monkeypatch.chdir(tmp_path)
    own_folder = tmp_path / "own"
    monkeypatch.setenv("PLUMBLINE_VAR", str(own_folder))
    monkeypatch.setenv("STORAGE_ALSO_URL", f"file://{own_folder}/files")
    if connection.vendor == "sqlite":  # tests on PostgreSQL have theirs there
        monkeypatch.setenv("DATABASE_URL", f"sqlite:///{own_folder}/own.sqlite3")
    trial = verify_set(place, "backups", first.name, Path(key.name))
    assert not own_folder.exists(), "a trial leaves the board's own files alone"
    assert (trial.differences, trial.counts["versions"], trial.counts["entries"]) == ((), 1, 4)
    assert trial.counts["artefacts"] >= 13
    assert Backup.objects.get(name=first.name).verified_at


def test_an_interrupted_backup_is_told_from_a_whole_one_and_continued(
    version: MetricVersion, place: BackupPlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    write, names = BackupPlace.write, []

    def write_some(self: BackupPlace, name: str, content: bytes) -> None:
        if len(names) == 6:
            raise OSError("the disk is full")
        names.append(name)
        write(self, name, content)

    monkeypatch.setattr(BackupPlace, "write", write_some)
    with pytest.raises(OSError, match="the disk is full"):
        back_up(place)
    monkeypatch.undo()
    assert Backup.objects.get().problem == "the disk is full"
    with pytest.raises(Refused, match="only what was interrupted"):
        restoring.open_set(place, "", None)
    output = StringIO()
    call_command("backup", str(tmp_path / "backups"), "--list", stdout=output)
    assert output.getvalue().endswith("interrupted, or being written now; the next backup continues it\n")

    paths = {path: path.stat().st_mtime_ns for path in object_paths(tmp_path / "backups")}
    envelope = back_up(place)
    assert f"sets/{envelope.name}.begun" == names[1]
    assert sets.list_sets(place) == ([envelope], [])
    assert {path: path.stat().st_mtime_ns for path in paths} == paths, "what was copied is not copied again"
    assert Backup.objects.get().problem == ""


def test_old_sets_go_with_the_objects_that_only_they_have(version: MetricVersion, place: BackupPlace, tmp_path: Path):
    folder = tmp_path / "backups"
    names = []
    for number in range(3):
        MetricVersion.objects.update(scorer=f"another {number}")
        output = StringIO()
        call_command("backup", str(folder), "--keep", "2", "--json", stdout=output, stderr=StringIO())
        names.append(json.loads(output.getvalue())["name"])
    envelopes, _ = sets.list_sets(place)
    assert [envelope.name for envelope in envelopes] == [names[2], names[1]]
    needed = {name for envelope in envelopes for name in envelope.objects}
    assert {path.name for path in object_paths(folder)} == needed
    place.write("sets/20990101T000000000Z.begun", b"")
    assert sets.remove_old_sets(place, 1) == ([], 0), "it may count on any object"


def test_old_sets_go_before_another_process_can_begin_one(
    version: MetricVersion, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
):
    def remove_alone(_place: BackupPlace, _keep: int) -> tuple[list[str], int]:
        with pytest.raises(making.BackupUnderWay), making._alone():
            pass
        return ["first"], 3

    monkeypatch.setattr(making, "remove_old_sets", remove_alone)
    made_set = making.back_up(place, Plain(), silent, keep=1)
    assert (made_set.removed_sets, made_set.removed_objects) == (["first"], 3)


@pytest.mark.parametrize("content", [b"", b"{", b"7", b"{}"])
def test_a_damaged_envelope_is_listed_and_stops_removals_but_no_backups(
    version: MetricVersion, place: BackupPlace, tmp_path: Path, content: bytes
):
    damaged = back_up(place)
    place.write(f"sets/{damaged.name}.json", content)
    call_command("backup", place.label)
    out = StringIO()
    call_command("backup", place.label, "--list", stdout=out)
    assert len(out.getvalue().splitlines()) == 2
    assert re.search(rf"^sets/{damaged.name}.json is damaged", out.getvalue(), re.MULTILINE)
    with pytest.raises(
        sets.DamagedSet, match=rf"no older set is removed .*: sets/{damaged.name}.json is damaged .*delete"
    ):
        sets.remove_old_sets(place, 1)
    assert set(damaged.objects) <= {path.name for path in object_paths(tmp_path / "backups")}
    with pytest.raises(sets.DamagedSet):
        restoring.open_set(place, damaged.name, None)
    restoring.open_set(place, "", None)


def test_a_removal_of_old_sets_that_fails_is_told_apart_from_the_backup(
    version: MetricVersion, place: BackupPlace, settings, monkeypatch: pytest.MonkeyPatch
):
    def wait(_seconds: float) -> None:
        raise EndOfWaiting

    def refuse(_place: BackupPlace, _keep: int) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(backup_command, "time", SimpleNamespace(sleep=wait))
    monkeypatch.setattr(making, "remove_old_sets", refuse)
    settings.BACKUP_SECONDS = 3600.0
    out, err = StringIO(), StringIO()
    with pytest.raises(EndOfWaiting):
        call_command("backup", place.label, "--repeat", "--keep", "1", stdout=out, stderr=err)
    backup = Backup.objects.get()
    assert out.getvalue().startswith(f"{backup.name}: ")
    words = "older ones could not be removed: read-only"
    assert f"set {backup.name} is whole, and {words}" in err.getvalue()
    assert "the backup failed" not in err.getvalue()
    assert (backup_incident(), bool(backup.finished_at)) == (f"The last backup is whole, and {words}", True)
    with pytest.raises(CommandError, match=words):
        call_command("backup", place.label, "--keep", "1", stdout=out)


def test_what_is_lost_is_named_and_a_damaged_or_missing_object_stops_a_restore(
    version: MetricVersion, place: BackupPlace, settings, tmp_path: Path
):
    lost, damaged, absent = Artefact.objects.order_by("pk")[:3]
    content = {file: Path(default_storage.path(file.storage_name)).read_bytes() for file in (lost, damaged, absent)}
    Path(default_storage.path(lost.storage_name)).unlink()
    Path(default_storage.path(damaged.storage_name)).write_bytes(b"other bytes")
    Path(default_storage.path(absent.storage_name)).unlink()
    Artefact.objects.filter(pk=absent.pk).update(state="absent")
    try:
        envelope = back_up(place)
    finally:
        for file, kept in content.items():
            Path(default_storage.path(file.storage_name)).write_bytes(kept)
    chosen_set = restoring.open_set(place, envelope.name, None)
    assert set(chosen_set.manifest.lost) == {lost.storage_name, damaged.storage_name}
    assert chosen_set.manifest.absent == (absent.storage_name,)
    assert restoring.check_files(chosen_set.manifest) == tuple(sorted(chosen_set.manifest.lost))

    folder = tmp_path / "backups"
    damaged_copy, missing_copy = chosen_set.manifest.files[:2]
    path = folder / sets.place_of(damaged_copy.objects[0])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    (folder / sets.place_of(missing_copy.objects[0])).unlink()
    settings.MEDIA_ROOT = str(tmp_path / "restored")
    settings.STORAGES = settings.STORAGES | {
        "default": settings.STORAGES["default"] | {"OPTIONS": {"location": tmp_path / "restored"}}
    }
    artefacts.mark_storage()
    with pytest.raises(sets.DamagedSet, match=r"2 files of set .* are damaged, and the database was left as it is"):
        restoring.restore_files(chosen_set, silent)
    whole = chosen_set.manifest.files[2:]
    assert [restoring.is_there(file) for file in whole] == [True] * len(whole)
    assert not restoring.is_there(replace(whole[0], sha256=damaged_copy.sha256))
    assert {file.name for file in whole if default_storage.exists(file.name)} == {file.name for file in whole}
    path.unlink()
    with pytest.raises(sets.DamagedSet, match="2 files"):
        restoring.restore_files(chosen_set, silent)


def test_damage_of_encrypted_objects_is_told_from_a_wrong_key(
    version: MetricVersion, place: BackupPlace, use_storage, tmp_path: Path
):
    own, other = (pyrage.x25519.Identity.generate() for _ in range(2))
    for name, key in (("own", own), ("other", other)):
        (tmp_path / name).write_text(str(key))
    envelope = back_up(place, cipher=cipher_for([str(own.to_public())]))
    with pytest.raises(WrongKey):
        restoring.open_set(place, envelope.name, tmp_path / "other")
    chosen_set = restoring.open_set(place, envelope.name, tmp_path / "own")
    flipped, cut, empty = (sets.place_of(file.objects[0]) for file in chosen_set.manifest.files[:3])
    content = place.read(flipped)
    place.write(flipped, content[:-1] + bytes([content[-1] ^ 1]))
    place.write(cut, place.read(cut)[:50])
    place.write(empty, b"")
    use_storage(f"file://{tmp_path}/restored")
    artefacts.mark_storage()
    with pytest.raises(sets.DamagedSet, match=r"3 files of set .* are damaged") as refusal:
        restoring.restore_files(chosen_set, silent)
    assert all(f"{name} is damaged: the key that" in str(refusal.value) for name in (flipped, cut, empty))


def test_a_set_of_a_later_release_or_another_database_and_a_board_in_use_are_refused(
    version: MetricVersion, place: BackupPlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('leaderboard', '9999_later', '2031-01-01')"
        )
    later = back_up(place)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE name = '9999_later'")
    with pytest.raises(Refused, match=r"is of a later release, .*leaderboard 9999_later.*Install that release"):
        restoring.open_set(place, later.name, None)
    back_up(place)
    with pytest.raises(CommandError, match=r"the database is not empty: it holds \d+ models, .* --replace to lose"):
        call_command("restore", str(tmp_path / "backups"))
    monkeypatch.setattr(restoring.connection, "vendor", "oracle")
    with pytest.raises(Refused, match="DATABASE_URL names one of oracle"):
        restoring.open_set(place, "", None)
    monkeypatch.undo()


def test_rows_in_any_table_but_those_that_migrations_fill_are_contents_that_a_restore_would_lose(
    db, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
):
    assert databases.count_contents() == {}
    Invitation.objects.create(token_hash="0" * 64, expires_at=timezone.now())
    monkeypatch.setattr(restore_command, "open_set", lambda *_: None)
    with pytest.raises(CommandError, match=r"it holds rows in leaderboard_invitation\. .* --replace to lose"):
        call_command("restore", place.label)
    User.objects.create_user("ada")
    for number in range(6):
        pulse(f"pulse {number}")
    words = restore_command.describe(dict.fromkeys("abcdef", 1) | databases.count_contents())
    assert words == "1 people, rows in a, b, c, d, e and 3 more tables"


@pytest.mark.parametrize("target", ["", "/backups", "/..", "/files/../files/backups"])
def test_a_place_of_backups_that_shares_a_folder_with_the_storage_is_refused(
    transactional_db, use_storage, tmp_path: Path, target: str
):
    use_storage(f"file://{tmp_path}/other", also=f"file://{tmp_path}/files")
    (tmp_path / "link").symlink_to(tmp_path / "files")
    for name in ("files", "link"):
        with pytest.raises(CommandError, match=r"it shares a folder with the storage .* nor holds it"):
            call_command("backup", f"{tmp_path}/{name}{target}")
    assert not list(tmp_path.rglob("*.begun"))


def test_a_place_that_holds_the_sets_of_another_board_is_refused(
    version: MetricVersion, place: BackupPlace, settings, tmp_path: Path
):
    settings.SITE_URL = "https://first.example.org"
    back_up(place)
    settings.SITE_URL = "https://renamed.example.org"
    back_up(place)
    first = MigrationRecorder.Migration.objects.order_by("pk")[:1].get()
    MigrationRecorder.Migration.objects.filter(pk=first.pk).update(applied=first.applied + timedelta(seconds=1))
    settings.SITE_URL = "https://second.example.org"
    words = (
        r"another board, https://first\.example.* a place of its own for https://second\.example.* delete sets/board"
    )
    try:
        with pytest.raises(CommandError, match=words):
            call_command("backup", place.label)
        assert len(list((tmp_path / "backups" / "sets").iterdir())) == 3
        place.write("sets/board", b"{}")
        with pytest.raises(CommandError, match=r"sets/board in .* is damaged .* delete sets/board"):
            call_command("backup", place.label)
        place.delete("sets/board")
        back_up(place)
    finally:
        MigrationRecorder.Migration.objects.filter(pk=first.pk).update(applied=first.applied)


def test_a_bucket_of_backups_is_compared_with_that_of_the_storage(use_storage, bucket_address: str):
    use_storage(bucket_address)
    parent = bucket_address.replace("/board/files?", "/board?")
    for address in (bucket_address, parent, bucket_address.replace("?", "/backups?")):
        with pytest.raises(Refused, match="it shares a folder with the storage"):
            open_place(address).refuse_own_storage()
    for address in (bucket_address.replace("/files?", "/files-of-backups?"), "s3://another/board"):
        open_place(address).refuse_own_storage()


@pytest.mark.parametrize("credentials", ["those of the storage", "its own"])
def test_a_bucket_takes_backups_and_gives_them_back(
    version: MetricVersion, bucket_address: str, credentials: str, settings, monkeypatch: pytest.MonkeyPatch
):
    if credentials == "its own":
        settings.BACKUP_ACCESS_KEY_ID, settings.BACKUP_SECRET_ACCESS_KEY = KEY_ID, SECRET
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
    place = open_place(bucket_address)
    first, second = back_up(place), back_up(place)
    assert [envelope.name for envelope in sets.list_sets(place)[0]] == [second.name, first.name]
    assert second.copied < first.copied
    files = restoring.open_set(place, second.name, None).manifest.files
    assert {file.sha256 for file in files} == {artefact.sha256 for artefact in Artefact.objects.all()}
    assert sets.remove_old_sets(place, 1)[0] == [first.name]
    assert sets.set_names(place) == ([second.name], [])


# Restoring


class Interrupted(BaseException):
    """A restore ends before it is done."""


TABLES_OF_NOTES = (AuditEvent, Backup, Pulse, StorageMark)  # in which a restore says what it did
PAGES = ("/", "/rankings/?metric=rude", "/rankings.json?metric=rude", "/metrics/rude/", "/models/alder/")


def read_all() -> tuple[dict[str, list[tuple[object, ...]]], dict[str, str]]:
    """What a board holds, by table, and what it shows, by page. Fails where a file is not what its name says."""
    tables = {
        rows.model.__name__: sorted(rows.values, key=repr) for rows in read_board() if rows.model not in TABLES_OF_NOTES
    }
    for artefact in Artefact.objects.all():
        with default_storage.open(artefact.storage_name) as file:
            assert hashlib.sha256(file.read()).hexdigest() == artefact.sha256
    pages = {}
    for address in PAGES:
        answer = Client().get(address)
        assert answer.status_code == 200, address
        pages[address] = re.sub(' nonce="[^"]+"', "", answer.content.decode())
    return tables, pages


@contextmanager
def empty_board(folder: Path) -> Iterator[None]:
    """Go on with a database of its own, in which there is nothing yet; afterwards with the one of before."""
    own_name = connection.settings_dict["NAME"]
    folder.mkdir()
    with scratch_database(str(folder)) as url:
        connection.close()
        is_file = connection.vendor == "sqlite"
        connection.settings_dict["NAME"] = url.removeprefix("sqlite:///") if is_file else urlsplit(url).path[1:]
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict["NAME"] = own_name


def restore(*arguments: str) -> dict[str, Any]:
    """What the command answers."""
    out = StringIO()
    call_command("restore", *arguments, "--json", stdout=out, stderr=StringIO())
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


@pytest.mark.slow
def test_an_encrypted_set_in_a_bucket_makes_the_same_board_of_an_empty_one(
    version: MetricVersion, bucket_address: str, use_storage, tmp_path: Path
):
    identity, key = pyrage.x25519.Identity.generate(), tmp_path / "key.txt"
    key.write_text(str(identity))
    call_command("backup", bucket_address, "--recipient", str(identity.to_public()))
    whole = read_all()
    use_storage(f"file://{tmp_path}/files")
    with empty_board(tmp_path / "restored"):
        with pytest.raises(CommandError, match="give the file with its key"):
            restore(bucket_address)
        answer = restore(bucket_address, "--identity", str(key))
        assert (answer["fetched"], answer["lost"], answer["unknown"]) == (Artefact.objects.count(), [], 0)
        assert read_all() == whole
        assert Backup.objects.get().encryption == "age"


def interrupt_at(part: str, count_of: Callable[[int], int]) -> Callable[[], AbstractContextManager[Progress]]:
    """What shows progress and ends a restore in one of its parts. count_of: how many steps of so many are done then."""

    @contextmanager
    def step_progress() -> Iterator[Progress]:
        def show(name: str, count: int, total: int) -> None:
            if (name, count) == (part, count_of(total)):
                raise Interrupted

        yield show

    return step_progress


@pytest.mark.slow
def test_a_restore_in_place_of_another_board_that_is_interrupted_is_run_again_and_makes_the_same_board(
    version: MetricVersion, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
):
    call_command("backup", place.label)
    whole = read_all()
    names = [artefact.storage_name for artefact in Artefact.objects.all()]
    metric = metric_of("ruder", "profanity")
    score_all(version_of(metric, "another"), [scoring.run for scoring in version.scorings.all()], {"profanity": mild})
    MetricVersion.objects.filter(pk=version.pk).update(scorer="another")
    for name in names:
        default_storage.delete(name)
    other_rows = [rows for rows in read_board() if rows.model not in TABLES_OF_NOTES]

    monkeypatch.setattr(restore_command, "step_progress", interrupt_at("files", lambda total: total // 2))
    with pytest.raises(Interrupted):
        restore(place.label, "--replace")
    fetched_count = sum(map(default_storage.exists, names))
    assert fetched_count == len(names) // 2
    monkeypatch.setattr(restore_command, "step_progress", interrupt_at("database", lambda total: total))
    with pytest.raises(Interrupted):
        restore(place.label, "--replace")
    assert all(map(default_storage.exists, names))
    assert [rows for rows in read_board() if rows.model not in TABLES_OF_NOTES] == other_rows, (
        "all of the database, or nothing"
    )

    monkeypatch.undo()
    assert (restore(place.label, "--replace")["fetched"], read_all()) == (0, whole)
    assert Client().get("/metrics/ruder/").status_code == 404


@pytest.mark.slow
def test_a_restore_that_is_interrupted_once_the_database_is_there_goes_on_with_replace(
    version: MetricVersion, place: BackupPlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def end_process() -> None:
        raise Interrupted

    call_command("backup", place.label)
    whole = read_all()
    with empty_board(tmp_path / "restored"):
        monkeypatch.setattr(restoring, "migrate", end_process)
        with pytest.raises(Interrupted):
            restore(place.label)
        monkeypatch.undo()
        with pytest.raises(CommandError, match=r"the database is not empty: .* or give --replace"):
            restore(place.label)
        restore(place.label, "--replace")
        assert read_all() == whole


def test_half_of_a_buckets_credentials_is_refused(settings):
    settings.BACKUP_ACCESS_KEY_ID = KEY_ID
    with pytest.raises(Refused, match="one of them is empty; set both or neither"):
        open_place("s3://backups/board")


def test_a_set_that_anybody_can_read_follows_an_encrypted_one_only_where_it_is_meant(
    version: MetricVersion, place: BackupPlace, tmp_path: Path
):
    recipient, folder = str(pyrage.x25519.Identity.generate().to_public()), str(tmp_path / "backups")
    call_command("backup", folder, "--recipient", recipient)
    with pytest.raises(CommandError, match="is encrypted by age, and this one would not be: give --recipient"):
        call_command("backup", folder)
    with pytest.raises(CommandError, match="--plain and --recipient: give one of them"):
        call_command("backup", folder, "--plain", "--recipient", recipient)
    call_command("backup", folder, "--plain")
    assert [envelope.encryption for envelope in sets.list_sets(place)[0]] == ["", "age"]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_backup_says_how_many_files_are_lost_where_some_are(version: MetricVersion, tmp_path: Path, is_lost: bool):
    path = Path(default_storage.path(version.scorings.first().artefact.storage_name))
    content = path.read_bytes()
    if is_lost:
        path.unlink()
    out = StringIO()
    call_command("backup", str(tmp_path / "backups"), "--plain", stdout=out)
    path.write_bytes(content)
    words = "1 files that the database mentions are lost on the storage: see /operate/files/"
    assert (words in out.getvalue()) == is_lost


def test_a_trial_says_what_differs_and_fails_or_what_it_counted(place: BackupPlace, monkeypatch: pytest.MonkeyPatch):
    trials = iter([TrialRestore("one", {"entries": 4, "drifts": 0}, ()), TrialRestore("two", {}, ("a rank moved",))])
    monkeypatch.setattr(backup_command, "verify_set", lambda *_: next(trials))
    out = StringIO()
    call_command("backup", place.label, "--verify", stdout=out)
    assert out.getvalue() == "set one restores, and nothing differs: 4 entries\n"
    with pytest.raises(CommandError, match="set two: 1 differences"):
        call_command("backup", place.label, "--verify", stdout=out)
    assert out.getvalue().endswith("a rank moved\n")


def test_a_trial_that_is_told_to_end_is_cleared_away_first(
    version: MetricVersion, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
):
    back_up(place)
    signals, scratch = [], []

    def end_meanwhile(environment: dict[str, str], *_arguments: str) -> None:
        scratch.append(environment)
        (Path(environment["PLUMBLINE_VAR"]) / "file").touch()
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(verifying, "_manage", end_meanwhile)
    handler = signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    try:
        call_command("backup", place.label, "--verify")
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert signals == [signal.SIGTERM]
    assert not Path(scratch[0]["PLUMBLINE_VAR"]).exists()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM pg_database WHERE datname LIKE 'plumbline_trial_%'")
            assert cursor.fetchone() == (0,)


@pytest.mark.parametrize("is_odd", [False, True])
def test_a_restore_says_what_was_odd_about_a_set_where_something_was(
    place: BackupPlace, monkeypatch: pytest.MonkeyPatch, is_odd: bool
):
    restoration = restoring.Restoration(9, 8, 70, 3 * is_odd, ("ab/lost",) * is_odd, 2 * is_odd)
    chosen_set = SimpleNamespace(envelope=SimpleNamespace(name="of-monday", code="0.9"))
    monkeypatch.setattr(restore_command, "open_set", lambda *_: chosen_set)
    monkeypatch.setattr(restore_command, "restore", lambda *_: restoration)
    monkeypatch.setattr(restore_command.Command, "check_target", lambda *_: None)
    out = StringIO()
    call_command("restore", place.label, stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "restored set of-monday: 70 rows, 9 files (8 of them fetched)"
    assert [line.partition(":")[0] for line in lines[1:-1]] == is_odd * [
        "it was of release 0.9",
        "1 files were lost before the backup",
        "the storage holds 2 files that the set does not know",
    ]
    out = StringIO()
    call_command("restore", place.label, "--json", stdout=out)
    answer = json.loads(out.getvalue())
    assert (answer["set"], answer["files"], answer["fetched"], answer["rows"]) == ("of-monday", 9, 8, 70)


class EndOfWaiting(Exception):
    """The command would wait for ever."""


def test_a_scheduled_backup_that_is_refused_is_told_until_one_is_made(
    version: MetricVersion, place: BackupPlace, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch
):
    def wait(_seconds: float) -> None:
        raise EndOfWaiting

    monkeypatch.setattr(backup_command, "time", SimpleNamespace(sleep=wait))
    recipient, folder = str(pyrage.x25519.Identity.generate().to_public()), str(tmp_path / "backups")
    call_command("backup", folder, "--recipient", recipient)
    Backup.objects.update(begun_at=timezone.now() - timedelta(minutes=90))
    settings.BACKUP_SECONDS = 3600.0
    for _ in range(2):
        with pytest.raises(EndOfWaiting):
            call_command("backup", folder, "--repeat")
        assert re.match(
            "The last backup failed, and the newest whole one is 1.hour, 30.minutes old: .*give --plain",
            backup_incident(),
        )
        assert Backup.objects.count() == 2
    Backup.objects.filter(finished_at=None).delete()
    with making._alone(), pytest.raises(EndOfWaiting):
        call_command("backup", folder, "--repeat", "--plain")
    assert backup_incident() == "", "one that is being made is no failure"
    with pytest.raises(EndOfWaiting):
        call_command("backup", folder, "--repeat", "--plain")
    assert backup_incident() == ""
    assert len(sets.list_sets(place)[0]) == 2


def test_a_backup_elsewhere_neither_postpones_the_scheduled_one_nor_hides_that_it_is_late(
    version: MetricVersion, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch
):
    def wait(_seconds: float) -> None:
        raise EndOfWaiting

    monkeypatch.setattr(backup_command, "time", SimpleNamespace(sleep=wait))
    settings.BACKUP_SECONDS = 3600.0
    call_command("backup", str(tmp_path / "elsewhere"))
    with pytest.raises(EndOfWaiting):
        call_command("backup", str(tmp_path / "backups"), "--repeat")
    scheduled = Backup.objects.get(target=str(tmp_path / "backups"))
    assert backup_incident() == ""
    Backup.objects.filter(pk=scheduled.pk).update(begun_at=timezone.now() - timedelta(hours=5))
    call_command("backup", str(tmp_path / "elsewhere"))
    assert backup_incident().startswith("The newest backup is 5")
    Backup.objects.filter(pk=scheduled.pk).update(problem="the disk is full", finished_at=None)
    problem = describe_problem(timezone.now())
    assert problem == "The last backup failed, and there is none yet: the disk is full"


@pytest.mark.parametrize("count", ["0", "-1"])
def test_to_keep_no_set_is_refused(place: BackupPlace, count: str):
    with pytest.raises(CommandError, match=f"--keep {count}: give a number of sets, 1 or more"):
        call_command("backup", place.label, "--keep", count)


def test_a_second_backup_at_a_time_is_refused(version: MetricVersion, place: BackupPlace):
    with making._alone(), pytest.raises(Refused, match="another backup of this board is under way"):
        back_up(place)


def test_an_upload_that_is_read_meanwhile_makes_another_snapshot(version: MetricVersion, place: BackupPlace):
    name = default_storage.save(f"submissions/{uuid4().hex}", ContentFile(b"{}"))
    waiting_name = default_storage.save(f"submissions/{uuid4().hex}", ContentFile(b"[]"))
    person = User.objects.create_user("ada")
    submission = Submission.objects.create(submitter=person, form="outputs", payload={}, state="checking", upload=name)
    Submission.objects.create(submitter=person, form="outputs", payload={}, state="checking", upload=waiting_name)
    snapshots = []

    def read_meanwhile(part: str, count: int, total: int) -> None:
        if part == "database" and count == total:
            snapshots.append(part)
            if len(snapshots) == 1:
                Submission.objects.filter(pk=submission.pk).update(upload="")
                default_storage.delete(name)

    envelope = back_up(place, progress=read_meanwhile)
    files = restoring.open_set(place, envelope.name, None).manifest.files
    assert [file.name for file in files if file.name.startswith("submissions/")] == [waiting_name]
    assert len(snapshots) == 2
    default_storage.delete(waiting_name)


def manage(url: str, folder: Path, *arguments: str) -> str:
    """What a command of a process of its own writes."""
    environment = os.environ | {"DATABASE_URL": url, "PLUMBLINE_VAR": str(folder)}
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=board_settings.BASE_DIR, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@contextmanager
def earlier_board(folder: Path) -> Iterator[str]:
    """The address of a database as release 0016 left it."""
    with scratch_database(str(folder)) as url:
        dump = gzip.decompress((RELEASES / f"0016.{connection.vendor}.sql.gz").read_bytes()).decode()
        if connection.vendor == "sqlite":
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database:
                register(database)  # constraints of the board use functions of Django
                database.executescript(dump)
        else:
            import psycopg2

            with closing(psycopg2.connect(url)) as database, database.cursor() as cursor:
                cursor.execute("\n".join(line for line in dump.splitlines() if not line.startswith("\\")))
                database.commit()
        yield url


@pytest.mark.slow
@pytest.mark.skipif(connection.vendor != "postgresql", reason="a set of SQLite is the file with all that is in it")
def test_tables_that_somebody_else_made_are_neither_copied_nor_restored_nor_replaced(
    transactional_db, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
):
    artefacts.mark_storage()
    User.objects.create_user("ada")
    name = "leaderboard_notes"
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE leaderboard_notes AS SELECT * FROM auth_user")
        cursor.execute("ALTER TABLE leaderboard_notes ADD FOREIGN KEY (id) REFERENCES auth_user (id)")
        try:
            newer = restoring.open_set(place, back_up(place).name, None)
            assert name not in newer.manifest.rows
            monkeypatch.setattr(databases, "own_tables", lambda names, _migrations: names)  # as earlier releases did
            earlier = restoring.open_set(place, back_up(place).name, None)
            assert name in earlier.manifest.rows
            monkeypatch.undo()
            restoration = restoring.restore(place, earlier, silent)
            assert (restoration.foreign, restoration.rows) == ((name,), sum(earlier.manifest.rows.values()) - 1)
        finally:
            cursor.execute("DROP TABLE leaderboard_notes")
    assert User.objects.get().username == "ada"


def test_tables_of_a_later_release_count_as_the_boards(db):
    migrations = [("auth", "0001_initial"), ("leaderboard", "0001_initial"), ("leaderboard", "9999_later")]
    names = ["account_orders", "auth_user", "auth_user_groups", "django_migrations", "leaderboard_later", "notes"]
    own_tables = ["auth_user", "auth_user_groups", "django_migrations"]
    assert databases.own_tables(names, migrations[:2]) == own_tables
    assert databases.own_tables(names, migrations) == [*own_tables, "leaderboard_later"]


def test_a_backup_without_a_place_is_refused():
    with pytest.raises(Refused, match="BACKUP_TARGET is not set: name a folder or a bucket"):
        open_place("")


@pytest.mark.slow
def test_a_backup_of_an_earlier_release_is_restored_and_migrated(transactional_db, place: BackupPlace, tmp_path: Path):
    earlier, restored = tmp_path / "earlier", tmp_path / "restored"
    for folder in (earlier, restored):
        (folder / "artefacts").mkdir(parents=True)
        (folder / "artefacts" / artefacts.SENTINEL).write_bytes(artefacts.SENTINEL_TEXT)
    with earlier_board(earlier) as url:
        content = json.loads(manage(url, earlier, "backup", str(tmp_path / "backups"), "--json"))
    manifest = restoring.open_set(place, content["name"], None).manifest
    assert manifest.migrations[-1][1] < "0017"
    assert content["lost"] == manifest.rows["leaderboard_artefact"]
    with scratch_database(str(restored)) as url:
        answer = json.loads(manage(url, restored, "restore", str(tmp_path / "backups"), "--json"))
        assert answer["migrated"] >= 23
        assert len(answer["lost"]) == content["lost"]
        statement = "from leaderboard.models import *; print(Standing.objects.count(), Backup.objects.count())"
        counted = manage(url, restored, "shell", "--verbosity", "0", "--command", statement)
        assert counted.split() == [str(manifest.rows["leaderboard_standing"]), "1"]


@pytest.mark.slow
def test_age_and_gpg_encrypt_and_a_wrong_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own, other = (pyrage.x25519.Identity.generate() for _ in range(2))
    sealed = cipher_for([str(own.to_public())]).encrypt(b"texts")
    for name, key in (("own", own), ("other", other)):
        (tmp_path / name).write_text(str(key))
    assert cipher_called("age", tmp_path / "own").decrypt(sealed) == b"texts"
    with pytest.raises(WrongKey, match="no key of --identity decrypts the set"):
        cipher_called("age", tmp_path / "other").decrypt(sealed)
    (tmp_path / "public").write_text(str(own.to_public()))
    with pytest.raises(Refused, match="holds no line AGE-SECRET-KEY"):
        cipher_called("age", tmp_path / "public")
    with pytest.raises(Refused, match="age1nonsense: no public key of age"):
        cipher_for(["age1nonsense"])
    with pytest.raises(Refused, match="are keys of age and of GPG"):
        cipher_for([str(own.to_public()), "ada@example.org"])

    rings = {name: tmp_path / f"ring-{name}" for name in ("own", "other")}
    for name, ring in rings.items():
        ring.mkdir(mode=0o700)
        monkeypatch.setenv("GNUPGHOME", str(ring))
        arguments = ["--batch", "--quiet", "--passphrase", "", "--quick-gen-key", f"{name}@example.org"]
        subprocess.run(["gpg", *arguments, "future-default"], check=True, capture_output=True)
    try:
        with pytest.raises(WrongKey, match=r"nobody@example\.org: gpg cannot encrypt for it"):
            cipher_for(["nobody@example.org"])
        sealed = cipher_for(["other@example.org"]).encrypt(b"texts")
        assert cipher_called("gpg", None).decrypt(sealed) == b"texts"
        monkeypatch.setenv("GNUPGHOME", str(rings["own"]))
        with pytest.raises(WrongKey, match="no key in the keyring of this user decrypts the set"):
            cipher_called("gpg", None).decrypt(sealed)
    finally:
        for ring in rings.values():
            subprocess.run(["gpgconf", "--homedir", ring, "--kill", "all"], check=True)


def test_names_in_an_encrypted_set_do_not_follow_from_what_they_name(place: BackupPlace, settings, tmp_path: Path):
    settings.VAR = tmp_path
    sha256 = "5" * 64
    assert sets.SetWriter(place, Plain()).name_pieces(sha256, 6) == [sha256]
    assert not list(tmp_path.glob("*key*"))
    cipher = cipher_for([str(pyrage.x25519.Identity.generate().to_public())])
    names = sets.SetWriter(place, cipher).name_pieces(sha256, 6)
    assert sets.SetWriter(place, cipher).name_pieces(sha256, 6) == names, "a host copies nothing twice"
    (tmp_path / "backup_names_key").unlink()
    assert sets.SetWriter(place, cipher).name_pieces(sha256, 6) != names, "a secret of the host is in them"


def test_large_files_are_cut_into_pieces_and_come_back_whole(
    db, place: BackupPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sets, "PIECE", 1000)
    monkeypatch.setattr(making, "PIECE", 1000)
    content = os.urandom(2500)
    name = default_storage.save("submissions/large", ContentFile(content))
    writer = sets.SetWriter(place, Plain())
    copier = making.FileCopier(writer)
    copier.copy_upload(name)
    (file,) = copier.files
    assert (file.size, len(file.objects), writer.new_objects) == (2500, 3, 3)
    assert b"".join(sets.SetReader(place, Plain()).read_pieces(file)) == content
    default_storage.delete(name)


@pytest.fixture
def marked(db) -> Iterator[None]:
    """A board whose storage and database carry one mark."""
    artefacts.mark_storage()
    metric_of("rude", "profanity")
    storage_marks.write_marks()
    pulse("sweep")
    yield
    default_storage.delete(storage_marks.MARK)


def told_of_time() -> str:
    look()
    incident = Incident.objects.filter(key="files:time", resolved_at=None).first()
    return incident.summary if incident else ""


@pytest.mark.slow
def test_a_database_older_than_its_storage_is_told_until_somebody_says_that_it_is_meant_to_be(marked: None):
    assert told_of_time() == ""
    newest = Artefact.objects.latest("pk")
    metric = metric_of("ruder", "profanity")
    runs_on(metric)
    assert storage_marks.renew_mark()
    assert not storage_marks.renew_mark(), "nothing came since"
    own_mark = StorageMark.objects.get()
    later_runs = metric.protocol.runs.all()
    later_files = [run.artefact for run in later_runs]
    later_runs.delete()
    Artefact.objects.filter(pk__in=[file.pk for file in later_files]).delete()
    StorageMark.objects.update(number=own_mark.number - 1, newest=newest.sha256)
    sentence = told_of_time()
    assert sentence.startswith("The database is older than the storage")
    assert "files that the database does not know, the newest from" in sentence
    assert {file.storage_name for file in later_files} <= {file.name for file in storage_marks.unknown_files()}
    assert not storage_marks.renew_mark(), "the evidence stays"
    call_command("mark_storage", stdout=StringIO())
    assert told_of_time() == ""


def test_a_storage_older_than_its_database_is_told_with_what_is_missing(marked: None):
    with default_storage.open(storage_marks.MARK) as file:
        earlier_mark = file.read()
    metric = metric_of("ruder", "profanity")
    (file, *_) = [run.artefact for run in runs_on(metric)]
    assert storage_marks.renew_mark()
    Path(default_storage.path(storage_marks.MARK)).write_bytes(earlier_mark)
    path = Path(default_storage.path(file.storage_name))
    content = path.read_bytes()
    path.unlink()
    try:
        sentence = told_of_time()
    finally:
        path.write_bytes(content)
    assert sentence.startswith("The storage is older than the database")
    assert "came in between 1 are missing" in sentence


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"number": 7}', b"\xff"])
def test_a_damaged_mark_is_told_until_the_storage_is_marked_anew(marked: None, content: bytes):
    Path(default_storage.path(storage_marks.MARK)).write_bytes(content)
    sentence = told_of_time()
    assert re.match(r"The mark of the storage, .*plumbline-mark, is damaged.*run `manage.py mark_storage`", sentence)
    assert not storage_marks.renew_mark(), "the evidence stays"
    call_command("mark_storage", stdout=StringIO())
    assert told_of_time() == ""


def backup_incident() -> str:
    look()
    incident = Incident.objects.filter(kind="backup", resolved_at=None).first()
    return incident.summary if incident else ""


@pytest.mark.slow
def test_the_age_of_the_newest_backup_is_shown_measured_and_told_when_it_is_too_old(client, settings, db):
    pulse("sweep")
    client.force_login(User.objects.create_user("operator", is_staff=True))
    page = client.get(reverse("operate")).content.decode()
    assert "No backups are scheduled." in page
    assert backup_incident() == ""
    settings.BACKUP_SECONDS = 3600.0
    Release.objects.update_or_create(code="first", defaults={"installed_at": timezone.now() - timedelta(hours=3)})
    assert backup_incident().startswith("No backup was ever made")
    begun_at = timezone.now() - timedelta(minutes=30)
    backup = Backup.objects.create(
        name="20260101T000000000Z", target="/mnt/backups", begun_at=begun_at, finished_at=begun_at, files=3, size=2**20
    )
    assert backup_incident() == ""
    page = client.get(reverse("operate")).content.decode()
    assert "The newest is 30" in page
    assert "One is made every 1 h 0 min." in page
    assert "Nobody has restored it on trial yet" in page
    figures = client.get(reverse("prometheus")).content.decode()
    line = next(line for line in figures.splitlines() if line.startswith("plumbline_last_backup_timestamp_seconds "))
    assert float(line.split()[1]) == pytest.approx(begun_at.timestamp(), abs=0.01)
    assert "plumbline_backup_interval_seconds 3600.0" in figures
    failure = Backup.objects.create(name="2", target="/mnt/backups", begun_at=timezone.now(), problem="disk full")
    assert backup_incident().startswith("The last backup failed")
    assert "disk full" in client.get(reverse("operate")).content.decode()
    failure.delete()
    Backup.objects.filter(pk=backup.pk).update(begun_at=timezone.now() - timedelta(hours=5))
    assert describe_problem(timezone.now()).startswith("The newest backup is 5")
