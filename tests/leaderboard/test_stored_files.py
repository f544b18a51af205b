"""Files on the storage are what was measured, or they are marked and not used."""

import os
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.urls import reverse

from leaderboard import tasks
from leaderboard.models import (
    Artefact,
    AuditEvent,
    Incident,
    LanguageModel,
    MetricVersion,
    Protocol,
    Result,
    Run,
    Scoring,
    Standing,
    Work,
)
from leaderboard.operations import alerts
from leaderboard.operations.alerts import machinery
from leaderboard.operations.services import restore, scrub
from leaderboard.services import artefacts, collect
from leaderboard.services.artefacts import SENTINEL, ArtefactLost
from leaderboard.services.publish import Unread, publish_standings
from leaderboard.services.verify import verify
from leaderboard.storage import StorageAway, marks
from leaderboard.storage import folder as stored_folder
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _whole_again():
    """What a test takes away or damages is there again for the next one: the storage is not rolled back."""
    kept: dict[Path, bytes] = {}
    yield kept
    for path, content in kept.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def path_of(_whole_again):
    def path(artefact: Artefact) -> Path:
        found = Path(default_storage.path(artefact.storage_name))
        _whole_again.setdefault(found, found.read_bytes())
        return found

    return path


@pytest.fixture
def away(_whole_again):
    """The storage as an empty mount point looks."""
    sentinel = Path(default_storage.path(SENTINEL))
    _whole_again[sentinel] = sentinel.read_bytes()
    sentinel.unlink()


@pytest.fixture
def operator_client(client):
    operator = User.objects.create_user("operator", is_staff=True)
    client.force_login(operator)
    return client


@pytest.fixture
def scoring(measured_board) -> Scoring:
    return Scoring.objects.select_related("run__artefact", "artefact", "metric_version").get(
        model__name=CAUSAL, metric_version__metric=measured_board
    )


def flip(path: Path, place: int) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.slow
def test_no_flipped_bit_is_read(scoring, path_of):
    path = path_of(scoring.artefact)
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 400)):
        flip(path, place)
        with pytest.raises(ArtefactLost, match="its bytes have the sha256"):
            artefacts.load(scoring.artefact)
        path.write_bytes(content)
    artefacts.load(scoring.artefact)
    scoring.artefact.refresh_from_db()
    assert scoring.artefact.state == Artefact.State.WHOLE


def test_a_file_is_hashed_once_a_host_until_it_changes(scoring, path_of, monkeypatch):
    hashed = []
    digest = artefacts.digest
    monkeypatch.setattr(artefacts, "digest", lambda file: hashed.append(1) or digest(file))
    marks.forget_checked(str(path_of(scoring.artefact)))
    for _ in range(3):
        monkeypatch.setattr(marks, "_checked", {})  # as in another process of this host
        artefacts.load(scoring.artefact)
    assert hashed == [1]
    os.utime(path_of(scoring.artefact))
    artefacts.load(scoring.artefact)
    assert hashed == [1, 1]


@pytest.mark.slow
def test_a_lost_file_is_marked_everywhere_handed_out_nowhere_and_told(client, scoring, path_of):
    outputs = scoring.run.artefact
    address = reverse("artefact", args=[outputs.sha256])
    handed_out = client.get(address)
    assert (handed_out.status_code, len(handed_out.getvalue())) == (200, outputs.size)
    flip(path_of(outputs), 99)
    assert client.get(address).status_code == 404
    scoring.refresh_from_db()
    assert scoring.lost_files == "the model's outputs: damaged"
    assert AuditEvent.objects.filter(verb="change state of file", subject=f"artefact {outputs.sha256}").count() == 1

    metric = scoring.metric_version.metric
    ranking = client.get(f"{reverse('rankings')}?metric={metric.slug}").content.decode()
    assert "Files behind this number are damaged" in ranking
    pages = [metric.get_absolute_url(), scoring.model.get_absolute_url()]
    pages += map(reverse, ("rankings", "history", "demographics", "compare", "agreement"))
    for page in pages:
        assert "Files lost." in client.get(page, follow=True).content.decode(), page
    told = client.get(f"/api/v1/models/{scoring.model.slug}/results").json()["items"]
    assert {row["lost_files"] for row in told} == {scoring.lost_files}
    ranked = client.get(f"/api/v1/metrics/{metric.slug}/standings").json()["items"]
    assert {row["slug"]: row["lost_files"] for row in ranked}[scoring.model.slug] == scoring.lost_files
    assert [row["lost_files"] for row in ranked].count("") == len(ranked) - 1

    alerts.look()
    incident = Incident.objects.get(kind=Incident.Kind.FILES)
    assert outputs.sha256 in incident.summary
    assert f"{scoring.model.slug} in {metric.slug}" in incident.summary


@pytest.mark.slow
def test_a_file_that_is_back_is_whole_again_and_the_incident_over(scoring, path_of):
    path = path_of(scoring.artefact)
    content = path.read_bytes()
    path.unlink()
    with pytest.raises(ArtefactLost, match="is not there"):
        artefacts.load(scoring.artefact)
    alerts.look()
    assert Incident.objects.filter(kind=Incident.Kind.FILES, resolved_at=None).exists()
    path.write_bytes(content)
    assert scrub.look_at(scoring.artefact)
    scoring.refresh_from_db()
    assert (scoring.lost_files, scoring.artefact.state) == ("", Artefact.State.WHOLE)
    version = MetricVersion.objects.get(pk=scoring.metric_version_id)
    assert version.ranges_due, "what was kept while the file was lost is made anew"
    waiting = verify(version.metric)
    assert waiting.differences == []
    assert any("ranges of ranks, which the next watch makes anew" in line for line in waiting.not_recomputed)
    tasks.watch()
    version.refresh_from_db()
    assert not version.ranges_due
    alerts.look()
    assert not Incident.objects.filter(kind=Incident.Kind.FILES, resolved_at=None).exists()


def test_all_files_are_read_within_a_week(scoring, path_of):
    flip(path_of(scoring.artefact), 50)
    total = Artefact.objects.count()
    nights = [scrub.scrub() for _ in range(scrub.NIGHTS)]
    assert sum(read for read, _ in nights) >= total
    assert sum(lost for _, lost in nights) == 1
    assert not Artefact.objects.filter(checked_at=None).exists()
    assert list(scrub.lost_files()) == [scoring.artefact]


def test_a_file_that_is_deliberately_absent_is_not_looked_for(scoring, path_of, monkeypatch):
    monkeypatch.setattr(scrub, "NIGHTS", 1)
    path_of(scoring.artefact).unlink()
    Artefact.objects.filter(pk=scoring.artefact.pk).update(state=Artefact.State.ABSENT)
    assert scrub.scrub() == (Artefact.objects.count() - 1, 0)


def test_a_night_ends_with_its_slice_and_the_next_goes_on(scoring, settings, monkeypatch):
    monkeypatch.setattr(scrub, "NIGHTS", 1)
    settings.SLICE_SECONDS = 1e-9
    assert scrub.scrub() == scrub.scrub() == (1, 0)
    assert Artefact.objects.exclude(checked_at=None).count() == 2


@pytest.mark.usefixtures("away")
def test_a_storage_that_is_away_loses_no_file_and_takes_none(scoring, path_of, client, tmp_path):
    path_of(scoring.artefact).unlink()
    (tmp_path / "fresh").write_bytes(b"made meanwhile")
    with pytest.raises(StorageAway):
        artefacts.store_file(tmp_path / "fresh")
    with pytest.raises(StorageAway):
        artefacts.move_in(tmp_path / "fresh", "shards/fresh")
    assert not default_storage.exists("shards/fresh"), "it would lie below the mount point"
    with pytest.raises(StorageAway, match="mark_storage"):
        artefacts.load(scoring.artefact)
    with pytest.raises(StorageAway):
        artefacts.is_stored(scoring.artefact)
    with pytest.raises(StorageAway):
        scrub.scrub()
    assert not Artefact.objects.exclude(state=Artefact.State.WHOLE).exists()
    storage = client.get(reverse("readyz")).json()["checks"]["storage"]
    assert storage == f"away: its file {SENTINEL} cannot be read; mount the storage"
    assert not default_storage.exists(SENTINEL)
    call_command("mark_storage")
    artefacts.require_storage()


@pytest.mark.slow
def test_lost_outputs_are_collected_again_by_a_button(
    operator_client, scoring, path_of, django_capture_on_commit_callbacks
):
    outputs = scoring.run.artefact
    path = path_of(outputs)
    content = path.read_bytes()
    path.unlink()
    assert not scrub.look_at(outputs)
    page = operator_client.get(reverse("operate_files")).content.decode()
    button = reverse("steer_file", args=[outputs.sha256, "collect"])
    assert button in page
    assert operator_client.get(reverse("steer_file", args=[outputs.sha256, "polish"])).status_code == 404
    with django_capture_on_commit_callbacks():
        assert operator_client.post(button).status_code == 302
    again = Run.objects.get(model=scoring.model, state=Work.State.QUEUED)
    collect.collect(again)
    again.refresh_from_db()
    assert (again.state, again.artefact) == (Work.State.DONE, outputs)
    assert path.read_bytes() == content
    scoring.refresh_from_db()
    assert scoring.lost_files == ""


def test_outputs_differ_once_the_same_model_has_given_others(scoring):
    lost_run, outputs = scoring.run, scoring.run.artefact
    other = Run.objects.exclude(model=lost_run.model).filter(protocol=lost_run.protocol).first()
    values = {"protocol": lost_run.protocol, "epoch": lost_run.epoch + 1, "artefact": other.artefact}
    Run.objects.create(model=other.model, state=Work.State.DONE, **values)
    assert not restore.differs(outputs)
    later = Run.objects.create(model=lost_run.model, **values)
    assert not restore.differs(outputs), "they are not collected yet"
    Run.objects.filter(pk=later.pk).update(state=Work.State.DONE)
    assert restore.differs(outputs)


@pytest.mark.parametrize(("most", "words"), [(2, "{} and others rest on it."), (3, "{} rest on it.")])
def test_an_incident_of_a_lost_file_names_some_entries_that_rest_on_it(scoring, monkeypatch, most, words):
    monkeypatch.setattr(machinery, "MOST_NAMED", most)
    texts = scoring.run.protocol.evaluation_set.artefact
    Artefact.objects.filter(pk=texts.pk).update(state=Artefact.State.DAMAGED)
    (finding,) = machinery.lost_files()
    entries = finding.summary.partition("The numbers of ")[2].partition(" and others")[0].removesuffix(" rest on it.")
    assert len(entries.split(", ")) == most
    assert finding.summary.endswith(words.format(entries))
    assert finding.summary.startswith(f"The stored file {texts.sha256} (")


def test_many_lost_files_are_one_incident(db, django_assert_num_queries):
    def lose(number: int) -> None:
        Artefact.objects.create(
            sha256=f"{number:064x}", kind="values", rows=1, size=1, schema_version=1, state=Artefact.State.MISSING
        )

    for number in range(machinery.MOST_LOST):
        lose(number)
    assert len(list(machinery.lost_files())) == machinery.MOST_LOST
    lose(machinery.MOST_LOST)
    with django_assert_num_queries(1):
        (finding,) = machinery.lost_files()
    assert finding.summary.startswith("11 stored files are damaged or missing")


def test_lost_values_are_computed_again_from_the_outputs(scoring, path_of):
    path = path_of(scoring.artefact)
    content = path.read_bytes()
    flip(path, 77)
    assert not scrub.look_at(scoring.artefact)
    assert restore.restore(scoring.artefact)
    assert path.read_bytes() == content


def test_lost_outputs_are_collected_by_the_next_run_of_their_own_protocol(scoring):
    run = scoring.run
    protocol = Protocol.objects.get(pk=run.protocol_id)
    protocol.pk, protocol.parameters = None, {**protocol.parameters, "other": True}
    protocol.save()
    Run.objects.create(model=run.model, protocol=protocol, epoch=run.epoch + 5)
    restore.request_restoration(run.artefact)
    assert Run.objects.filter(model=run.model, protocol=run.protocol).latest("pk").epoch == run.epoch + 1


def test_a_second_request_finds_the_run_of_the_first_and_each_is_sent_and_on_record(
    scoring, monkeypatch, django_capture_on_commit_callbacks
):
    runs, files = [], []
    monkeypatch.setattr(restore, "enqueue", runs.append)
    monkeypatch.setattr(restore, "ask_for_file", files.append)
    outputs, values, user = scoring.run.artefact, scoring.artefact, User.objects.create_user("olga")
    own_runs = Run.objects.filter(model=scoring.model, protocol=scoring.run.protocol)

    def request(artefact: Artefact) -> str:
        with django_capture_on_commit_callbacks(execute=True):
            return restore.request_restoration(artefact, user)

    words = f"The outputs of {scoring.model.name} are collected again, by run"
    first = request(outputs)
    again = own_runs.latest("epoch")
    assert first == request(outputs) == f"{words} {again.pk}."
    assert (own_runs.count(), again.epoch, again.state) == (2, scoring.run.epoch + 1, Work.State.QUEUED)
    own_runs.filter(pk=again.pk).update(state="failed", reason="no memory")
    assert request(outputs) == f"{words} {own_runs.latest('epoch').pk}."
    assert own_runs.latest("epoch").epoch == again.epoch + 1
    assert request(values) == f"The values of {scoring} are computed again."
    assert (runs, files) == ([again, again, own_runs.latest("epoch")], [values])
    events = AuditEvent.objects.filter(verb="collect file again").order_by("pk")
    assert [(event.subject, event.actor, event.detail) for event in events] == [
        (f"artefact {artefact.sha256}", user, {"model": scoring.model.slug})
        for artefact in (outputs, outputs, outputs, values)
    ]


def test_outputs_are_collected_by_a_run_and_only_where_their_model_may_be_run(scoring):
    outputs = scoring.run.artefact
    with pytest.raises(Refused, match=f"the file {outputs.storage_name} holds outputs: a run collects them"):
        restore.restore(outputs)
    assert (restore.can_restore(outputs), restore.can_restore(scoring.artefact)) == (True, True)
    LanguageModel.objects.filter(pk=scoring.model_id).update(access="restricted")
    with pytest.raises(
        Refused, match=f"the outputs of {CAUSAL} cannot be collected again: its weights are not at hand"
    ):
        restore.request_restoration(outputs)
    assert (restore.can_restore(outputs), restore.can_restore(scoring.artefact)) == (False, True)


def test_the_page_of_lost_files_says_what_rests_on_each_and_looks_again(operator_client, scoring):
    lost, values = scoring.run.artefact, scoring.artefact
    for artefact, state in ((lost, "damaged"), (values, "missing")):
        Artefact.objects.filter(pk=artefact.pk).update(state=state)
    Artefact.objects.create(sha256="0" * 64, kind="file", rows=0, size=1, schema_version=1, state="absent")
    LanguageModel.objects.filter(pk=scoring.model_id).update(access="restricted")
    context = operator_client.get(reverse("operate_files")).context
    rows = {row["file"]: (row["entries"], row["restorable"], row["differs"]) for row in context["rows"]}
    assert rows == {lost: ([scoring], False, False), values: ([scoring], True, False)}
    assert context["absent"] == 1
    address = reverse("steer_file", args=[lost.sha256, "look"])
    html = operator_client.get(address).content.decode()
    assert f"it lies at {lost.storage_name} on the storage" in html
    assert set(scrub.lost_files()) == {lost, values}, "reading the question does nothing"
    html = operator_client.post(address, follow=True).content.decode()
    assert f"The file {lost.sha256[:12]} is whole." in html
    assert list(scrub.lost_files()) == [values]
    lost.refresh_from_db()
    assert lost.checked_at is not None


def test_what_is_made_of_nothing_here_is_not_collected(scoring):
    texts = scoring.run.protocol.evaluation_set.artefact
    assert not restore.can_restore(texts)
    with pytest.raises(Refused, match="from a backup"):
        restore.request_restoration(texts)


OF_A_VERSION = {Scoring: "metric_version", Result: "scoring__metric_version", Standing: "metric_version"}


@pytest.mark.slow
def test_files_that_are_deliberately_absent_are_no_difference(scoring, path_of):
    before = verify(scoring.metric_version.metric)
    assert (before.differences, before.absent) == ([], 0)
    counts = [table.objects.filter(**{key: scoring.metric_version}).count() for table, key in OF_A_VERSION.items()]
    assert [before.entries, before.results, before.standings] == counts
    for artefact in (scoring.artefact, scoring.run.artefact):
        path_of(artefact).unlink()
        Artefact.objects.filter(pk=artefact.pk).update(state=Artefact.State.ABSENT)
    after = verify(scoring.metric_version.metric)
    assert (after.differences, after.absent) == ([], 2)
    assert any("1 entries, whose files are deliberately not kept here" in line for line in after.not_recomputed)
    ranks = f"{scoring.metric_version}: ranks, whose files are deliberately not kept here"
    assert [line.startswith(ranks) for line in after.not_recomputed].count(True) == 1
    Artefact.objects.filter(pk=scoring.artefact.pk).update(state=Artefact.State.WHOLE)
    assert any("is not there" in str(found) for found in verify(scoring.metric_version.metric).differences)


def test_a_full_disk_leaves_no_temporary_file(scoring, tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(b"x" * 100)
    folder = Path(default_storage.path("full"))

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        artefacts.move_in(source, "full/file")
    assert list(folder.iterdir()) == []


def test_a_file_is_whole_when_it_is_flushed_to_the_disk(monkeypatch):
    sizes, flush = [], os.fsync

    def note_size(descriptor):
        sizes.append(os.fstat(descriptor).st_size)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note_size)
    default_storage.save("whole/file", ContentFile(b"x" * 100))
    assert sizes[0] == 100


def test_a_rename_is_made_to_last(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    synced = []
    monkeypatch.setattr(stored_folder, "sync_folder", synced.append)
    artefacts.move_in(source, "lasting/file")
    assert synced == [Path(default_storage.path("lasting"))]


def test_numbers_of_an_entry_with_lost_files_stay_ranked_as_they_were(scoring, path_of):
    before = set(Standing.objects.filter(metric_version=scoring.metric_version).values_list("model", "rank", "value"))
    path_of(scoring.artefact).unlink()
    assert not scrub.look_at(scoring.artefact)
    after = set(Standing.objects.filter(metric_version=scoring.metric_version).values_list("model", "rank", "value"))
    assert after == before


def test_ranges_stay_as_they_were_where_the_texts_are_lost(scoring, path_of):
    version = scoring.metric_version
    ranks = Standing.objects.filter(metric_version=version).order_by("measure", "slice", "population", "model")
    columns = ("measure", "slice", "population", "model", "rank", "rank_low", "rank_high")
    rows = list(ranks.values_list(*columns))
    path_of(version.protocol.evaluation_set.artefact).unlink()
    publish_standings(version)
    assert list(ranks.values_list(*columns)) == rows
    assert any(rank_low for *_, rank_low, _ in rows)


@pytest.mark.slow
def test_random_texts_are_taken_through_their_models_again(scoring):
    metric = scoring.metric_version.metric
    verification = verify(metric, sample_size=4)
    assert (verification.differences, verification.recollected) == ([], 12)  # of three models
    other = Run.objects.exclude(model=scoring.model).filter(protocol=scoring.run.protocol).first()
    Run.objects.filter(pk=scoring.run_id).update(artefact=other.artefact)  # whole files, of another model
    verification = verify(metric, sample_size=4)
    told = [difference.what for difference in verification.differences if difference.entry == scoring.model.slug]
    # One text in some hundreds has the same perplexity under two models, within the tolerance; two of four have not.
    assert sum("the model gives" in what for what in told) in (3, 4)


@pytest.mark.slow
def test_a_model_that_is_not_at_hand_is_named_and_no_difference(scoring):
    LanguageModel.objects.filter(pk=scoring.model_id).update(source=LanguageModel.Source.UPLOADED)
    verification = verify(scoring.metric_version.metric, sample_size=2)
    assert (verification.differences, verification.recollected) == ([], 4)
    assert any(f"the model {scoring.model.slug} is not at hand" in line for line in verification.not_recomputed)


def test_only_entries_without_a_published_rank_are_left_out_when_their_file_is_lost():
    scorings = [Scoring(model_id=number) for number in (7, 8, 9)]
    reasons = {0: "its file is lost", 1: "its file is lost", 2: ""}
    assert Unread(reasons, {("mean", "all", "all"): {7: (1, 2)}}).left_out(scorings) == [1]


def test_a_copy_that_arrives_in_part_is_refused_and_the_stored_file_stays_whole(scoring, tmp_path, monkeypatch):
    pieces = artefacts._pieces
    monkeypatch.setattr(artefacts, "_pieces", lambda *words: iter([next(pieces(*words))[:-1]]))
    with pytest.raises(StorageAway, match="did not arrive whole"):
        artefacts.copy_to(scoring.artefact, tmp_path / "copy")
    scoring.artefact.refresh_from_db()
    assert scoring.artefact.state == Artefact.State.WHOLE


@pytest.mark.parametrize(("mismatch", "count"), [("", 3), ("The storage is older than the database.", 0)])
def test_a_board_clears_no_files_beside_a_storage_of_another_time(db, monkeypatch, mismatch, count):
    cleared_kinds = []
    monkeypatch.setattr(tasks.storage_marks, "find_mismatch", lambda: mismatch)
    monkeypatch.setattr(tasks.shards, "remove_stale", lambda: cleared_kinds.append("checkpoints"))
    monkeypatch.setattr(tasks.uploads, "remove_unreferenced", lambda: cleared_kinds.append("uploads"))
    monkeypatch.setattr(tasks.reading, "forget_refused_uploads", lambda: cleared_kinds.append("refused uploads"))
    tasks.clear_storage()
    assert len(cleared_kinds) == count
