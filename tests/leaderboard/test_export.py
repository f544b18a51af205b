"""A board that is exported and imported elsewhere is the same board; what is not a whole package leaves no trace."""

import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from leaderboard import tasks
from leaderboard.card.form import FIELDS
from leaderboard.exchange import downloads
from leaderboard.exchange import package as packages
from leaderboard.exchange.export import FORMAT, licence_texts
from leaderboard.exchange.load import note_files
from leaderboard.exchange.tables import TABLES
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
    Protocol,
    Rescoring,
    Result,
    RetiredScorer,
    Run,
    Scoring,
    Standing,
)
from leaderboard.services import artefacts, calibrations, checks, rescore
from leaderboard.services.access import set_access
from leaderboard.services.audit import record
from leaderboard.services.evaluation_sets import declare, import_sentences
from leaderboard.services.published import PUBLICATIONS, publish
from leaderboard.services.seed import seed_metrics
from scoring.evaluation_sets import build_starter, get
from scoring.refusals import Refused
from tests.leaderboard import living
from tests.leaderboard.conftest import quick_control_sets, without_looks

pytestmark = pytest.mark.django_db

ADDRESS, NAME, SECRET = "ada@board.example", "ada-the-operator", "plumb_" + "s3cret" * 7
ENTRANTS = 3
# Every field of what readers see, by natural keys, told apart from how the package tells it.
SEEN: tuple[tuple[Any, str], ...] = (
    (ModelIdentity, "slug name organisation family parameters licence hub_id aliases created_at"),
    (
        LanguageModel,
        "slug name family kind source revision licence parameters layers heads context access created_at source_name"
        " identity__slug notes release_date hidden_size interface precision weight_format chat_template"
        " service_changed_at",
    ),
    (
        EvaluationSet,
        "slug version title kind licence citation notice artefact__sha256 counts created_at source languages"
        " irregularities prompt_scores__sha256 continuations__sha256 continuation_scores__sha256",
    ),
    (Protocol, "sha256 evaluation_set__slug method parameters"),
    (
        Metric,
        "slug title summary protocol__sha256 scorer formula_name measure position drift_policy outdated_policy"
        " chat_protocol__sha256 flag_policy most_missing brake_after labels",
    ),
    (
        MetricVersion,
        "metric__slug number provenance protocol__sha256 scorer scorer_fingerprint formula_version epoch source"
        " decimals prompt_scores__sha256 status opened_because created_at published_at chat_protocol__sha256 attributes"
        " undeclared most_missing fallback_measure",
    ),
    (
        Run,
        "model__slug protocol__sha256 epoch state environment artefact__sha256 created_at started_at seconds"
        " special_tokens loaded_files tokenizer_report self_test chat finished_at done total",
    ),
    (
        Scoring,
        "metric_version__metric__slug metric_version__number model__slug run__protocol__sha256 run__epoch state"
        " artefact__sha256 replicates__sha256 scored_at created_at finished_at texts texts_missing lost_files"
        " started_at done total seconds",
    ),
    (EntryCheck, "scoring__model__slug scoring__metric_version__number flags state reason decided_at created_at"),
    (
        Result,
        "scoring__metric_version__metric__slug scoring__metric_version__number scoring__model__slug measure slice value"
        " ci_low ci_high n missing published_rank p_value p_adjusted missing_texts worst_low worst_high derived"
        " interval_derived",
    ),
    (
        Standing,
        "metric_version__metric__slug metric_version__number measure slice population model__slug rank rank_low"
        " rank_high value result__value result__scoring__model__slug",
    ),
    (OutdatedEntry, "metric_version__number model__slug last_scoring__metric_version__number reason"),
    (
        ControlSet,
        "metric_version__metric__slug metric_version__number items__sha256 reference__sha256 noise check_version"
        " fingerprint environment created_at",
    ),
    (
        ControlCheck,
        "id metric__slug control_set__metric_version__number trigger verdict statistics finished_at state fingerprint"
        " environment artefact__sha256 created_at started_at done total seconds",
    ),
    (
        Calibration,
        "metric_version__metric__slug metric_version__number evaluation_set__slug state fingerprint cards"
        " artefact__sha256 created_at finished_at seconds done total machine started_at",
    ),
    (
        Rescoring,
        "metric__slug from_version__number to_version__number state done total reason created_at by_upgrade"
        " finished_at",
    ),
    (RetiredScorer, "name reason retired_at"),
)


def seen() -> dict[str, list[tuple[Any, ...]]]:
    """The board by rows without identities of the database's own, in no order."""
    return {model.__name__: sorted(rows(model).values_list(*fields.split()), key=repr) for model, fields in SEEN}


def rows(model: Any) -> Any:
    """All there are; of scorings, those that numbers were published of."""
    published = {"state": "done", "metric_version__published_at__isnull": False} if model is Scoring else {}
    return model.objects.order_by().filter(**published)


def pages() -> dict[str, str]:
    """What readers are shown of the board's numbers and their history."""
    client, found = Client(), {}
    addresses = [f"{reverse(name)}?metric={living.SLUG}" for name in ("history", "changes")]
    addresses.append(f"{reverse('export', args=['json'])}?metric={living.SLUG}")
    addresses += [reverse("metric", args=[living.SLUG]), reverse("drift"), reverse("changes")]
    addresses += [reverse("model", args=["entrant-1"]), reverse("model", args=["entrant-3"])]
    for version in MetricVersion.objects.filter(published_at__isnull=False).select_related("metric"):
        addresses.append(reverse("manifest", args=[version.metric.slug, version.number]))
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        found[address] = re.sub(' nonce="[^"]+"', "", response.content.decode())
    return found


@dataclass(frozen=True)
class Exported:
    """A package in a folder, and the board that it was made of."""

    folder: Path
    seen: dict[str, list[tuple[Any, ...]]]
    pages: dict[str, str]


def build(folder: Path) -> None:
    """A metric with four versions by a drift and by hand, one entry outdated, one withdrawn; published figures."""
    operator = User.objects.create_user(NAME, ADDRESS, "a long passphrase")
    with living.standing_in() as stage:
        metric = living.small_metric(folder)
        for number in range(1, ENTRANTS + 1):
            living.submit(living.entrant(number, metric), metric)
        living.drift(stage)
        outputs = Scoring.objects.get(model__slug="entrant-2").run.artefact
        with living.malformed(outputs):
            checks.request_check(metric, "manual", user=operator)
            living.drain()
        given_up = rescore.open_rescoring(metric, "a rescoring that is given up", user=operator)
        rescore.cancel(given_up, operator)
        rescore.open_rescoring(metric, "for the export", user=operator)
        living.drain()
        import_sentences(get("starter"), build_starter()[:20])
        calibrations.request_missing()
        for row in Calibration.objects.unclaimed():
            tasks.calibrate_scorer(row.pk)
        RetiredScorer.objects.create(name="lexicon:starter", reason="another one is as good")
        stand_out("entrant-1")
        Metric.objects.update(brake_after=3)
        set_access(LanguageModel.objects.get(slug="entrant-3"), "withdrawn", "its owner asked", operator)
        LanguageModel.objects.filter(slug="entrant-1").update(location="/home/ada/models/entrant-1")
    seed_metrics()
    publish(next(of for of in PUBLICATIONS if "Pozzobon" in of.source))


def stand_out(slug: str) -> None:
    """Mark an entry as one that people should look at."""
    published = Scoring.objects.filter(state="done", metric_version__published_at__isnull=False)
    scoring = published.filter(model__slug=slug).latest("pk")
    flags = [{"key": "far", "words": "Its score is far above those of models of its size."}]
    EntryCheck.objects.create(scoring=scoring, flags=flags, state="marked")


@pytest.fixture(scope="module")
def exported(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Built and exported once; the rows are taken back, the files stay."""
    folder = tmp_path_factory.mktemp("export")
    with django_db_blocker.unblock(), transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        quick_control_sets(patch)
        without_looks(patch)
        patch.setattr("django.conf.settings.MOST_ATTEMPTS", 1)
        build(folder)
        call_command("export", folder / "board", stdout=StringIO(), stderr=StringIO())
        found = Exported(folder / "board", seen(), pages())
        transaction.set_rollback(True)
    return found


def run(*words: str, **options: Any) -> str:
    out = StringIO()
    call_command(*words, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


# The way there and back


@pytest.mark.slow
def test_what_is_compared_is_every_column_of_every_table(exported):
    compared = {model: {name.split("__")[0] for name in fields.split()} for model, fields in SEEN}
    for table in TABLES:
        if table.model not in (Artefact, AuditEvent):  # hashes, which others refer to, and the change log, as pages
            columns = {*table.own, *(link.attribute for link in table.links)} - {"location"}
            assert columns <= compared[table.model], table.name


def test_the_board_that_is_tested_with_has_all_that_can_be_exported(exported):
    states = {row[9 + 2] for row in exported.seen["MetricVersion"]}
    assert states == {"current", "superseded", "retired"}
    assert {row[2] for row in exported.seen["MetricVersion"]} == {"measured", "published"}
    assert {row[11] for row in exported.seen["LanguageModel"]} == {"open", "withdrawn"}
    assert {row[14] for row in exported.seen["LanguageModel"]} > {None, "gpt-2"}
    assert [row[1] for row in exported.seen["OutdatedEntry"]] == ["entrant-2"]
    assert {"drifted", "stable"} <= {row[4] for row in exported.seen["ControlCheck"]}
    assert {row[3] for row in exported.seen["Rescoring"]} == {"published", "cancelled"}
    assert [row[0] for row in exported.seen["RetiredScorer"]] == ["lexicon:starter"]
    assert [row[0] for row in exported.seen["EntryCheck"]] == ["entrant-1"]
    assert {row[13] for row in exported.seen["Metric"]} == {3, 2}


@pytest.mark.slow
def test_an_empty_board_becomes_the_exported_one(exported):
    said = run("import_results", str(exported.folder))
    assert f"{len(exported.seen['Standing']):,} ranks" in said
    assert seen() == exported.seen
    # The code's own state stands in manifests: the same process wrote both.
    assert pages() == exported.pages


@pytest.mark.slow
def test_an_imported_board_exports_the_same_bytes(exported, tmp_path, capsys):
    run("import_results", str(exported.folder))
    assert "tables: 100%" in capsys.readouterr().err
    run("export", str(tmp_path / "again"))
    for table in TABLES:
        assert (tmp_path / "again" / table.path).read_bytes() == (exported.folder / table.path).read_bytes(), table.name


def test_an_import_counts_the_rows_of_each_table(exported):
    answer = json.loads(run("import_results", str(exported.folder), "--json"))
    counts = {table.name: pq.read_metadata(exported.folder / table.path).num_rows for table in TABLES}
    assert answer == {"rows": counts}


def test_a_second_import_is_refused_and_changes_nothing(exported):
    answer = run("import_results", str(exported.folder))
    models, versions = len(exported.seen["LanguageModel"]), len(exported.seen["MetricVersion"])
    results, ranks = len(exported.seen["Result"]), len(exported.seen["Standing"])
    assert answer == (
        f"{models:,} models, {versions:,} metric versions, {results:,} results and {ranks:,} ranks are imported\n"
    )
    with pytest.raises(CommandError, match=r"has \d+ metrics and \d+ models already.*empty database"):
        run("import_results", str(exported.folder))
    assert seen() == exported.seen


@pytest.mark.slow
def test_an_imported_board_can_be_looked_at_and_goes_on_without_the_files(exported, client, tmp_path, settings):
    run("import_results", str(exported.folder))
    settings.MEDIA_ROOT = tmp_path
    storage = settings.STORAGES | {
        "default": {"BACKEND": settings.STORAGES["default"]["BACKEND"], "OPTIONS": {"location": tmp_path / "empty"}}
    }
    settings.STORAGES = storage
    artefacts.mark_storage()
    Artefact.objects.update(state=Artefact.State.ABSENT)  # as an import into that storage notes
    assert {address: page.count("entrant-1") for address, page in pages().items()}
    assert checks.request_due_checks() == 0  # the control sets' files stayed behind
    with pytest.raises(Refused, match="imported without the files"):
        checks.request_check(Metric.objects.get(slug=living.SLUG), "manual")
    assert tasks.watch() is None
    living_check = ControlCheck.objects.create(metric=Metric.objects.get(slug=living.SLUG), trigger="manual")
    assert living_check.pk > max(row[0] for row in exported.seen["ControlCheck"])  # numbers go on after those kept


def test_an_import_notes_which_files_stayed_behind(exported):
    run("import_results", str(exported.folder))
    artefact = Scoring.objects.exclude(artefact=None).latest("pk").artefact
    with living.lost(artefact):
        note_files()
    assert Artefact.objects.get(state=Artefact.State.ABSENT) == artefact


def test_an_import_goes_into_the_audit_trail(exported):
    run("import_results", str(exported.folder))
    event = AuditEvent.objects.get(verb="import board")
    content = (exported.folder / "datapackage.json").read_bytes()
    assert event.detail["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.slow
def test_a_zip_file_holds_the_same_and_a_package_of_artefacts_brings_them(exported, tmp_path):
    run("import_results", str(exported.folder))
    said = json.loads(run("export", str(tmp_path / "board.zip"), with_artefacts=True, json=True))
    with zipfile.ZipFile(tmp_path / "board.zip") as archive:
        artefacts = [name for name in archive.namelist() if name.startswith("artefacts/")]
        assert len(artefacts) == said["artefacts"] > 0
        description = json.loads(archive.read("datapackage.json"))
    assert {f"artefacts/{sha256}.parquet" for sha256 in downloadable_by_manifests(exported)} == set(artefacts)
    assert len(description["resources"]) == len(TABLES) + len(artefacts)
    names = {path.removeprefix("artefacts/").removesuffix(".parquet") for path in artefacts}
    texts = set(Artefact.objects.filter(sha256__in=names, kind__in=["prompts", "continuations"]).values_list("sha256"))
    scores = set(EvaluationSet.objects.filter(prompt_scores__sha256__in=names).values_list("prompt_scores__sha256"))
    licensed = {
        resource["name"]: resource["licenses"]
        for resource in description["resources"][len(TABLES) :]
        if "licenses" in resource
    }
    assert {f"artefact-{sha256}" for (sha256,) in texts | scores} == set(licensed)
    assert texts
    assert scores
    written = Run.objects.filter(model__slug="entrant-1").latest("pk")
    about = licensed[f"artefact-{written.artefact.sha256}"]
    assert [(one["name"], one["title"]) for one in about] == [
        (written.model.licence or "not stated", f"Of {written.model.name}, which wrote the texts")
    ]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("artefact", "prompts"),
        ("prompt_scores", "scores"),
        ("continuations", "continuations"),
        ("continuation_scores", "scores"),
    ],
)
def test_whatever_came_with_an_evaluation_set_is_under_its_licence(db, place, kind):
    files = [
        Artefact.objects.create(sha256=f"{number:064x}", kind=kind, rows=1, size=1, schema_version=1)
        for number, kind in enumerate((kind, "scores"))
    ]
    texts = declare(get("real-toxicity-prompts-sample"))
    EvaluationSet.objects.filter(pk=texts.pk).update(**{place: files[0]})
    (licence,) = licence_texts(files[0])["licenses"]
    assert licence == {"name": texts.licence, "title": f"Of {texts.title}"}
    assert licence_texts(files[1]) == {}, "this board's own numbers"


def downloadable_by_manifests(exported: Exported) -> set[str]:
    """What the manifests of the board offer by an address."""
    found = set()
    for address, content in exported.pages.items():
        if address.endswith("manifest.json"):
            named = json.loads(content)["artefacts"]
            found |= {sha256 for sha256, about in named.items() if about["url"]}
    return found


@pytest.mark.slow
def test_artefacts_are_put_in_place_and_go_again_when_the_import_fails(exported, tmp_path):
    with transaction.atomic():
        run("import_results", str(exported.folder))
        run("export", str(tmp_path / "whole"), with_artefacts=True)
        transaction.set_rollback(True)
    chosen = sorted((tmp_path / "whole" / "artefacts").iterdir())[0].stem
    name = f"{chosen[:2]}/{chosen}.parquet"
    path = Path(default_storage.path(name))
    content = path.read_bytes()
    path.unlink()
    try:
        edited = edit(tmp_path / "whole", "standings", lambda rows: rows[0].update(rank=0))
        with pytest.raises(CommandError):
            run("import_results", str(edited))
        assert not path.exists()
        run("import_results", str(edit(tmp_path / "whole", "standings", lambda rows: rows[0].update(rank=1))))
        assert path.read_bytes() == content
    finally:
        path.write_bytes(content)


# What is in it, and what is not


def test_the_description_is_a_data_package_of_the_tables(exported):
    package = json.loads((exported.folder / "datapackage.json").read_text())
    assert package["$schema"] == "https://datapackage.org/profiles/2.0/datapackage.json"
    (licence,) = package["licenses"]
    assert licence.pop("path").endswith("/LICENSE-2.0")
    assert licence == {"name": "Apache-2.0", "title": "Apache License 2.0"}
    assert any("Pozzobon" in source["title"] for source in package["sources"])
    by_name = {resource["name"]: resource for resource in package["resources"]}
    for resource in package["resources"]:
        content = (exported.folder / resource["path"]).read_bytes()
        table = pq.read_table(exported.folder / resource["path"])
        fields = [field["name"] for field in resource["schema"]["fields"]]
        assert resource["bytes"] == len(content)
        assert resource["hash"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert (resource["rows"], fields) == (table.num_rows, table.column_names)
        assert set(resource["schema"].get("primaryKey", [])) <= set(fields)
        for key in resource["schema"].get("foreignKeys", []):
            other = by_name[key["reference"]["resource"]]
            there = pq.read_table(exported.folder / other["path"]).select(key["reference"]["fields"]).to_pylist()
            keys = {tuple(row.values()) for row in there}
            mine = {tuple(row.values()) for row in table.select(key["fields"]).to_pylist()}
            assert {of for of in mine if None not in of} <= keys, (resource["name"], key)


def test_its_sources_are_the_evaluation_sets_that_the_board_holds_and_no_others(exported):
    package = json.loads((exported.folder / "datapackage.json").read_text())
    path = next(resource["path"] for resource in package["resources"] if resource["name"] == "evaluation_sets")
    sets = pq.read_table(exported.folder / path).to_pylist()
    titles = [source["title"] for source in package["sources"]]
    named = {row["title"] for row in sets if any(title.startswith(f"{row['title']} (licence: ") for title in titles)}
    held = {row["title"] for row in sets if row["artefact"] is not None}
    assert named == held
    assert 0 < len(held) < len(sets)


def test_nobody_and_no_text_can_be_found_in_it(exported):
    texts = (
        "".join(json.dumps(pq.read_table(path).to_pylist(), default=str) for path in exported.folder.rglob("*.parquet"))
        + (exported.folder / "datapackage.json").read_text()
    )
    for private in (ADDRESS, NAME, "/home/ada", "a long passphrase"):
        assert private not in texts
    assert not any(ending in texts for ending in living.ENDINGS)
    assert "elsewhere:entrant-1" in texts
    assert not list(exported.folder.rglob("artefacts"))


@pytest.mark.slow
def test_work_that_is_under_way_and_unknown_details_stay_at_home(exported, tmp_path):
    run("import_results", str(exported.folder))
    metric = Metric.objects.get(slug=living.SLUG)
    candidate = MetricVersion.objects.create(
        metric=metric, number=99, protocol=metric.protocol, scorer=metric.scorer, formula_version=1
    )
    model = LanguageModel.objects.get(slug="entrant-1")
    Scoring.objects.create(model=model, metric_version=candidate, run=Run.objects.filter(model=model).first())
    event = AuditEvent.objects.filter(verb="withdraw model").get()
    AuditEvent.objects.filter(pk=event.pk).update(detail=event.detail | {"ticket": ADDRESS})
    AuditEvent.objects.create(verb="invite", subject=ADDRESS, detail={"email": ADDRESS})
    run("export", str(tmp_path / "again"))
    for table in TABLES:
        assert (tmp_path / "again" / table.path).read_bytes() == (exported.folder / table.path).read_bytes(), table.name


@pytest.mark.slow
def test_a_hidden_model_is_not_named(exported, tmp_path):
    run("import_results", str(exported.folder))
    moves = [{"entry": slug, "from_rank": 1, "to_rank": 2} for slug in ("entrant-1", "entrant-2")]
    ControlCheck.objects.update(statistics={"impact": {"moves": moves}})
    reasons = {"entrant-1": "its outputs are lost", "entrant-2": "they are lost, too"}
    record(AuditVerb.LEAVE_OUTDATED, f"metric {living.SLUG}", {"version": 2, "reasons": reasons})
    LanguageModel.objects.filter(slug="entrant-1").update(hidden_note="its owner disputes it")
    run("export", str(tmp_path / "again"))
    texts = {
        table.name: json.dumps(pq.read_table(tmp_path / "again" / table.path).to_pylist(), default=str)
        for table in TABLES
    }
    assert [name for name, text in texts.items() if "entrant-1" in text.replace("elsewhere:entrant-1", "")] == []
    assert all("entrant-2" in texts[name] for name in ("models", "checks", "events"))


def test_an_export_does_not_write_over_anything(exported, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(CommandError, match="is there already"):
        run("export", str(tmp_path / "there"))


def test_a_board_that_never_rests_is_not_exported(db, tmp_path, monkeypatch):
    ticks = iter(range(100))
    monkeypatch.setattr(
        "leaderboard.exchange.export.board_stamp", lambda: type("Stamp", (), {"kept": str(next(ticks))})
    )
    with pytest.raises(CommandError, match="changed while it was read"):
        run("export", str(tmp_path / "board"))
    assert not list(tmp_path.iterdir())


# What is refused

Rows = list[dict[str, Any]]


def edit(folder: Path, table: str, change: Callable[[Rows], object] | None) -> Path:
    """Change rows of a table, or take the table out of the description; hashes and sizes made right again."""
    path, package = folder / "tables" / f"{table}.parquet", json.loads((folder / "datapackage.json").read_text())
    resource = next(of for of in package["resources"] if of["name"] == table)
    if change:
        schema = pq.read_schema(path)
        rows = pq.read_table(path).to_pylist()
        change(rows)
        loose = pa.schema([pa.field(field.name, field.type) for field in schema])
        pq.write_table(pa.Table.from_pylist(rows, schema=loose), path)
    resource |= {"bytes": path.stat().st_size, "hash": f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"}
    (folder / "datapackage.json").write_text(json.dumps(package))
    return folder


@pytest.fixture
def package(exported: Exported, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(exported.folder, tmp_path / "package"))


def refused(path: Path) -> str:
    """Why an import of it is refused; nothing is there afterwards."""
    with pytest.raises(CommandError) as error:
        run("import_results", str(path))
    assert not LanguageModel.objects.exists()
    assert not Metric.objects.exists()
    assert not AuditEvent.objects.exists()
    return str(error.value)


def test_a_package_of_a_newer_format_is_refused(package):
    described = json.loads((package / "datapackage.json").read_text())
    described["plumbline_board"]["format"] = FORMAT + 1
    (package / "datapackage.json").write_text(json.dumps(described))
    assert f"format = {FORMAT + 1}: this Plumbline reads {FORMAT}; upgrade it" in refused(package)


@pytest.mark.parametrize("content", ["{", "[]", '{"resources": []}', '{"plumbline_board": {"format": "1"}}'])
def test_what_is_no_package_of_ours_is_refused(package, content):
    (package / "datapackage.json").write_text(content)
    assert "datapackage.json" in refused(package)


def test_what_is_not_there_or_no_zip_file_is_refused(tmp_path):
    assert "is not there" in refused(tmp_path / "nothing.zip")
    assert "datapackage.json is missing" in refused(tmp_path)
    (tmp_path / "text.zip").write_text("this is no zip file")
    assert "not a whole zip file" in refused(tmp_path / "text.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("letter.txt", "hello")
    assert refused(tmp_path / "other.zip").startswith("datapackage.json is missing")


def test_a_damaged_missing_or_foreign_file_is_named(package):
    path = package / "tables" / "results.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert "tables/results.parquet: has the hash" in refused(package)
    path.write_bytes(content + b"x")
    assert "tables/results.parquet: is not of the" in refused(package)
    path.unlink()
    assert "tables/results.parquet: is missing" in refused(package)
    path.write_bytes(b"these are no rows")
    assert "tables/results.parquet: is no Parquet file" in refused(edit(package, "results", None))


def test_a_description_that_names_a_file_elsewhere_is_refused(package):
    described = json.loads((package / "datapackage.json").read_text())
    described["resources"][1]["path"] = "../../etc/passwd"
    (package / "datapackage.json").write_text(json.dumps(described))
    assert "resource 2, path = '../../etc/passwd': not a file of such packages" in refused(package)


def test_a_description_that_leaves_out_a_table_is_refused(package):
    described = json.loads((package / "datapackage.json").read_text())
    described["resources"] = [one for one in described["resources"] if one["name"] != "standings"]
    (package / "datapackage.json").write_text(json.dumps(described))
    assert "datapackage.json, resources: tables/standings.parquet is not listed" in refused(package)


@pytest.mark.parametrize("size", [0, -1, "many", None, True, 10**15])
def test_a_size_that_no_file_has_is_refused(package, size):
    described = json.loads((package / "datapackage.json").read_text())
    described["resources"][0]["bytes"] = size
    (package / "datapackage.json").write_text(json.dumps(described))
    path = described["resources"][0]["path"]
    assert f"datapackage.json, resource {path}, bytes = {size!r}: not a size from 1 to" in refused(package)


def test_a_table_of_more_rows_than_a_board_holds_is_refused(package, monkeypatch):
    monkeypatch.setattr(packages, "MOST_ROWS", 1)
    assert re.search(r"tables/\w+.parquet: has [0-9,]+ rows, more than 1$", refused(package))


def test_a_zip_file_that_holds_more_than_it_says_is_not_unpacked(package, tmp_path):
    described = json.loads((package / "datapackage.json").read_text())
    (package / "tables" / "results.parquet").write_bytes(bytes(10**7))
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in package.rglob("*.*"):
            archive.write(path, path.relative_to(package))
    size = next(of["bytes"] for of in described["resources"] if of["name"] == "results")
    assert f"tables/results.parquet: is not of the {size:,} bytes" in refused(tmp_path / "bomb.zip")


WRONG: dict[str, tuple[str, Callable[[Rows], object], str]] = {
    "a value that is missing": ("results", lambda r: r[4].update(value=None), "row 5, field value: is empty"),
    "no number": ("results", lambda r: r[0].update(value=float("nan")), "row 1, field value: nan is no number"),
    "an unknown kind": ("models", lambda r: r[1].update(kind="psychic"), "row 2, field kind: 'psychic' is unknown"),
    "a formula of the future": (
        "metrics",
        lambda r: r[0].update(formula_name="x"),
        "field formula_name: 'x' is unknown",
    ),
    "a rank below 0": ("standings", lambda r: r[2].update(rank=-1), "row 3, field rank: -1 is out of range"),
    "too long a name": ("models", lambda r: r[0].update(name="x" * 201), "field name: has 201 characters"),
    "text that is no JSON": ("runs", lambda r: r[0].update(environment="{"), "row 1, field environment: is not JSON"),
    "a row twice": ("standings", lambda r: r.append(dict(r[0])), "is there twice"),
    "a row that nothing stands for": (
        "standings",
        lambda r: r[0].update(model="nobody"),
        "row 1, model = 'nobody': there is no such row in tables/models.parquet",
    ),
    "half a reference": (
        "scorings",
        lambda r: next(of for of in r if of["run_epoch"]).update(run_epoch=None),
        "run_epoch: some have a value and some not",
    ),
    "a check that is not there": (
        "versions",
        lambda r: next(of for of in r if of["opened_because"]).update(opened_because=10**6),
        "opened_because = 1000000: there is no such row",
    ),
    "a range without the rank": (
        "standings",
        lambda r: next(of for of in r if of["rank_low"]).update(rank_low=900),
        "breaks a rule of the board",
    ),
    "an edited protocol": (
        "protocols",
        lambda r: r[0].update(method="x"),
        "is not the hash of the protocol's parameters",
    ),
}


@pytest.mark.slow_cases
@pytest.mark.parametrize("what", WRONG)
def test_an_edited_package_is_refused_with_file_row_and_field(package, what):
    table, change, said = WRONG[what]
    found = refused(edit(package, table, change))
    assert found.startswith(f"tables/{table}.parquet")
    assert said in found
    assert found.rpartition(";")[2].strip()  # what to do


def test_a_column_that_is_missing_or_of_another_type_is_named(package):
    path = package / "tables" / "models.parquet"
    whole = pq.read_table(path)
    pq.write_table(whole.drop_columns(["family"]), path)
    assert "tables/models.parquet, field family: is missing" in refused(edit(package, "models", None))
    place = whole.column_names.index("layers")
    pq.write_table(whole.set_column(place, "layers", whole["layers"].cast(pa.string())), path)
    assert "field layers: is of type string, not int64" in refused(edit(package, "models", None))
    hours = pa.nulls(whole.num_rows, pa.timestamp("us", tz="somewhere\ufeff" + "else" * 100))
    pq.write_table(whole.set_column(place, "layers", hours), path)
    refusal = refused(edit(package, "models", None))
    assert r"field layers: is of type timestamp[us, tz=somewhere\ufeff" in refusal
    assert "else" * 50 not in refusal


def test_a_table_with_a_name_that_is_no_text_is_refused(package):
    path = package / "tables" / "models.parquet"
    path.write_bytes(path.read_bytes().replace(b"family", b"famil\xec"))
    assert "tables/models.parquet: is no Parquet file" in refused(edit(package, "models", None))


ADDED = {
    "artefacts": ("state",),
    "evaluation_sets": ("irregularities", "source", "languages"),
    "metrics": ("flag_policy", "most_missing", "brake_after", "labels", "chat_protocol"),
    "models": (
        *(name for name in FIELDS if name not in ("name", "family", "licence", "context", "notes")),
        *("source_name", "identity", "interface", "precision", "weight_format", "chat_template", "service_changed_at"),
    ),
    "versions": ("attributes", "undeclared", "most_missing", "fallback_measure", "chat_protocol"),
    "runs": ("loaded_files", "tokenizer_report", "self_test", "chat"),
    "scorings": ("texts", "texts_missing", "lost_files"),
    "results": ("missing_texts", "worst_low", "worst_high", "derived", "interval_derived"),
    "control_sets": ("check_version",),
    "rescorings": ("by_upgrade",),
}


def test_a_package_of_older_code_lacks_what_was_added_since_and_is_read(package):
    for table, columns in ADDED.items():
        path = package / "tables" / f"{table}.parquet"
        pq.write_table(pq.read_table(path).drop_columns(list(columns)), path)
        edit(package, table, None)
    run("import_results", str(package))
    assert set(Rescoring.objects.values_list("by_upgrade", flat=True)) == {False}
    assert set(ControlSet.objects.values_list("check_version", flat=True)) == {1}


def test_a_package_of_the_first_format_has_no_identities_and_is_read(package):
    path = package / "tables" / "models.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["identity", "source_name"]), path)
    edit(package, "models", None)
    later_tables = {table.name for table in TABLES if table.since > 1}
    for name in later_tables:
        (package / "tables" / f"{name}.parquet").unlink()
    description = json.loads((package / "datapackage.json").read_text())
    description["plumbline_board"]["format"] = 1
    description["resources"] = [entry for entry in description["resources"] if entry["name"] not in later_tables]
    (package / "datapackage.json").write_text(json.dumps(description))
    run("import_results", str(package))
    assert LanguageModel.objects.filter(slug="entrant-1", identity=None, source_name="").exists()
    assert not ModelIdentity.objects.exists()


# The download


@pytest.fixture
def imported(exported: Exported):
    run("import_results", str(exported.folder))


def test_before_the_first_export_the_download_says_so(client, db):
    response = client.get(reverse("board_download"))
    assert (response.status_code, response["Retry-After"]) == (503, "60")
    assert not downloads.is_due()  # a board without numbers has nothing to export


@pytest.mark.slow
def test_a_worker_writes_the_download_once_for_each_state(imported, client, settings, exported, tmp_path):
    assert downloads.is_due()
    tasks.export_board()
    tasks.export_board()
    assert len(downloads.list_exports()) == 1
    response = client.get(reverse("board_download"))
    (tmp_path / "board.zip").write_bytes(b"".join(response.streaming_content))
    assert response["Content-Type"] == "application/zip"
    with zipfile.ZipFile(tmp_path / "board.zip") as archive:
        assert archive.read("tables/standings.parquet") == (exported.folder / "tables/standings.parquet").read_bytes()
    assert client.get(reverse("board_download"), headers={"if-none-match": response["ETag"]}).status_code == 304
    assert reverse("board_download") in client.get(reverse("about")).content.decode()
    # A change is exported when the last export is old enough, and only the last two are kept.
    for number in range(3):
        set_access(LanguageModel.objects.get(slug="entrant-3"), ("open", "withdrawn")[number % 2], "to and fro")
        assert not downloads.is_due()
        settings.EXPORT_SECONDS = 0
        later = timezone.now() + timedelta(minutes=number + 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("leaderboard.exchange.downloads.database_now", lambda later=later: later)
            tasks.export_board()
        settings.EXPORT_SECONDS = 3600
    assert len(downloads.list_exports()) == downloads.KEPT
