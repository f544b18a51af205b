"""The form of a set: what is written is read again as it was, and what is wrong with it is said by name."""

import gzip
import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from leaderboard.models import Artefact, Backup
from leaderboard.operations.backups import records, restoring, sets
from leaderboard.operations.backups.encryption import Plain, WrongKey
from leaderboard.operations.backups.places import BackupPlace, open_place
from scoring.refusals import Refused

BEGUN = datetime(2026, 11, 1, 10, 5, tzinfo=UTC)
NAME = "20261101T100500000Z"
ENVELOPE = sets.Envelope(
    name=NAME,
    begun_at=BEGUN,
    finished_at=BEGUN + timedelta(minutes=3),
    board="https://board.example.org",
    code="1.0",
    vendor="sqlite",
    encryption="",
    files=2,
    size=300,
    copied=200,
    lost=1,
    manifest="ab" * 32,
    objects=("ab" * 32, "cd" * 32),
)


@pytest.fixture
def place(tmp_path: Path) -> BackupPlace:
    return open_place(str(tmp_path / "backups"))


def put(place: BackupPlace, number: int, **changes: object) -> sets.Envelope:
    """A whole set of that number, with an object that only it has and one that all have."""
    objects = (f"{number:02x}" * 32, "ff" * 32)
    envelope = replace(ENVELOPE, name=f"2026110{number}T100500000Z", objects=objects, **changes)
    for name in objects:
        place.write(sets.place_of(name), b"x")
    place.write(f"sets/{envelope.name}.json", envelope.to_json())
    return envelope


def test_an_envelope_and_a_manifest_are_read_as_they_were_written():
    assert sets.Envelope.from_json(ENVELOPE.to_json(), "x") == ENVELOPE
    assert json.loads(ENVELOPE.to_json()) == {
        "plumbline_backup": 1,
        "name": NAME,
        "begun_at": "2026-11-01T10:05:00+00:00",
        "finished_at": "2026-11-01T10:08:00+00:00",
        "board": "https://board.example.org",
        "code": "1.0",
        "vendor": "sqlite",
        "encryption": "",
        "files": 2,
        "size": 300,
        "copied": 200,
        "lost": 1,
        "manifest": "ab" * 32,
        "objects": ["ab" * 32, "cd" * 32],
    }
    block = sets.DatabaseBlock("a", 1, "b")
    manifest = sets.Manifest(
        migrations=(("app", "0001"), ("app", "0002")),
        rows={"table": 3},
        blocks=(block,),
        tables=(sets.TableCopy("table", ("id", "name"), {"id": (3, True)}, (block, block)),),
        files=(sets.FileCopy("ab/x", "c", 5, ("d", "e")),),
        lost={"ab/y": "missing"},
        absent=("ab/z",),
    )
    assert sets.Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"{", sets.DamagedSet, "sets/x.json is damaged"),
        (b"[]", sets.DamagedSet, "sets/x.json is damaged"),
        (b"{}", sets.DamagedSet, "sets/x.json is damaged .'plumbline_backup'.: use another set"),
        (b'{"plumbline_backup": 1, "begun_at": "x"}', sets.DamagedSet, "sets/x.json is damaged"),
        (b'{"plumbline_backup": 2}', Refused, "has a form that this release does not know"),
    ],
)
def test_an_envelope_that_is_damaged_or_of_a_later_release_says_which(content, error, words):
    with pytest.raises(error, match=words) as refusal:
        sets.Envelope.from_json(content, "sets/x.json")
    assert type(refusal.value) is error


def test_sets_are_listed_newest_first_and_one_that_became_whole_is_not_interrupted(place):
    first, second = put(place, 1), put(place, 2)
    for name in (second.name, "20261103T100500000Z", "20261104T100500000Z"):
        place.write(f"sets/{name}.begun", b"")
    place.write("sets/20261105T100500000Z.json", b"{")
    assert sets.set_names(place) == (
        ["20261105T100500000Z", second.name, first.name],
        ["20261103T100500000Z", "20261104T100500000Z"],
    )
    envelopes, damages = sets.list_sets(place)
    assert envelopes == [second, first]
    assert [str(damage).partition(" (")[0] for damage in damages] == ["sets/20261105T100500000Z.json is damaged"]
    assert sets.choose_set(place, first.name) == first
    with pytest.raises(Refused, match=f"{place.label} has no whole set 20261103T100500000Z"):
        sets.choose_set(place, "20261103T100500000Z")


def test_without_a_name_the_newest_set_is_chosen_and_else_the_place_says_what_it_holds(place):
    with pytest.raises(Refused, match=f"{place.label} holds no backup: give the place"):
        sets.choose_set(place, "")
    place.write("sets/20261103T100500000Z.begun", b"")
    with pytest.raises(Refused, match=r"holds only what was interrupted \(20261103T100500000Z\): give the place"):
        sets.choose_set(place, "")
    put(place, 1)
    second = put(place, 2)
    assert sets.choose_set(place, "") == second


def test_only_the_newest_set_says_whether_a_plain_one_may_follow(place):
    sets.refuse_plain_successor(place)
    put(place, 1, encryption="age")
    with pytest.raises(Refused, match=f"the newest set in {place.label} is encrypted by age, and this one would not"):
        sets.refuse_plain_successor(place)
    put(place, 2)
    sets.refuse_plain_successor(place)


def test_old_sets_go_with_their_objects_unless_a_set_is_being_written_or_one_is_damaged(place, tmp_path):
    envelopes = [put(place, number) for number in (1, 2, 3)]
    place.write("sets/20261109T100500000Z.begun", b"")
    assert sets.remove_old_sets(place, 1) == ([], 0)
    place.delete("sets/20261109T100500000Z.begun")
    place.write("sets/20261109T100500000Z.json", b"{")
    with pytest.raises(sets.DamagedSet, match=r"no older set is removed from .*20261109.* and delete that file"):
        sets.remove_old_sets(place, 1)
    assert len(sets.set_names(place)[0]) == 4
    place.delete("sets/20261109T100500000Z.json")
    assert sets.remove_old_sets(place, 2) == ([envelopes[0].name], 1)
    assert sets.list_sets(place)[0] == [envelopes[2], envelopes[1]]
    objects = {path.name for path in (tmp_path / "backups" / "objects").rglob("*") if path.is_file()}
    assert objects == {*envelopes[1].objects, *envelopes[2].objects}


def test_a_place_is_one_boards(place, settings):
    settings.SITE_URL = "https://board.example.org"
    sets.claim_place(place, "a")
    assert json.loads(place.read("sets/board")) == {"board": "a", "address": "https://board.example.org"}
    settings.SITE_URL = "https://moved.example.org"
    sets.claim_place(place, "a")
    assert json.loads(place.read("sets/board"))["address"] == "https://board.example.org"
    with pytest.raises(Refused, match=r"it holds the sets of another board, https://board.example.org: name a place"):
        sets.claim_place(place, "b")
    for content in (b"{", b"{}", b"[1]", b'{"board": "b"}'):
        place.write("sets/board", content)
        with pytest.raises(Refused, match=r"sets/board in .* is damaged .*delete sets/board in it and back up again"):
            sets.claim_place(place, "b")


def test_an_object_is_written_once_and_counted_once(place):
    writer = sets.SetWriter(place, Plain())
    writer.put("ab1", b"content")
    writer.put("ab1", b"content")
    assert (writer.objects, writer.new_objects, writer.copied) == ({"ab1"}, 1, 7)
    later = sets.SetWriter(place, Plain())
    assert (later.has("ab2"), later.has("cd1"), later.objects) == (False, False, set())
    later.put("ab1", b"content")
    assert (later.objects, later.new_objects, later.copied) == ({"ab1"}, 0, 0)
    block = later.put_block(b"rows of a table")
    assert block == sets.DatabaseBlock(hashlib.sha256(b"rows of a table").hexdigest(), 15, f"{block.sha256}.gz")
    assert gzip.decompress(place.read(sets.place_of(block.object))) == b"rows of a table"
    copied = later.copied
    assert later.put_block(b"rows of a table") == block
    assert (later.copied, later.new_objects) == (copied, 1)


@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 1), (2**23, 1), (2**23 + 1, 2), (2**24, 2), (2**24 + 1, 3)])
def test_a_file_has_as_many_pieces_as_it_needs_and_a_small_one_is_named_by_its_hash(place, size, count):
    names = sets.SetWriter(place, Plain()).name_pieces("f" * 64, size)
    assert names == (["f" * 64] if count == 1 else [f"{'f' * 64}-{number}" for number in range(count)])


class Locked(Plain):
    """A cipher with the wrong key."""

    def decrypt(self, content: bytes) -> bytes:
        raise WrongKey("no key decrypts it")


def test_an_object_that_is_missing_or_damaged_is_named(place):
    writer = sets.SetWriter(place, Plain())
    manifest = sets.Manifest((), {})
    envelope = replace(ENVELOPE, manifest=writer.put_manifest(manifest))
    reader = sets.SetReader(place, Plain())
    assert reader.read_manifest(envelope) == manifest
    block = writer.put_block(b"rows")
    assert reader.read_block(block) == b"rows"
    path = sets.place_of(block.object)
    for content, words in (
        (gzip.compress(b"other rows"), "is damaged: its bytes are not those that were put there"),
        (b"no gzip", "is damaged"),
        (gzip.compress(b"rows")[:-9], "is damaged"),
    ):
        place.write(path, content)
        with pytest.raises(sets.DamagedSet, match=f"{path} {words}"):
            reader.read_block(block)
    place.delete(path)
    with pytest.raises(sets.DamagedSet, match=f"{path} is missing in {place.label}"):
        reader.read_block(block)
    writer.put("aa1", b"one")
    writer.put("aa2", b"two")
    file = sets.FileCopy("ab/x", hashlib.sha256(b"onetwo").hexdigest(), 6, ("aa1", "aa2"))
    assert list(reader.read_pieces(file)) == [b"one", b"two"]
    with pytest.raises(sets.DamagedSet, match="ab/x: objects/aa/aa2, objects/aa/aa1 is damaged"):
        list(reader.read_pieces(replace(file, objects=("aa2", "aa1"))))
    locked = sets.SetReader(place, Locked())
    with pytest.raises(WrongKey):
        locked.read_manifest(envelope)


# What the board knows of its backups


@pytest.mark.django_db
def test_a_backup_is_noted_as_begun_and_then_with_what_it_holds(monkeypatch):
    with records.recording(NAME, "/mnt", "age", BEGUN) as note:
        row = Backup.objects.get(name=NAME)
        assert (row.target, row.encryption, row.begun_at, row.finished_at, row.problem) == (
            "/mnt",
            "age",
            BEGUN,
            None,
            "",
        )
        note(replace(ENVELOPE, encryption="age"))
    row.refresh_from_db()
    assert (row.target, row.encryption, row.begun_at, row.finished_at) == ("/mnt", "age", BEGUN, ENVELOPE.finished_at)
    assert (row.files, row.size, row.copied, row.problem) == (2, 300, 200, "")
    with pytest.raises(OSError, match="full"), records.recording(NAME, "/srv", "", BEGUN):
        raise OSError("full")
    row.refresh_from_db()
    assert (row.target, row.finished_at, row.problem) == ("/srv", None, "full")
    with pytest.raises(ValueError, match=r"^$"), records.recording(NAME, "/srv", "", BEGUN):
        raise ValueError
    row.refresh_from_db()
    assert row.problem == "ValueError"
    records.note_problem(NAME, "older ones stayed")
    records.note_verified("another")
    row.refresh_from_db()
    assert (row.problem, row.verified_at) == ("older ones stayed", None)
    records.note_verified(NAME)
    row.refresh_from_db()
    assert timezone.now() - row.verified_at < timedelta(minutes=1)


@pytest.mark.django_db
def test_an_attempt_is_noted_unless_its_set_was_and_the_oldest_records_go(monkeypatch):
    monkeypatch.setattr(records, "MOST_RECORDS", 2)
    for number in range(3):
        with records.recording(f"set {number}", "/mnt", "", BEGUN + timedelta(days=number)) as note:
            note(replace(ENVELOPE, name=f"set {number}", begun_at=BEGUN + timedelta(days=number)))
    assert list(Backup.objects.order_by("begun_at").values_list("name", flat=True)) == ["set 1", "set 2"]
    records.note_attempt("/srv", BEGUN + timedelta(days=2), OSError("full"))
    assert Backup.objects.count() == 2, "its own record says why"
    records.note_attempt("/srv", BEGUN + timedelta(days=2, seconds=1), OSError("full"))
    records.note_attempt("/srv", BEGUN + timedelta(days=3), ValueError())
    assert list(Backup.objects.filter(name="none").values_list("target", "begun_at", "problem")) == [
        ("/srv", BEGUN + timedelta(days=3), "ValueError")
    ]


@pytest.mark.django_db
def test_files_that_the_database_mentions_and_the_set_does_not_have_stop_a_restore():
    for number in range(7):
        Artefact.objects.create(sha256=f"{number}" * 64, kind="file", size=1, rows=0, schema_version=1)
    names = sorted(artefact.storage_name for artefact in Artefact.objects.all())
    file = sets.FileCopy(names[0], "0" * 64, 1, ())
    manifest = sets.Manifest((), {}, files=(file,), lost={names[1]: "missing", "gone": "damaged"}, absent=(names[2],))
    with pytest.raises(Refused) as refusal:
        restoring.check_files(manifest)
    assert str(refusal.value).startswith(
        f"the database of the set mentions 4 files that the set does not have, such as {', '.join(names[3:])}. Restore"
    )
    Artefact.objects.filter(sha256__in=[name[-64:] for name in names[3:]]).delete()
    assert restoring.check_files(manifest) == tuple(sorted((names[1], "gone")))
    assert [records.state_of_artefact(sha256) for sha256 in ("0" * 64, "9" * 64)] == ["whole", None]
    assert not records.mentions_upload("submissions/x")
