"""The parts of an export: which rows are in it, how its files are described, and what a value must be to come in."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.conf import settings as site
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.db import transaction
from django.utils import timezone

from leaderboard.exchange import downloads
from leaderboard.exchange.downloads import BoardExport, find_newest_export, is_due, list_exports, state_of_board
from leaderboard.exchange.export import (
    FORMAT,
    describe_artefact_file,
    describe_package,
    licence_texts,
    list_papers,
    write_folder,
    write_zip,
)
from leaderboard.exchange.load import ColumnCheck, check_card, describe_key, import_package, self_dated
from leaderboard.exchange.package import MOST_BYTES, copy_part, open_package, read_package, show
from leaderboard.exchange.tables import BY_NAME, TABLES, public_detail
from leaderboard.models import (
    Artefact,
    AuditEvent,
    AuditVerb,
    Calibration,
    ControlCheck,
    ControlSet,
    EntryCheck,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    ModelIdentity,
    OutdatedEntry,
    Rescoring,
    Result,
    Run,
    Scoring,
    Standing,
)
from leaderboard.services.audit import record
from leaderboard.services.build import code
from leaderboard.storage import board_storage
from scoring.refusals import Refused
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_export import edit

LARGEST_SHORT, LARGEST_LONG = 2**31 - 1, 2**63 - 1


@pytest.fixture
def rude(db):
    """Four models under one scorer: a published version, with all that can belong to it."""
    metric = metric_of("rude", "profanity")
    scorings = score_all(version_of(metric, "one"), runs_on(metric), {"profanity": lambda x: x})
    add_belongings(metric.versions.get(), scorings[0])
    return metric


def add_belongings(version: MetricVersion, scoring: Scoring) -> None:
    """A control set with a check, a calibration, an entry that stood out, and one that is outdated."""
    number = version.number
    frozen = file_of(f"a{number}")
    control_set = ControlSet.objects.create(
        metric_version=version, items=frozen, reference=frozen, noise=0.0, check_version=1, fingerprint=64 * "1"
    )
    ControlCheck.objects.create(
        metric=version.metric,
        control_set=control_set,
        trigger="manual",
        state="done",
        verdict="stable",
        artefact=file_of(f"b{number}"),
    )
    Calibration.objects.create(
        metric_version=version,
        evaluation_set=version.protocol.evaluation_set,
        state="done",
        fingerprint=64 * "2",
        artefact=file_of(f"c{number}"),
    )
    flags = [{"key": "far", "words": "It is far above others."}]
    EntryCheck.objects.create(scoring=scoring, flags=flags, state="marked")
    OutdatedEntry.objects.create(
        metric_version=version,
        model=LanguageModel.objects.get(slug="damson"),
        last_scoring=scoring,
        reason="it is lost",
    )


def file_of(digits: str) -> Artefact:
    """A file that is not stored here, by the start of its hash."""
    return Artefact.objects.create(
        sha256=digits.ljust(64, "0"), kind="scores", rows=1, size=1, schema_version=1, state="absent"
    )


def read_keys() -> dict[str, list[object]]:
    """The database keys of the rows that an export would hold, by table."""
    return {table.name: sorted(table.rows().values_list("pk", flat=True)) for table in TABLES}


# Which rows


def test_rows_of_a_version_that_is_not_published_are_in_no_table(rude):
    before = read_keys()
    run = Run.objects.get(model__slug="alder")
    other_run = Run.objects.create(
        model=run.model, protocol=run.protocol, epoch=2, state="done", artefact=file_of("e"), environment={}
    )
    candidate = version_of(rude, "two")
    scoring = Scoring.objects.create(
        run=other_run,
        model=run.model,
        metric_version=candidate,
        state="done",
        artefact=file_of("f"),
        replicates=file_of("d"),
        scored_at=timezone.now(),
    )
    result = Result.objects.create(scoring=scoring, measure="toxic_fraction", slice="profanity:all", value=0.5, n=3)
    Standing.objects.create(
        metric_version=candidate,
        measure="toxic_fraction",
        slice="profanity:all",
        model=run.model,
        result=result,
        rank=1,
        value=0.5,
    )
    add_belongings(candidate, scoring)
    ended = {"metric": rude, "reason": "to see", "state": "cancelled"}
    Rescoring.objects.create(from_version=rude.versions.get(number=1), to_version=candidate, **ended)
    Rescoring.objects.create(from_version=candidate, to_version=rude.versions.get(number=1), **ended)
    assert read_keys() == before
    MetricVersion.objects.filter(pk=candidate.pk).update(published_at=timezone.now())
    added = {name: len(keys) - len(before[name]) for name, keys in read_keys().items() if keys != before[name]}
    assert added == {
        **{"artefacts": 6, "versions": 1, "runs": 1, "scorings": 1, "entry_checks": 1, "results": 1, "standings": 1},
        **{"outdated": 1, "control_sets": 1, "checks": 1, "calibrations": 1, "rescorings": 2},
    }


def test_a_version_that_was_given_up_is_exported_without_numbers(rude):
    before = read_keys()
    given_up = version_of(rude, "two")
    MetricVersion.objects.filter(pk=given_up.pk).update(status="retired")
    Scoring.objects.create(
        run=Run.objects.get(model__slug="alder"),
        model=LanguageModel.objects.get(slug="alder"),
        metric_version=given_up,
        state="done",
        artefact=file_of("f"),
        replicates=file_of("d"),
        scored_at=timezone.now(),
    )
    assert read_keys() == before | {"versions": [*before["versions"], given_up.pk]}


def test_work_that_has_not_ended_is_in_no_table(rude):
    version = rude.versions.get()
    before = read_keys()
    model = LanguageModel.objects.create(slug="elm", name="Elm", kind="causal", source="uploaded")
    before["models"].append(model.pk)
    run = Run.objects.create(model=model, protocol=rude.protocol, state="queued")
    Scoring.objects.create(run=run, model=model, metric_version=version, state="queued")
    ControlCheck.objects.create(metric=rude, control_set=version.control_set, trigger="manual", state="queued")
    texts = EvaluationSet.objects.create(slug="others", version="1", title="Others", kind="labelled_texts")
    before["evaluation_sets"].append(texts.pk)
    Calibration.objects.create(metric_version=version, evaluation_set=texts, state="queued")
    retired = version_of(rude, "two")
    MetricVersion.objects.filter(pk=retired.pk).update(status="retired")
    before["versions"].append(retired.pk)
    Rescoring.objects.create(metric=rude, from_version=version, to_version=retired, reason="to see", state="running")
    assert read_keys() == before


def test_what_is_of_a_hidden_model_or_held_back_is_in_no_table(rude):
    alder, birch = (Scoring.objects.get(model__slug=slug) for slug in ("alder", "birch"))
    identity = ModelIdentity.objects.create(slug="alder-model", name="Alder")
    LanguageModel.objects.filter(slug="alder").update(identity=identity)
    ModelIdentity.objects.create(slug="nobody", name="Nobody")
    assert [row.slug for row in BY_NAME["identities"].rows()] == ["alder-model"]
    LanguageModel.objects.filter(slug="alder").update(hidden_note="its owner disputes it")
    EntryCheck.objects.create(scoring=birch, flags=[{"key": "far", "words": "It is far."}], state="held")
    slugs = ["cedar", "damson"]
    assert not BY_NAME["identities"].rows()
    assert sorted(row.slug for row in BY_NAME["models"].rows()) == ["birch", *slugs]
    assert sorted(row.model.slug for row in BY_NAME["scorings"].rows()) == slugs
    assert {row.scoring.model.slug for row in BY_NAME["results"].rows()} == set(slugs)
    assert sorted(row.model.slug for row in BY_NAME["runs"].rows()) == slugs
    assert "alder" not in {row.model.slug for row in BY_NAME["standings"].rows()}
    assert not BY_NAME["entry_checks"].rows()
    assert not BY_NAME["outdated"].rows(), "its last numbers are the hidden model's"
    hashes = {row.sha256 for row in BY_NAME["artefacts"].rows()}
    assert not hashes & {alder.artefact.sha256, birch.artefact.sha256, alder.run.artefact.sha256}


def test_every_file_that_a_row_refers_to_is_in_the_table_of_files(rude):
    version = rude.versions.get()
    places = ("artefact", "prompt_scores", "continuations", "continuation_scores")
    files = {name: file_of(f"{number}9") for number, name in enumerate(places)}
    texts = EvaluationSet.objects.create(slug="others", version="1", title="Others", kind="prompts", **files)
    MetricVersion.objects.filter(pk=version.pk).update(prompt_scores=file_of("8"))
    file_of("7")  # which nothing refers to
    digits = {row.sha256.rstrip("0") for row in BY_NAME["artefacts"].rows()}
    assert {"09", "19", "29", "39", "8", "a1", "b1", "c1"} <= digits
    assert "7" not in digits
    scoring = Scoring.objects.filter(metric_version=version).first()
    named = {scoring.artefact.sha256, scoring.replicates.sha256, scoring.run.artefact.sha256}
    assert named <= {row.sha256 for row in BY_NAME["artefacts"].rows()}
    assert texts in BY_NAME["evaluation_sets"].rows()


def test_only_folders_and_addresses_of_the_operator_are_replaced(db):
    for source, location in (
        ("hub", "plumb/oak"),
        ("bundled", "oak-bundled"),
        ("local", "/srv/models/oak"),
        ("server", "http://10.0.0.8/v1#oak"),
        ("uploaded", ""),
    ):
        LanguageModel.objects.create(
            slug=f"oak-{source}", name="Oak", kind="causal", source=source, location=location, revision="1"
        )
    assert dict(BY_NAME["models"].rows().values_list("source", "place")) == {
        "hub": "plumb/oak",
        "bundled": "oak-bundled",
        "local": "elsewhere:oak-local",
        "server": "elsewhere:oak-server",
        "uploaded": "",
    }


def test_the_log_tells_whether_a_person_did_it_and_leaves_out_what_is_not_public(db):
    person = User.objects.create_user("olga")
    for slug in ("alder", "birch"):
        LanguageModel.objects.create(
            slug=slug, name=slug, kind="causal", source="uploaded", hidden_note="it is disputed" * (slug == "alder")
        )
    public = AuditVerb.WITHDRAW_MODEL
    record(public, "model birch", {"reason": "by a person"}, person)
    record(public, "model birch", {"reason": "by the board"})
    record(public, "model birch", {"reason": "by a person of another board", "by_operator": True})
    record(public, "model birch", {"reason": "by another board", "by_operator": False})
    record(public, "model alder", {"reason": "of a hidden one"}, person)
    record(AuditVerb.HOLD_ENTRY_BACK, "metric rude", {"model": "alder", "reason": "of a hidden one"})
    record(AuditVerb.IMPORT_BOARD, "board", {"reason": "nothing of the change log"}, person)

    def read_reasons() -> dict[str, bool]:
        return {event.detail["reason"]: event.by_operator for event in BY_NAME["events"].rows()}

    expected = {
        "by a person": True,
        "by the board": False,
        "by a person of another board": True,
        "by another board": False,
    }
    assert read_reasons() == expected
    LanguageModel.objects.update(hidden_note="")
    assert read_reasons() == expected | {"of a hidden one": True}
    assert AuditEvent.objects.count() == 7


def test_details_that_the_log_does_not_show_stay_on_the_board():
    detail = {
        "reason": "it changed",
        "ticket": "77",
        "reasons": {"alder": "it is lost", "birch": "it is lost, too"},
        "after": {"name": "Alder"},
    }
    assert public_detail(detail, {"alder"}) == {
        "reason": "it changed",
        "reasons": {"birch": "it is lost, too"},
        "after": {"name": None},
    }
    assert public_detail({"before": 1}, ()) == {}


# How it is described


def test_a_package_says_what_it_is_and_where_it_is_from(rude, tmp_path):
    (tmp_path / "tables").mkdir()
    for table in TABLES:
        (tmp_path / table.path).write_bytes(table.name.encode())
    description = describe_package(tmp_path, {table.name: 3 for table in TABLES}, [file_of("7")])
    created, resources = description.pop("created"), description.pop("resources")
    assert datetime.fromisoformat(created) <= timezone.now()
    assert len(created) == len("2026-01-02T03:04:05+00:00")
    texts = EvaluationSet.objects.get(artefact__isnull=False)
    assert description == {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": "plumbline-board",
        "title": "A Plumbline board",
        "description": (
            "Models, metrics, versions, results, standings and their history, as the board shows them. "
            "`manage.py import_results` makes the same board of it where there is none yet."
        ),
        "homepage": site.SITE_URL,
        "licenses": [
            {
                "name": "Apache-2.0",
                "title": "Apache License 2.0",
                "path": "https://www.apache.org/licenses/LICENSE-2.0",
            }
        ],
        "sources": [{"title": f"{texts.title} (licence: {texts.licence}). {texts.citation}"}],
        "plumbline_board": {"format": 4, "code": code()},
    }
    assert [resource["name"] for resource in resources] == [*(table.name for table in TABLES), f"artefact-7{63 * '0'}"]
    scorers = next(resource for resource in resources if resource["name"] == "retired_scorers")
    assert [field.pop("name") for field in scorers["schema"].pop("fields")] == ["name", "reason", "retired_at"]
    assert scorers == {
        "name": "retired_scorers",
        "title": "Scorers that score nothing new; what they scored stays",
        "path": "tables/retired_scorers.parquet",
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "bytes": 15,
        "hash": "sha256:513a451ca33af0933bcef8ce93d867d342b53da0fd4a046d36d13061a20af797",
        "rows": 3,
        "schema": {"primaryKey": ["name"]},
    }


def test_figures_among_the_results_belong_to_the_papers_that_are_published(rude, tmp_path):
    (tmp_path / "tables").mkdir()
    for table in TABLES:
        (tmp_path / table.path).write_bytes(b"")
    version = rude.versions.get()
    papers = {"provenance": "published", "status": "superseded", "scorer_fingerprint": 64 * "3"}
    for number, (source, published_at) in enumerate(
        [("Oak 2024", timezone.now()), ("Ash 2023", timezone.now()), ("Ash 2023", timezone.now()), ("Fir 2025", None)],
        start=7,
    ):
        MetricVersion.objects.create(
            **papers,
            metric=rude,
            number=number,
            protocol=version.protocol,
            scorer=version.scorer,
            formula_version=1,
            source=source,
            published_at=published_at,
        )
    MetricVersion.objects.filter(pk=version.pk).update(source="measured here")
    assert list_papers() == [{"title": "Ash 2023"}, {"title": "Oak 2024"}]
    description = describe_package(tmp_path, {table.name: 0 for table in TABLES}, [])
    assert description["sources"][:2] == list_papers()
    assert len(description["sources"]) == 3
    assert {one["name"]: one["sources"] for one in description["resources"] if "sources" in one} == {
        "results": [{"title": "Ash 2023"}, {"title": "Oak 2024"}]
    }


def test_a_file_is_described_with_the_licences_of_its_texts_and_of_who_wrote_them(rude):
    run = Run.objects.get(model__slug="alder")
    LanguageModel.objects.filter(slug="alder").update(licence="mit")
    expected = {
        "name": f"artefact-{run.artefact.sha256}",
        "path": f"artefacts/{run.artefact.sha256}.parquet",
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "bytes": run.artefact.size,
        "hash": f"sha256:{run.artefact.sha256}",
        "licenses": [{"name": "mit", "title": "Of Alder, which wrote the texts"}],
        "sources": [],
    }
    assert describe_artefact_file(run.artefact) == expected
    LanguageModel.objects.filter(slug="alder").update(licence="")
    assert licence_texts(run.artefact)["licenses"][0]["name"] == "not stated"
    LanguageModel.objects.filter(slug="alder").update(hidden_note="its owner disputes it")
    assert licence_texts(run.artefact)["licenses"] == []
    texts = EvaluationSet.objects.get(artefact__isnull=False)
    assert licence_texts(texts.artefact) == {
        "licenses": [{"name": texts.licence, "title": f"Of {texts.title}"}],
        "sources": [{"title": f"{texts.title} (licence: {texts.licence}). {texts.citation}"}],
    }
    assert licence_texts(Scoring.objects.first().artefact) == {}
    assert licence_texts(file_of("7")) == {}


# What a value must be


def check_value(table: str, column: str, value: object) -> object:
    """The value as the board takes it."""
    return ColumnCheck(BY_NAME[table], column)(value, "row 1")


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("standings", "rank", 0),
        ("standings", "rank", LARGEST_SHORT),
        ("standings", "rank_low", None),
        ("artefacts", "size", LARGEST_LONG),
        ("models", "name", 200 * "x"),
        ("models", "kind", "masked"),
        ("checks", "verdict", ""),
        ("results", "value", -1.5),
        ("results", "ci_low", None),
        ("rescorings", "by_upgrade", False),
    ],
)
def test_a_value_within_the_limits_of_its_column_comes_in_as_it_is(table, column, value):
    assert check_value(table, column, value) == value


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("standings", "rank", None, "is empty; give every row a value there"),
        ("standings", "rank", -1, f"-1 is out of range; use 0 to {LARGEST_SHORT}"),
        ("standings", "rank", LARGEST_SHORT + 1, f"{LARGEST_SHORT + 1} is out of range; use 0 to {LARGEST_SHORT}"),
        ("artefacts", "size", LARGEST_LONG + 1, f"{LARGEST_LONG + 1} is out of range; use 0 to {LARGEST_LONG}"),
        ("models", "name", 201 * "x", "has 201 characters; use 200 or fewer"),
        (
            "models",
            "kind",
            "x",
            "'x' is unknown; known here: causal, masked, permutation; a newer Plumbline may know it",
        ),
        ("results", "value", float("inf"), "inf is no number; leave unknown values out"),
        ("runs", "environment", "{", "is not JSON; the package is damaged or was edited; download or export it again"),
    ],
)
def test_a_value_beyond_the_limits_of_its_column_is_refused_by_name(table, column, value, words):
    with pytest.raises(Refused) as refusal:
        check_value(table, column, value)
    assert str(refusal.value) == f"row 1, field {column}: {words}"


def test_text_of_a_column_that_holds_json_comes_in_as_its_value():
    assert check_value("runs", "environment", '{"python": "3.11"}') == {"python": "3.11"}


def test_a_card_that_the_form_of_models_would_refuse_is_refused_with_what_to_do():
    row = {"name": "Oak", "family": "", "licence": "", "context": None, "notes": "", "release_date": "soon"}
    assert check_card(row | {"release_date": None, "name": " Oak "}, "row 1")["name"] == "Oak"
    with pytest.raises(Refused, match=r"^row 1, field release_date: .*[^.]; correct it on its board, and export"):
        check_card(row, "row 1")


def test_a_row_is_named_by_its_key_and_keeps_its_dates():
    row = {"metric": "rude", "number": 2, "scorer": "profanity"}
    assert describe_key(BY_NAME["versions"], row) == "metric = 'rude', number = 2"
    assert self_dated(BY_NAME["standings"]) == []


def test_no_more_is_unpacked_than_a_file_may_have_and_one_byte_that_tells(tmp_path):
    for size, most in ((5, 5), (9, 5), (3, 5), (2**20 + 7, 2**20 + 6)):
        copy_part(io.BytesIO(bytes(size)), tmp_path / "a" / "b" / "part", most)
        assert (tmp_path / "a" / "b" / "part").stat().st_size == min(size, most + 1)


def test_values_of_a_foreign_description_are_shown_short_and_escaped():
    assert [show(value) for value in (7, None, "é", [1], {})] == ["7", "None", "'\\xe9'", "a list", "a dict"]
    assert len(show(500 * "x")) == 80


# The download


@pytest.fixture
def two_exports(db, monkeypatch):
    """Two exports on the storage, of which the name of the newer one was written first, and other files."""
    storage = board_storage()
    names = ["20260102T030405Z-abc.zip", "20250102T030405Z-def.zip", "20270102T030405Z-ghi.txt", "readme.zip"]
    for name in names:
        storage.save(f"exports/{name}", ContentFile(b"x"))
    yield
    for name in names:
        storage.delete(f"exports/{name}")


NEWEST = BoardExport("exports/20260102T030405Z-abc.zip", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "abc")


def test_exports_are_listed_by_their_time_and_other_files_are_no_exports(two_exports):
    older = BoardExport("exports/20250102T030405Z-def.zip", datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), "def")
    assert list_exports() == [older, NEWEST]
    assert find_newest_export() == NEWEST


def test_an_export_is_due_once_the_last_one_is_old_enough_and_the_board_has_changed(
    two_exports, rude, settings, monkeypatch
):
    def is_due_after(seconds: float) -> bool:
        monkeypatch.setattr(downloads, "database_now", lambda: NEWEST.at + timedelta(seconds=seconds))
        return is_due()

    settings.EXPORT_SECONDS = 60
    assert [is_due_after(seconds) for seconds in (0, 59, 60, 61)] == [False, False, True, True]
    same = replace(NEWEST, state=state_of_board())
    monkeypatch.setattr(downloads, "list_exports", lambda: [same])
    assert not is_due_after(61)
    monkeypatch.setattr(downloads, "list_exports", list)
    assert is_due_after(61)
    MetricVersion.objects.update(published_at=None)
    assert not is_due_after(61), "nothing is published"


def test_an_export_is_written_once_for_each_state_and_the_last_two_are_kept(rude, settings, monkeypatch):
    settings.EXPORT_SECONDS = 0
    try:
        for number in range(3):
            LanguageModel.objects.create(slug=f"oak-{number}", name="Oak", kind="causal", source="uploaded")
            for hour in (1, 2):
                moment = datetime(2026, 1, 1 + number, hour, tzinfo=UTC)
                monkeypatch.setattr(downloads, "database_now", lambda moment=moment: moment)
                downloads.renew()
        exports = list_exports()
        assert [export.at for export in exports] == [datetime(2026, 1, day, 1, tzinfo=UTC) for day in (2, 3)]
        assert exports[-1].state == state_of_board() != exports[0].state
        with board_storage().open(exports[-1].name) as file, zipfile.ZipFile(file) as archive:
            assert set(archive.namelist()) == {"datapackage.json", *(table.path for table in TABLES)}
    finally:
        for export in list_exports():
            board_storage().delete(export.name)


def test_the_state_of_a_board_is_named_shortly_and_changes_with_it(db):
    state = state_of_board()
    assert len(state) == 12
    assert set(state) <= set("0123456789abcdef")
    assert state_of_board() == state
    LanguageModel.objects.create(slug="oak", name="Oak", kind="causal", source="uploaded")
    assert state_of_board() != state


# The way there and back


@pytest.fixture
def package(db, tmp_path, monkeypatch):
    """A package of a small board with its files, beside which nothing is left in the database."""
    with transaction.atomic():
        metric = metric_of("rude", "profanity")
        scorings = score_all(version_of(metric, "one"), runs_on(metric), {"profanity": lambda x: x})
        version = metric.versions.get()
        add_belongings(version, scorings[0])
        MetricVersion.objects.filter(pk=version.pk).update(opened_because=metric.checks.get())
        AuditEvent.objects.all().delete()
        record(AuditVerb.WITHDRAW_MODEL, "model birch", {"reason": "é"}, User.objects.create_user("olga"))
        record(AuditVerb.WITHDRAW_MODEL, "model birch", {"reason": "by the board"})
        steps: list[tuple[str, int, int]] = []
        export = write_folder(tmp_path / "deep" / "board", True, lambda *step: steps.append(step))
        transaction.set_rollback(True)
    assert not Artefact.objects.exists()
    return export, steps


def read_stored(name: str) -> bytes:
    """The bytes of a file on the storage."""
    with board_storage().open(name) as file:
        return file.read()


ROWS = {
    **{
        "artefacts": 17,
        "evaluation_sets": 1,
        "protocols": 1,
        "metrics": 1,
        "identities": 0,
        "models": 4,
        "versions": 1,
    },
    **{"runs": 4, "scorings": 4, "entry_checks": 1, "results": 72, "standings": 60, "outdated": 1, "control_sets": 1},
    **{"checks": 1, "calibrations": 1, "rescorings": 0, "retired_scorers": 0, "events": 2},
}


def test_an_export_says_what_it_wrote_step_by_step_and_leaves_nothing_else(package):
    export, steps = package
    files = [path for path in export.path.rglob("*") if path.is_file()]
    description = (export.path / "datapackage.json").read_bytes()
    assert export.rows == ROWS
    assert export.artefacts == len(list((export.path / "artefacts").iterdir())) == 14
    assert export.bytes == sum(path.stat().st_size for path in files)
    assert export.sha256 == hashlib.sha256(description).hexdigest()
    assert [path.name for path in export.path.parent.iterdir()] == ["board"]
    assert export.path.stat().st_mode & 0o777 == 0o755
    assert description.startswith(b'{\n "$schema"'), "a person can read it"
    assert steps == [
        *(("tables", number, len(TABLES)) for number in range(1, len(TABLES) + 1)),
        *(("artefacts", number, 14) for number in range(1, 15)),
    ]
    columns = pq.read_metadata(export.path / "tables" / "results.parquet").row_group(0)
    assert columns.column(0).compression == "ZSTD"


def test_an_import_makes_the_same_rows_and_an_export_of_them_the_same_bytes(package, tmp_path):
    export, _ = package
    steps: list[tuple[str, int, int]] = []
    assert import_package(export.path, lambda *step: steps.append(step)) == ROWS
    assert steps == [("tables", number, len(TABLES)) for number in range(1, len(TABLES) + 1)]
    event = AuditEvent.objects.get(verb=AuditVerb.IMPORT_BOARD)
    assert (event.subject, event.detail) == ("board", {"sha256": export.sha256, "format": FORMAT, "rows": ROWS})
    AuditEvent.objects.filter(pk=event.pk).delete()
    details = AuditEvent.objects.order_by("pk").values_list("detail", flat=True)
    assert list(details) == [{"reason": "é", "by_operator": True}, {"reason": "by the board"}]
    version = MetricVersion.objects.get()
    assert version.opened_because == ControlCheck.objects.get()
    again = write_zip(tmp_path / "again.zip", True)
    assert (again.path, again.rows, again.artefacts) == (tmp_path / "again.zip", ROWS, 14)
    assert again.bytes == again.path.stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.zip", "deep"]
    with zipfile.ZipFile(again.path) as archive:
        names = {str(path.relative_to(export.path)) for path in export.path.rglob("*") if path.is_file()}
        assert set(archive.namelist()) == names
        for table in TABLES:
            assert archive.read(table.path) == (export.path / table.path).read_bytes(), table.name
    with pytest.raises(Refused, match="1 metrics and 4 models already"):
        import_package(again.path)
    check = ControlCheck.objects.create(metric=Metric.objects.get(), trigger="manual")
    assert check.pk > version.opened_because_id


def lose_file(package: Path) -> tuple[str, bytes]:
    """Delete one file of the package from the board's storage; returns its name and content."""
    digest = next((package / "artefacts").iterdir()).stem
    name = f"{digest[:2]}/{digest}.parquet"
    content = read_stored(name)
    board_storage().delete(name)
    return name, content


def test_an_import_brings_the_files_that_are_lost_and_notes_those_that_it_lacks(package):
    export, _ = package
    name, content = lose_file(export.path)
    import_package(export.path)
    assert read_stored(name) == content
    assert set(Artefact.objects.filter(state="absent").values_list("sha256", flat=True)) == {
        digits.ljust(64, "0") for digits in ("a1", "b1", "c1")
    }
    assert Artefact.objects.filter(state="whole").count() == 14


Rows = list[dict[str, Any]]
WRONG: tuple[tuple[str, Callable[[Rows], object], str], ...] = (
    ("standings", lambda rows: rows.append(dict(rows[0])), r"row 61: .*metric = 'rude', .* is there twice"),
    ("standings", lambda rows: rows[2].update(model="nobody"), r"row 3, model = 'nobody': there is no such row in tab"),
    (
        "scorings",
        lambda rows: rows[1].update(run_epoch=None),
        r"row 2, fields model, run_protocol, run_epoch: some have",
    ),
    (
        "versions",
        lambda rows: rows[0].update(opened_because=10**6),
        r"opened_because = 1000000: there is no such row in tables/c",
    ),
    ("standings", lambda rows: rows[4].update(rank=0), r"row 5: breaks a rule of the board \(.+\); the package is dam"),
    ("protocols", lambda rows: rows[0].update(method="x"), r"row 1, field sha256: is not the hash of the protocol's"),
    ("models", lambda rows: rows[3].update(name=" "), r"row 4, field name: .+; correct it on its"),
    ("results", lambda rows: rows[6].update(value=None), r"row 7, field value: is empty"),
)


def test_an_edited_row_is_refused_by_its_number_and_nothing_of_the_package_stays(package):
    export, _ = package
    name, content = lose_file(export.path)
    for table, change, words in WRONG:
        path = export.path / "tables" / f"{table}.parquet"
        whole = path.read_bytes()
        edit(export.path, table, change)
        with pytest.raises(Refused, match=rf"^tables/{table}\.parquet.*{words}"):
            import_package(export.path)
        assert not Artefact.objects.exists()
        assert not AuditEvent.objects.exists()
        assert not board_storage().exists(name), "the file that it brought is taken away again"
        path.write_bytes(whole)
        edit(export.path, table, None)
    board_storage().save(name, ContentFile(content))
    assert import_package(export.path) == ROWS


def test_a_file_that_is_lost_here_keeps_an_export_with_files_from_being_written(package, tmp_path):
    export, _ = package
    import_package(export.path)
    artefact = Scoring.objects.first().artefact
    content = read_stored(artefact.storage_name)
    board_storage().delete(artefact.storage_name)
    with pytest.raises(Refused, match=r"is not there; run `manage.py verify`"):
        write_folder(tmp_path / "again", True)
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert write_folder(tmp_path / "again").artefacts == 0, "without files none is needed"
    board_storage().save(artefact.storage_name, ContentFile(content))


def describe_again(folder: Path, change: Callable[[dict[str, Any]], object]) -> str:
    """Why a package is refused whose description is changed so; the description is put right again."""
    path = folder / "datapackage.json"
    whole = path.read_bytes()
    description = json.loads(whole)
    change(description)
    path.write_text(json.dumps(description))
    with pytest.raises(Refused) as refusal:
        read_package(folder)
    path.write_bytes(whole)
    return str(refusal.value)


CHANGES: tuple[tuple[Callable[[dict[str, Any]], object], str], ...] = (
    (lambda d: d.pop("plumbline_board"), "datapackage.json, plumbline_board.format: there is none; this is no package"),
    (lambda d: d.update(plumbline_board=[4]), "datapackage.json, plumbline_board.format: there is none; this is no"),
    (lambda d: d["plumbline_board"].update(format=True), "datapackage.json, plumbline_board.format: there is none;"),
    (lambda d: d["plumbline_board"].update(format=0), "datapackage.json, plumbline_board.format: there is none;"),
    (
        lambda d: d["plumbline_board"].update(format=5),
        "datapackage.json, plumbline_board.format = 5: this Plumbline rea",
    ),
    (
        lambda d: d.update(resources={}),
        "datapackage.json, resources: tables/artefacts.parquet, tables/evaluation_sets.",
    ),
    (
        lambda d: d["resources"].insert(0, "x"),
        "datapackage.json, resource 1, path = None: not a file of such packages;",
    ),
    (
        lambda d: d["resources"][1].update(path=7),
        "datapackage.json, resource 2, path = 7: not a file of such packages;",
    ),
    (lambda d: d["resources"][2].update(path="a"), "datapackage.json, resource 3, path = 'a': not a file of such"),
    (
        lambda d: d["resources"][0].update(bytes=0),
        "datapackage.json, resource tables/artefacts.parquet, bytes = 0: not a",
    ),
    (
        lambda d: d["resources"][0].update(bytes=True),
        "datapackage.json, resource tables/artefacts.parquet, bytes = True",
    ),
    (
        lambda d: d["resources"][0].update(bytes=MOST_BYTES + 1),
        "datapackage.json, resource tables/artefacts.parquet, bytes = 17179869185: not a size from 1 to 17,179,869,184",
    ),
    (
        lambda d: d["resources"][0].update(bytes=MOST_BYTES),
        "tables/artefacts.parquet: is not of the 17,179,869,184 byt",
    ),
    (
        lambda d: d["resources"][0].update(bytes=1),
        "tables/artefacts.parquet: is not of the 1 bytes it should be; the p",
    ),
    (lambda d: d["resources"][0].update(hash="sha256:1"), "tables/artefacts.parquet: has the hash sha256:"),
)


def test_a_description_is_refused_by_what_is_wrong_with_it(package):
    export, _ = package
    for change, words in CHANGES:
        assert describe_again(export.path, change).startswith(words)
    path = export.path / "datapackage.json"
    for content, words in (("[]", "plumbline_board.format: there is none"), ("{", "is not JSON (JSONDecodeError)")):
        whole = path.read_bytes()
        path.write_text(content)
        with pytest.raises(Refused, match=rf"^datapackage\.json.* {re.escape(words)}"):
            read_package(export.path)
        path.write_bytes(whole)
    whole_package = read_package(export.path)
    assert (whole_package.format, whole_package.sha256) == (FORMAT, export.sha256)
    assert {sha256: path.name for sha256, path in whole_package.artefacts()} == {
        path.stem: path.name for path in (export.path / "artefacts").iterdir()
    }


def test_a_file_under_the_name_of_another_is_refused(package):
    export, _ = package
    first, second = sorted((export.path / "artefacts").iterdir())[:2]
    first.write_bytes(second.read_bytes())

    def describe_as_it_is(description: dict[str, Any]) -> None:
        by_path = {resource["path"]: resource for resource in description["resources"]}
        true_values = {name: by_path[f"artefacts/{second.name}"][name] for name in ("bytes", "hash")}
        by_path[f"artefacts/{first.name}"].update(true_values)

    words = f"artefacts/{first.name}: has the hash sha256:{second.stem}, not the one it should have; the package is"
    assert describe_again(export.path, describe_as_it_is).startswith(words)
    first.unlink()
    assert describe_again(export.path, lambda _: None).startswith(f"artefacts/{first.name}: is missing; the package")


def test_of_a_zip_file_only_what_its_description_names_is_unpacked(package, tmp_path):
    export, _ = package
    with zipfile.ZipFile(tmp_path / "board.zip", "w") as archive:
        for path in export.path.rglob("*"):
            archive.write(path, path.relative_to(export.path))
        archive.writestr("tables/more.parquet", b"x")
    with open_package(tmp_path / "board.zip") as whole:
        files = {str(path.relative_to(whole.folder)) for path in whole.folder.rglob("*") if path.is_file()}
        assert files == {str(path.relative_to(export.path)) for path in export.path.rglob("*") if path.is_file()}
        first, rows = next(whole.batches(BY_NAME["models"]))
        assert (first, [row["slug"] for row in rows]) == (1, ["alder", "birch", "cedar", "damson"])
    assert not whole.folder.exists()
    with (
        pytest.raises(Refused, match=r"nothing\.zip is not there: give a folder or a zip file"),
        open_package(tmp_path / "nothing.zip"),
    ):
        pass
