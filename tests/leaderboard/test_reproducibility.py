"""What is published can be recomputed: by the board itself, and by anyone from a manifest."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import (
    Artefact,
    Calibration,
    ControlCheck,
    ControlSet,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    Result,
    Run,
    Scoring,
    Standing,
)
from leaderboard.services import artefacts, build
from leaderboard.services import verify as verification
from leaderboard.services.build import commit
from leaderboard.services.manifest import manifest, write_folder
from leaderboard.services.publish import publish_standings
from leaderboard.services.published import seed_published
from leaderboard.services.recollect import CannotRecollect
from leaderboard.services.score import score
from leaderboard.services.seed import seed_metrics
from leaderboard.services.versions import open_first_version
from scoring.__main__ import main
from scoring.evaluation_sets import FetchError
from scoring.manifest import ManifestError
from scoring.manifest_download import download
from scoring.metrics.formulas import FORMULAS
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.stored import (
    metric_of,
    run_of,
    runs_on,
    score_all,
    score_one,
    scores_table,
    true_scores,
    version_of,
)

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

PLAIN = {"profanity": lambda x: x}


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@pytest.fixture
def rude(db: None) -> MetricVersion:
    """Four models of continuations, with the scorer's own scores of the prompts too."""
    metric = metric_of("rude", "profanity")
    version = version_of(metric, "one")
    prompts = artefacts.load(metric.protocol.evaluation_set.artefact)
    table = scores_table(prompts["id"], pa.nulls(12, pa.int32()), PLAIN, true_scores(9)[:12])
    version.keep_prompt_scores(artefacts.store(table, "scores"))
    score_all(version, runs_on(metric), PLAIN)
    return version


@pytest.fixture
def safety(metric: Metric) -> MetricVersion:
    """Two models of likelihoods that nothing had to be run for."""
    texts = artefacts.load(metric.protocol.evaluation_set.artefact)
    version = open_first_version(metric)
    for number in range(2):
        generator = np.random.default_rng(number)
        tokens = [
            generator.normal(-4 - number, 1, size).astype(np.float32)
            for size in generator.integers(0, 9, texts.num_rows)
        ]
        table = pa.table(
            {
                "id": texts["id"],
                "token_log_likelihoods": pa.array(tokens, pa.list_(pa.float32())),
                "unscorable": [None if len(of) else "no tokens" for of in tokens],
                "windows": pa.array([1] * texts.num_rows, pa.int32()),
            }
        )
        model = LanguageModel.objects.create(
            slug=f"model-{number}", name=f"Model {number}", kind="causal", source="uploaded"
        )
        collected = Run.objects.create(
            model=model, protocol=metric.protocol, state="done", artefact=artefacts.store(table, "likelihoods")
        )
        score(Scoring.objects.create(run=collected, model=model, metric_version=version))
    version.refresh_from_db()
    return version


@pytest.mark.slow
def test_a_board_as_it_was_published_verifies(rude, safety):
    seed_published()
    out = run("verify")
    assert out.startswith("nothing differs: 16 versions")
    assert f"{Result.objects.count()} results" in out
    assert f"{Standing.objects.count()} ranks" in out
    assert run("verify", "rude").startswith("nothing differs: 1 versions, 4 entries")


def refused(*words: str) -> str:
    """What `verify` says of a board that differs."""
    out = StringIO()
    with pytest.raises(CommandError, match="differences in") as caught:
        call_command("verify", *words, stdout=out)
    assert caught.value.returncode == 1
    return out.getvalue()


@pytest.mark.slow_cases
@pytest.mark.parametrize("field", ["value", "ci_low", "ci_high", "n", "missing"])
def test_a_changed_number_is_found(rude, field):
    result = Result.objects.filter(scoring__model__slug="birch", measure="mean_toxicity").first()
    value = getattr(result, field)
    Result.objects.filter(pk=result.pk).update(
        **{field: value + 1 if field in ("n", "missing") else value * (1 + 1e-9)}
    )
    said = refused()
    assert f"rude v1, birch: mean_toxicity of {result.slice}: {field} is published as" in said


@pytest.mark.slow
def test_a_changed_p_value_of_a_likelihood_metric_is_found(safety):
    result = Result.objects.filter(p_value__isnull=False).first()
    Result.objects.filter(pk=result.pk).update(p_value=result.p_value / 2)
    assert f"{result.measure} of {result.slice}: p_value is published as" in refused("safety-starter")


@pytest.mark.slow
def test_a_missing_and_an_extra_number_are_found(rude):
    unranked = Result.objects.filter(measure="expected_max_toxicity_sd", scoring__model__slug="alder").first()
    name = unranked.slice
    unranked.delete()
    assert f"alder: expected_max_toxicity_sd of {name}: the artefacts give it, and it is not published" in refused()
    Result.objects.create(
        scoring=Scoring.objects.get(model__slug="cedar"), measure="toxic_fraction", slice="more", value=0.5
    )
    assert "cedar: toxic_fraction of more: is published, and the artefacts give no such number" in refused()


@pytest.mark.slow_cases
@pytest.mark.parametrize("which", ["artefact", "replicates", "run"])
def test_a_damaged_or_lost_file_is_found(rude, which):
    scoring = Scoring.objects.select_related("artefact", "replicates", "run__artefact").get(model__slug="damson")
    artefact = scoring.run.artefact if which == "run" else getattr(scoring, which)
    path = Path(default_storage.path(artefact.storage_name))
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        assert f"damson: artefact {artefact}: its bytes have the sha256" in refused()
        path.unlink()
        assert f"damson: artefact {artefact}: is not there" in refused()
    finally:
        path.write_bytes(whole)
    assert run("verify").startswith("nothing differs")


@pytest.mark.slow
def test_a_damaged_file_of_a_control_set_is_found(rude):
    items, reference = (
        artefacts.store(pa.table({"id": ["p0"], "log_perplexity": [value]}), "log_perplexities") for value in (1.5, 2.5)
    )
    ControlSet.objects.create(
        metric_version=rude, items=items, reference=reference, fingerprint=rude.scorer_fingerprint
    )
    assert run("verify").startswith("nothing differs")
    Path(default_storage.path(reference.storage_name)).unlink()
    assert f"rude v1: artefact {reference}: is not there" in refused()


def test_scores_that_are_whole_but_not_of_these_numbers_are_found(rude):
    scoring = Scoring.objects.get(model__slug="alder")
    other = Scoring.objects.get(model__slug="birch")
    Scoring.objects.filter(pk=scoring.pk).update(artefact=other.artefact)
    said = refused()
    assert "alder: mean_toxicity of profanity:all: value is published as" in said
    assert "alder: replicates of" in said
    assert "birch: mean" not in said


@pytest.mark.slow
def test_log_perplexities_that_are_not_those_of_the_likelihoods_are_found(safety):
    scoring = Scoring.objects.get(model__slug="model-0")
    table = artefacts.load(scoring.artefact)
    values = [value and value + 1e-6 for value in table["log_perplexity"].to_pylist()]
    changed = artefacts.store(pa.table({"id": table["id"], "log_perplexity": values}), "log_perplexities")
    Scoring.objects.filter(pk=scoring.pk).update(artefact=changed)
    assert "model-0: log-perplexities:" in refused("safety-starter")


@pytest.mark.slow
def test_ranks_that_do_not_follow_are_found(rude):
    standing = Standing.objects.filter(rank=2).first()
    Standing.objects.filter(pk=standing.pk).update(rank=1, rank_low=1)
    assert f"rank of {standing.model.slug} on {standing.measure} of {standing.slice}" in refused()
    Standing.objects.filter(pk=standing.pk).delete()
    assert "follows from the results, and is not published" in refused()


@pytest.mark.slow
def test_a_model_withdrawn_since_publication_is_no_difference(rude):
    LanguageModel.objects.filter(slug="birch").update(access="withdrawn")
    assert run("verify").startswith("nothing differs")
    publish_standings(rude)
    assert run("verify").startswith("nothing differs")


def test_published_figures_are_held_against_their_source(db):
    seed_figures()
    result = Result.objects.get(
        scoring__model__slug="helm-openai-davinci",
        scoring__metric_version__number=1,
        measure="toxic_fraction_unique",
        slice="toxic",
    )
    Result.objects.filter(pk=result.pk).update(published_rank=33)
    said = refused("rtp-helm-perspective")
    assert (
        "helm-openai-davinci: toxic_fraction_unique of toxic: entered as (0.105, None, 33), the source has "
        "(0.105, None, 34)" in said
    )
    assert "rtp-helm-perspective v2" not in said


@pytest.mark.slow
def test_intervals_decimals_ranks_and_sources_of_published_figures_are_held_too(db):
    seed_figures()
    version = MetricVersion.objects.get(metric__slug="safety-toxigen")
    interval = Result.objects.filter(scoring__metric_version=version, interval_derived=True).first()
    Result.objects.filter(pk=interval.pk).update(ci_low=0.0)
    assert f"{interval.measure} of {interval.slice}: interval (0.0, " in refused("safety-toxigen")
    Result.objects.filter(pk=interval.pk).update(ci_low=interval.ci_low)
    standing = version.standings.exclude(slice="average").first()
    Standing.objects.filter(pk=standing.pk).update(slice="martians")
    differences = refused("safety-toxigen")
    assert "of martians, population " in differences
    assert ": is published, and does not follow from the results" in differences
    Standing.objects.filter(pk=standing.pk).update(slice=standing.slice)
    MetricVersion.objects.filter(pk=version.pk).update(decimals=1)
    assert "decimals are 1, those of the source" in refused("safety-toxigen")
    MetricVersion.objects.filter(pk=version.pk).update(source="A paper that nobody wrote")
    assert "A paper that nobody wrote is no source that comes with this code" in run("verify", "safety-toxigen")


def upgrade(monkeypatch, *changed: str) -> None:
    """Let the formula be of the next version, which defines these measures otherwise."""
    formula = FORMULAS["toxicity"]
    version = formula.version + 1
    measures = {
        key: replace(measure, since=version) if key in changed else measure for key, measure in formula.measures.items()
    }

    def measure(collected):
        found = formula.measure(collected)
        return [replace(one, value=one.value / 2) if one.measure in changed else one for one in found]

    newer = replace(
        formula, version=version, changes={**formula.changes, version: "It halves."}, measures=measures, measure=measure
    )
    monkeypatch.setitem(FORMULAS, "toxicity", newer)


@pytest.mark.slow
def test_of_an_older_formula_the_measures_that_did_not_change_are_recomputed_and_the_others_named(rude, monkeypatch):
    before = FORMULAS["toxicity"].version
    upgrade(monkeypatch, "mean_toxicity")
    out = run("verify")
    note = (
        f"rude v1: not recomputed: mean_toxicity, as numbers of an older formula: they are of version {before} of the "
        f"formula toxicity, this code has {before + 1}; their files were hashed"
    )
    assert note in out
    assert "rude v1: ranks on mean_toxicity, for the same reason" in out
    numbers = Result.objects.exclude(measure="mean_toxicity").count()
    ranks = Standing.objects.exclude(measure="mean_toxicity").count()
    assert f"nothing differs: 1 versions, 4 entries, {numbers} results, {ranks} ranks" in out
    changed = Result.objects.filter(measure="toxic_fraction").first()
    Result.objects.filter(pk=changed.pk).update(value=changed.value + 0.01)
    assert "toxic_fraction of" in refused()


def test_of_a_formula_newer_than_the_code_nothing_is_recomputed_and_it_says_so(rude):
    MetricVersion.objects.filter(pk=rude.pk).update(formula_version=99)
    out = run("verify")
    assert "as numbers of a newer formula: they are of version 99 of the formula toxicity, this code has" in out
    assert "4 entries, 0 results, 0 ranks" in out


def test_a_formula_that_does_not_take_what_older_numbers_were_made_of_claims_nothing(rude, monkeypatch):
    upgrade(monkeypatch, "mean_toxicity")

    def refuse(_collected):
        raise ValueError("attribute profanity: undeclared")

    monkeypatch.setitem(FORMULAS, "toxicity", replace(FORMULAS["toxicity"], measure=refuse))
    out = run("verify")
    assert "(attribute profanity: undeclared); their files were hashed" in out
    assert "4 entries, 0 results" in out


@pytest.mark.slow
def test_a_changed_derived_figure_is_found(db):
    seed_metrics()
    seed_published()
    figure = Result.objects.filter(derived=True).first()
    Result.objects.filter(pk=figure.pk).update(value=figure.value + 1e-6)
    assert f"{figure.measure} of average: stored as derived" in refused("safety-toxigen")


def test_a_verification_counts_what_it_read_of_the_published_versions_that_were_asked_for(rude, monkeypatch):
    other = version_of(metric_of("other", "profanity"), "one")
    runs = list(Run.objects.order_by("model__name"))
    score_all(other, runs[:2], PLAIN)
    candidate = version_of(rude.metric, "two")
    score_one(candidate, runs[0], 7, PLAIN)
    Scoring.objects.create(model=run_of("Elm", rude.metric).model, metric_version=other)
    recollected = []

    def recollect(run: Run, size: int) -> tuple[int, list[str]]:
        recollected.append((run.pk, size))
        if run == runs[1]:
            raise CannotRecollect("its model is not here")
        return size, ["a text differs"] if run == runs[2] else []

    monkeypatch.setattr(verification, "recollect", recollect)
    steps = []
    report = verification.verify(rude.metric, lambda *step: steps.append(step))
    assert steps == [(number, 4) for number in range(1, 5)]
    assert (report.versions, report.entries, report.artefacts, report.recollected) == (1, 4, 15, 0)
    assert (report.results, report.standings) == (
        Result.objects.filter(scoring__metric_version=rude).count(),
        rude.standings.count(),
    )
    assert (report.absent, report.differences, report.not_recomputed, recollected) == (0, [], [], [])
    steps.clear()
    report = verification.verify(None, lambda *step: steps.append(step), sample_size=3)
    assert steps == [(number, 6) for number in range(1, 7)]
    assert (report.versions, report.entries, report.recollected) == (2, 6, 9)
    assert sorted(recollected) == [(run.pk, 3) for run in runs], "each run once"
    assert [str(one) for one in report.differences] == ["rude v1, cedar: a text differs"]
    assert report.not_recomputed == [
        f"{runs[1]}: no text was taken through the model again: its model is not here",
    ]


def test_ranks_that_cannot_be_recomputed_are_told_and_ranges_that_are_due_are_not_held_against_them(rude, monkeypatch):
    MetricVersion.objects.filter(pk=rude.pk).update(ranges_due=True)
    Standing.objects.filter(metric_version=rude, rank=2).update(rank_low=1)
    report = verification.verify(rude.metric)
    assert report.differences == []
    assert report.not_recomputed == ["rude v1: ranges of ranks, which the next watch makes anew"]
    MetricVersion.objects.filter(pk=rude.pk).update(ranges_due=False)
    file = Scoring.objects.filter(metric_version=rude).first().replicates

    def lose(*_arguments: object) -> None:
        raise artefacts.ArtefactLost(file, "is not there")

    monkeypatch.setattr(verification, "influences", lose)
    (difference,) = verification.verify(rude.metric).differences
    assert str(difference).startswith("rude v1: ranks cannot be recomputed: ")

    def refuse(*_arguments: object) -> None:
        raise ValueError("the table lacks a column")

    monkeypatch.setattr(verification, "influences", refuse)
    (difference,) = verification.verify(rude.metric).differences
    assert str(difference) == "rude v1: ranks cannot be recomputed: the table lacks a column"


def test_the_files_of_a_watch_are_those_of_the_versions_own_checks_and_calibrations(rude):
    other = version_of(rude.metric, "two")
    files = [
        Artefact.objects.create(sha256=f"{number:064x}", kind="scores", rows=1, size=1, schema_version=1)
        for number in range(8)
    ]
    texts = rude.protocol.evaluation_set
    for version, (items, reference, scores, labelled) in ((other, files[:4]), (rude, files[4:])):
        control = ControlSet.objects.create(
            metric_version=version, items=items, reference=reference, fingerprint="e" * 64
        )
        for artefact, verdict in ((scores, "stable"), (None, "unavailable")):
            ControlCheck.objects.create(
                metric=rude.metric,
                control_set=control,
                trigger="manual",
                artefact=artefact,
                verdict=verdict,
                state="done",
            )
        Calibration.objects.create(metric_version=version, evaluation_set=texts, artefact=labelled)
    unkept = EvaluationSet.objects.create(slug="unkept", title="Unkept", kind="prompts")
    Calibration.objects.create(metric_version=rude, evaluation_set=unkept)
    assert list(verification.of_controls(rude)) == files[4:]


def test_verifying_costs_no_query_an_entry_but_its_own_files(rude):
    with CaptureQueriesContext(connection) as caught:
        run("verify")
    assert len(caught) <= 10


@pytest.fixture
def folder(rude, tmp_path) -> Path:
    """The manifest of a version with its artefacts."""
    run("manifest", "rude", "--output", str(tmp_path / "out"))
    return tmp_path / "out"


def checked(folder: Path, capsys) -> tuple[int, str]:
    """The exit status of the check, and what it says."""
    capsys.readouterr()
    code = main(["check-manifest", str(folder)])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def rewrite(folder: Path, change) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.slow
def test_a_manifest_and_its_artefacts_are_checked_without_the_board(folder, capsys):
    code, said = checked(folder, capsys)
    assert code == 0
    content = json.loads((folder / "manifest.json").read_text())
    count = sum(len(entry["results"]) for entry in content["entries"])
    assert "rude version 1: no problems; 15 artefacts hashed" in said
    assert f"{count} numbers of 4 entries recomputed" in said
    assert count == Result.objects.count()
    alone = subprocess.run(
        [sys.executable, "-m", "scoring", "check-manifest", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "DJANGO_SETTINGS_MODULE": "there.is.none", "OMP_NUM_THREADS": "1"},
    )
    assert (alone.returncode, "no problems" in alone.stdout) == (0, True)


def test_the_manifest_names_all_that_the_numbers_are_made_of(folder, rude):
    content = json.loads((folder / "manifest.json").read_text())
    entries, standings, files = content.pop("entries"), content.pop("standings"), content.pop("artefacts")
    code = content.pop("code")
    texts = rude.protocol.evaluation_set
    assert content == {
        "plumbline_manifest": 1,
        "metric": {"slug": "rude", "title": "Rude", "measure": rude.metric.measure},
        "version": {
            "number": 1,
            "provenance": "measured",
            "status": "current",
            "published_at": rude.published_at.isoformat(),
            "source": "",
            "decimals": None,
            "epoch": 1,
            "most_missing": 0.05,
        },
        "scorer": {
            "name": "profanity",
            "fingerprint": rude.scorer_fingerprint,
            "attributes": [{"name": "profanity", "meaning": "harm", "threshold": 0.5}],
            "undeclared": [],
        },
        "formula": {"name": "toxicity", "version": FORMULAS["toxicity"].version},
        "protocol": {
            "method": "rtp",
            "parameters": rude.protocol.parameters,
            "sha256": rude.protocol.sha256,
        },
        "chat_protocol": None,
        "evaluation_set": {
            "slug": "real-toxicity-prompts-sample",
            "version": 1,
            "title": texts.title,
            "licence": texts.licence,
            "citation": texts.citation,
            "source": texts.source,
            "notice": texts.notice,
            "artefact": texts.artefact.sha256,
            "prompt_scores": texts.prompt_scores.sha256,
        },
        "prompt_scores": rude.prompt_scores.sha256,
    }
    assert texts.licence != ""
    assert rude.protocol.parameters["k"] == 3
    assert (code["version"], code["libraries"]["numpy"]) == (build.code()["version"], np.__version__)
    assert [entry["model"]["slug"] for entry in entries] == ["alder", "birch", "cedar", "damson"]
    rows = rude.standings.values(*("measure", "slice", "population", "model__slug", "rank", "rank_low", "rank_high"))
    assert len(standings) == len(rows)
    assert standings == [{key.removesuffix("__slug"): value for key, value in row.items()} for row in rows]
    own_files = [texts.artefact, texts.prompt_scores, rude.prompt_scores]
    for scoring in Scoring.objects.select_related("run__artefact", "artefact", "replicates"):
        own_files += [scoring.run.artefact, scoring.artefact, scoring.replicates]
    assert files == {
        file.sha256: {
            "kind": file.kind,
            "rows": file.rows,
            "size": file.size,
            "schema_version": file.schema_version,
            "path": f"artefacts/{file.sha256}.parquet",
            "url": f"/artefacts/{file.sha256}.parquet",
        }
        for file in own_files
    }
    assert json.loads(json.dumps(content)) == content  # as any program reads it
    assert (folder / "manifest.json").read_text().startswith('{\n "plumbline_manifest": 1,\n')


def test_an_entry_of_the_manifest_says_whose_it_is_and_what_its_numbers_are_made_of(rude):
    run = Run.objects.get(model__slug="cedar")
    LanguageModel.objects.filter(pk=run.model_id).update(
        family="Conifers",
        source="hub",
        location="forest/cedar",
        revision="0123abc",
        precision="float16",
        weight_format="bfloat16",
        chat_template="a" * 64,
        licence="MIT",
    )
    changes = {"special_tokens": "[CLS] text", "loaded_files": [{"name": "a.safetensors"}], "self_test": {"ok": True}}
    Run.objects.filter(pk=run.pk).update(**changes, chat={"opening": "Hello"})
    cedar = next(one for one in manifest(rude)["entries"] if one["model"]["slug"] == "cedar")
    scoring = Scoring.objects.get(model__slug="cedar")
    results = cedar.pop("results")
    assert cedar == {
        "model": {
            "slug": "cedar",
            "name": "Cedar",
            "family": "Conifers",
            "kind": "causal",
            "interface": "text",
            "chat_template": "a" * 64,
            "source": "hub",
            "hub_id": "forest/cedar",
            "revision": "0123abc",
            "precision": "float16",
            "weight_format": "bfloat16",
            "licence": "MIT",
        },
        "run": {
            "artefact": run.artefact.sha256,
            "epoch": 1,
            "environment": {"python": "3.11"},
            **changes,
            "protocol": rude.protocol.sha256,
            "chat": {"opening": "Hello"},
        },
        "scores": scoring.artefact.sha256,
        "replicates": scoring.replicates.sha256,
        "scored_at": scoring.scored_at.isoformat(),
        "texts": 36,
        "texts_missing": 0,
        "not_ranked": None,
    }
    fields = ("value", "ci_low", "ci_high", "n", "missing", "missing_texts", "worst_low", "worst_high")
    fields = (*fields, "p_value", "p_adjusted")
    described = ("measure", "slice", "published_rank", "derived", "interval_derived", *fields)
    assert results == list(scoring.results.order_by("measure", "slice").values(*described))
    alder = next(one for one in manifest(rude)["entries"] if one["model"]["slug"] == "alder")
    assert (alder["model"]["hub_id"], alder["model"]["chat_template"], alder["run"]["chat"]) == (None, None, None)


def test_a_manifest_is_written_whole_with_its_files_in_their_order(rude, tmp_path):
    steps = []
    LanguageModel.objects.filter(slug="cedar").update(name="Zéder")
    path = write_folder(rude, tmp_path / "far" / "away", lambda *step: steps.append(step))
    assert path == tmp_path / "far" / "away" / "manifest.json"
    assert steps == [(number, 15) for number in range(1, 16)]
    assert "Zéder" in path.read_text()
    for file in Artefact.objects.filter(sha256__in=json.loads(path.read_text())["artefacts"]):
        assert (path.parent / f"artefacts/{file.sha256}.parquet").read_bytes() == file_bytes(file)
    assert not [file.name for file in path.parent.rglob(".*")]


def file_bytes(file: Artefact) -> bytes:
    """What the storage has of it."""
    return Path(default_storage.path(file.storage_name)).read_bytes()


def test_the_manifest_of_a_version_names_nothing_of_another_one(rude):
    other = version_of(rude.metric, "two")
    runs = list(Run.objects.order_by("model__name"))
    score_all(other, runs[:1], PLAIN)
    assert [entry["model"]["slug"] for entry in manifest(other)["entries"]] == ["alder"]
    assert len(manifest(rude)["entries"]) == 4
    LanguageModel.objects.filter(slug="birch").update(hidden_note="By mistake.")
    content = manifest(rude)
    assert [entry["model"]["slug"] for entry in content["entries"]] == ["alder", "cedar", "damson"]
    assert {row["model"] for row in content["standings"]} == {"alder", "cedar", "damson"}


@pytest.mark.slow
def test_likelihood_metrics_are_checked_too(safety, tmp_path, capsys):
    run("manifest", "safety-starter", "--metric-version", "1", "--output", str(tmp_path / "out"))
    code, said = checked(tmp_path / "out", capsys)
    assert (code, "no problems" in said) == (0, True)


def test_published_figures_have_a_manifest_without_artefacts(db, tmp_path, capsys):
    seed_figures()
    run("manifest", "rtp-helm-perspective", "--metric-version", "1", "--output", str(tmp_path / "out"))
    code, said = checked(tmp_path / "out", capsys)
    assert code == 0
    assert "there are no artefacts to recompute them from" in said


def test_a_tampered_artefact_is_found(folder, capsys):
    victim = sorted((folder / "artefacts").iterdir())[0]
    victim.write_bytes(victim.read_bytes() + b" ")
    code, said = checked(folder, capsys)
    assert code == 1
    assert f"{victim.name}" in said
    assert "its bytes have the sha256" in said


def test_nothing_is_recomputed_from_a_file_whose_hash_is_another_whatever_it_holds(folder, capsys):
    content = json.loads((folder / "manifest.json").read_text())
    scores, texts = content["entries"][0]["scores"], content["evaluation_set"]["artefact"]
    for sha256, problem in ((scores, "alder: cannot be recomputed"), (texts, "nothing was recomputed")):
        path = folder / "artefacts" / f"{sha256}.parquet"
        pq.write_table(pq.read_table(path), path, compression="none")  # the same values in other bytes
        code, output = checked(folder, capsys)
        assert code == 1
        assert f"{problem}: artefacts/{sha256}.parquet is not whole" in output


def test_scores_exchanged_under_a_hash_of_their_own_are_found_by_the_numbers(folder, capsys):
    content = json.loads((folder / "manifest.json").read_text())
    sha256 = content["entries"][0]["scores"]
    path = folder / "artefacts" / f"{sha256}.parquet"
    table = pq.read_table(path)
    better = pa.array(np.minimum(table["score:profanity"].to_numpy(), 0.4), pa.float32())
    table = table.set_column(table.column_names.index("score:profanity"), "score:profanity", better)
    new = artefacts.store(table, "scores")
    shutil.copy(default_storage.path(new.storage_name), folder / "artefacts" / f"{new.sha256}.parquet")

    def exchange(content):
        content["artefacts"][new.sha256] = content["artefacts"].pop(sha256)
        content["entries"][0]["scores"] = new.sha256

    rewrite(folder, exchange)
    code, said = checked(folder, capsys)
    assert code == 1
    assert "alder: toxic_fraction of profanity:all: value is published as" in said


@pytest.mark.slow
def test_a_missing_artefact_is_found(folder, capsys):
    victim = sorted((folder / "artefacts").iterdir())[-1]
    victim.unlink()
    code, said = checked(folder, capsys)
    assert code == 1
    assert f"{victim.name}" in said
    assert "is missing: download it" in said


@pytest.mark.slow
@pytest.mark.parametrize("field", ["value", "ci_low", "n"])
def test_a_changed_number_in_the_manifest_is_found(folder, capsys, field):
    def change(content):
        content["entries"][1]["results"][0][field] += 1e-6 if field != "n" else 1

    rewrite(folder, change)
    code, said = checked(folder, capsys)
    assert code == 1
    assert f"{field} is published as" in said
    assert "birch" in said


def test_exchanged_ranks_in_the_manifest_are_found(folder, capsys):
    def change(content):
        board = [row for row in content["standings"] if row["measure"] == "mean_toxicity"]
        first, last = min(board, key=lambda row: row["rank"]), max(board, key=lambda row: row["rank"])
        first["rank"], last["rank"] = last["rank"], first["rank"]

    rewrite(folder, change)
    code, said = checked(folder, capsys)
    assert code == 1
    assert "do not follow from their values" in said


def test_a_dropped_result_is_found(folder, capsys):
    rewrite(folder, lambda content: content["entries"][2]["results"].pop())
    code, said = checked(folder, capsys)
    assert (code, "cedar" in said, "is not published" in said) == (1, True, True)


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(plumbline_manifest=2), "upgrade Plumbline"),
        (lambda content: content.pop("entries"), "is not whole: KeyError('entries')"),
        (lambda content: content.update(plumbline_manifest="1"), "is no manifest of Plumbline"),
        (lambda content: content["artefacts"].update({"../../etc/passwd": {"kind": "scores"}}), "is no sha256"),
    ],
)
def test_what_is_no_manifest_is_refused(folder, capsys, change, said):
    rewrite(folder, change)
    code, output = checked(folder, capsys)
    assert code == 2
    assert said in output


def test_a_folder_without_a_manifest_is_refused(tmp_path, capsys):
    code, said = checked(tmp_path, capsys)
    assert code == 2
    assert "holds no manifest.json" in said
    (tmp_path / "manifest.json").write_text("{")
    assert checked(tmp_path, capsys)[0] == 2


@pytest.mark.slow
def test_an_older_version_of_the_formula_is_noted_and_its_ranks_are_checked(folder, capsys):
    rewrite(folder, lambda content: content["formula"].update(version=1))
    code, said = checked(folder, capsys)
    assert code == 0
    version = FORMULAS["toxicity"].version
    assert (
        f"as numbers of an older formula: they are of version 1 of the formula toxicity, this code has {version}"
        in said
    )
    assert f"Plumbline {build.code()['version']} recomputes them" in said
    rewrite(folder, lambda content: content["standings"][0].update(rank=99))
    assert checked(folder, capsys)[0] == 1


def test_a_newer_version_of_the_formula_is_a_problem_that_names_the_code_to_take(folder, capsys):
    rewrite(folder, lambda content: content["formula"].update(version=7))
    code, said = checked(folder, capsys)
    assert code == 1
    assert f"Use Plumbline {build.code()['version']}" in said


def test_a_manifest_of_an_older_formula_is_recomputed_as_far_as_it_can_be(folder, capsys, monkeypatch):
    upgrade(monkeypatch, "mean_toxicity")
    code, said = checked(folder, capsys)
    assert code == 0
    assert "not recomputed: mean_toxicity, as numbers of an older formula" in said
    assert f"; Plumbline {build.code()['version']} recomputes them" in said
    numbers = Result.objects.exclude(measure="mean_toxicity").count()
    assert f"{numbers} numbers of 4 entries recomputed" in said


def test_writing_again_keeps_the_folder_and_a_damaged_board_writes_none(rude, folder, tmp_path):
    before = (folder / "manifest.json").read_bytes()
    run("manifest", "rude", "--output", str(folder))
    assert (folder / "manifest.json").read_bytes() == before
    path = Path(default_storage.path(rude.prompt_scores.storage_name))
    whole = path.read_bytes()
    try:
        path.write_bytes(b"nothing")
        with pytest.raises(CommandError, match=r"manage\.py verify rude"):
            run("manifest", "rude", "--output", str(tmp_path / "other"))
    finally:
        path.write_bytes(whole)
    assert not (tmp_path / "other" / "manifest.json").exists()


def over_http(client, spoil=lambda content: content) -> httpx.Client:
    """The board behind an HTTP client; `spoil` changes the bytes of files on their way."""

    def answer(request: httpx.Request) -> httpx.Response:
        found = client.get(request.url.path)
        content = spoil(b"".join(found.streaming_content)) if found.streaming else found.content
        return httpx.Response(found.status_code, stream=httpx.ByteStream(content))

    return httpx.Client(transport=httpx.MockTransport(answer))


@pytest.mark.slow
def test_anyone_can_download_a_manifest_and_every_file_it_names(client, rude, tmp_path, capsys):
    with over_http(client) as session:
        withheld = download("https://board.example/metrics/rude/versions/1/manifest.json", tmp_path, client=session)
    assert withheld == []
    assert len(list((tmp_path / "artefacts").iterdir())) == 15
    assert checked(tmp_path, capsys)[0] == 0


def test_what_is_downloaded_damaged_is_not_kept(client, rude, tmp_path):
    with over_http(client, lambda content: content[:-1] + b"?") as session, pytest.raises(FetchError, match="sha256"):
        download("https://board.example/metrics/rude/versions/1/manifest.json", tmp_path, client=session)
    assert not list((tmp_path / "artefacts").glob("*.parquet"))


def test_an_address_without_a_manifest_is_refused(client, rude, tmp_path):
    with over_http(client) as session:
        for path in ("metrics/rude/versions/9/manifest.json", "healthz"):
            with pytest.raises(ManifestError, match=r"https://board\.example|no manifest"):
                download(f"https://board.example/{path}", tmp_path, client=session)


def test_a_file_is_sent_once_and_then_kept_for_ever(client, rude):
    sha256 = Scoring.objects.first().artefact.sha256
    address = f"/artefacts/{sha256}.parquet"
    first = client.get(address)
    path = Path(default_storage.path(f"{sha256[:2]}/{sha256}.parquet"))
    assert b"".join(first.streaming_content) == path.read_bytes()
    assert first["ETag"] == f'"{sha256}"'
    assert {part.strip() for part in first["Cache-Control"].split(",")} == {"public", "max-age=31536000", "immutable"}
    assert first["Content-Disposition"] == f'attachment; filename="{sha256}.parquet"'
    again = client.get(address, headers={"If-None-Match": f'"{sha256}"'})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", f'"{sha256}"')
    assert client.head(address).status_code == 200
    assert client.post(address).status_code == 405


@pytest.mark.slow
def test_only_what_a_published_manifest_names_may_be_downloaded(client, rude):
    def status(artefact: Artefact) -> int:
        return client.head(f"/artefacts/{artefact.sha256}.parquet").status_code

    texts = rude.protocol.evaluation_set
    scoring = Scoring.objects.get(model__slug="birch")
    own = [scoring.artefact, scoring.replicates, scoring.run.artefact]
    assert [status(of) for of in [*own, texts.artefact, texts.prompt_scores, rude.prompt_scores]] == [200] * 6
    stray = artefacts.store(pa.table({"id": ["p0"], "log_perplexity": [1.25]}), "log_perplexities")
    assert status(stray) == 404
    candidate = score_one(version_of(rude.metric, "two"), scoring.run, 7, PLAIN)
    assert status(candidate.artefact) == 404
    LanguageModel.objects.filter(slug="birch").update(access="withdrawn")
    assert [status(of) for of in own] == [404] * 3
    content = client.get("/metrics/rude/versions/1/manifest.json").json()
    assert "birch" not in {entry["model"]["slug"] for entry in content["entries"]}
    assert client.get(f"/artefacts/{'0' * 64}.parquet").status_code == 404
    assert client.get("/artefacts/../secret_key.parquet").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("licence", ["", "MIT for the code; none stated for this file", "Not stated for the sentences"])
def test_texts_without_a_stated_licence_are_named_but_not_passed_on(client, rude, folder, capsys, licence):
    EvaluationSet.objects.filter(pk=rude.protocol.evaluation_set_id).update(licence=licence)
    texts = rude.protocol.evaluation_set.artefact
    assert client.get(f"/artefacts/{texts.sha256}.parquet").status_code == 404
    content = client.get("/metrics/rude/versions/1/manifest.json").json()
    assert content["artefacts"][texts.sha256]["url"] is None
    (folder / "manifest.json").write_text(json.dumps(content))
    assert checked(folder, capsys)[0] == 0  # who has the texts can check
    (folder / "artefacts" / f"{texts.sha256}.parquet").unlink()
    code, said = checked(folder, capsys)
    assert code == 1
    assert "boards do not pass on real-toxicity-prompts-sample" in said


def test_a_candidate_has_no_manifest(client, rude):
    version_of(rude.metric, "two")
    assert client.get("/metrics/rude/versions/2/manifest.json").status_code == 404
    assert "no published version 2" in client.get("/metrics/rude/versions/2/manifest.json").content.decode()


@pytest.mark.slow
def test_a_manifest_takes_a_constant_number_of_queries(client, rude):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            assert client.get("/metrics/rude/versions/1/manifest.json").status_code == 200
        return len(caught)

    before = queries()
    for number, name in enumerate(("Elm", "Fir", "Gum")):
        score_one(rude, run_of(name, rude.metric), number, PLAIN)
    publish_standings(rude)
    assert queries() == before <= 6


def test_the_commit_is_read_from_gits_own_files(tmp_path):
    assert commit(tmp_path) is None
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text(f"# pack-refs\n{'a' * 40} refs/heads/main\n")
    assert commit(tmp_path) == "a" * 40
    (git / "refs" / "heads" / "main").write_text(f"{'b' * 40}\n")
    assert commit(tmp_path) == "b" * 40
    (git / "HEAD").write_text(f"{'c' * 40}\n")
    assert commit(tmp_path) == "c" * 40
