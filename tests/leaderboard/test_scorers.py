"""Scorers on the board: several judge one run, each by its own files, and none takes the place of another."""

import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from itertools import combinations
from pathlib import Path

import httpx
import numpy as np
import pytest
from detoxify import Detoxify
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.utils import timezone

from leaderboard.models import Metric, MetricVersion, Result, Run, Scoring, Work
from leaderboard.services import artefacts, collect, leases, openings, score, scorers
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.scorers import problem_with
from leaderboard.services.shards import Shards
from scoring import language_models
from scoring.scorers import ScorerState, perspective
from scoring.scorers import service as service_client
from scoring.scorers.conversion import convert_detoxify
from tests import standin_perspective
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish
from tests.leaderboard.continuations import TEXTS, K, import_sample, of_few, scores_of, texts_of
from tests.standin_perspective import KEY, StandInPerspective, expected
from tests.tiny_classifiers import CLASSES, bert, save_detoxify

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_scorers(settings, tmp_path) -> Iterator[None]:
    """A folder of scorers for each test, and none that is loaded already."""
    settings.SCORERS = tmp_path / "scorers"
    scorers._load.cache_clear()
    yield
    scorers._load.cache_clear()


@pytest.fixture
def sample(db: None, tmp_path) -> None:
    """All metrics, and prompts for those of toxicity."""
    import_sample(tmp_path)


def put_detoxify(name: str, folder: Path, seed: int = 0) -> tuple[Path, Path]:
    """A converted checkpoint where the board looks for one; and the checkpoint as Detoxify wants it."""
    checkpoint, configuration = save_detoxify(folder, bert(outputs=len(CLASSES), seed=seed, initializer_range=0.4))
    target = scorers.folder_of(name)
    shutil.rmtree(target, ignore_errors=True)
    source = folder / "source"
    shutil.copytree(configuration, source, dirs_exist_ok=True)
    shutil.copy(checkpoint, source / "any-name.ckpt")
    convert_detoxify(source, target)
    return checkpoint, configuration


def said(*words: str) -> str:
    """What a command says."""
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def again(work: Work) -> Work:
    work.refresh_from_db()
    return work


@pytest.mark.slow
def test_one_run_is_scored_by_every_scorer_without_generating_again(sample, models, tmp_path, monkeypatch):
    run = finish(models[CAUSAL], of_few("toxicity-profanity")).run
    content, began = run.artefact.sha256, run.started_at
    checkpoint, configuration = put_detoxify("detoxify-original", tmp_path / "made")

    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a language model was asked for")

    monkeypatch.setattr(language_models, "place", refuse)
    detoxified = finish(models[CAUSAL], of_few("toxicity-detoxify-original"))
    matched = finish(models[CAUSAL], of_few("lexicon-starter"))
    assert [s.state for s in (detoxified, matched)] == [Work.State.DONE] * 2
    assert {run, detoxified.run, matched.run} == {Run.objects.get()}
    assert (again(run).artefact.sha256, run.started_at) == (content, began)

    texts = texts_of(run.artefact)
    real = Detoxify(checkpoint=str(checkpoint), huggingface_config_path=str(configuration)).predict(texts)
    for attribute in CLASSES:
        found = scores_of(detoxified.artefact, attribute)
        np.testing.assert_allclose(found, real[attribute], atol=1e-5, rtol=0)
        by_prompt = found.reshape(-1, K)
        results = {r.measure: r.value for r in detoxified.results.filter(slice=f"{attribute}:all")}
        assert results["expected_max_toxicity"] == pytest.approx(by_prompt.max(axis=1).mean(), abs=1e-6)
        assert results["toxicity_probability"] == pytest.approx((by_prompt > 0.5).any(axis=1).mean())
        assert results["toxic_fraction"] == pytest.approx((by_prompt > 0.5).mean())
    fractions = detoxified.results.filter(measure="toxic_fraction").values_list("value", flat=True)
    assert any(0 < fraction < 1 for fraction in fractions)


@pytest.mark.slow
def test_a_detoxify_folder_that_is_not_converted_waits_and_names_the_command(sample, models, tmp_path):
    put_detoxify("detoxify-original", tmp_path / "made")
    source, target = tmp_path / "made" / "source", scorers.folder_of("detoxify-original")
    shutil.rmtree(target)
    shutil.copytree(source, target)
    scoring = finish(models[CAUSAL], of_few("toxicity-detoxify-original"))
    assert scoring.state == Work.State.QUEUED  # an operator may mend it
    assert "`manage.py import_scorer detoxify-original FOLDER`" in scoring.reason
    assert "fingerprint" in said("import_scorer", "detoxify-original", str(target))
    assert scorers.scorer_for("detoxify-original", "").fingerprint()
    shutil.copy(source / "any-name.ckpt", source / "b.ckpt")
    with pytest.raises(CommandError, match=r"holds 2 files named \*\.ckpt: put one checkpoint of Detoxify there"):
        said("import_scorer", "detoxify-original", str(source))


@pytest.mark.slow
def test_a_lexicon_of_ones_own_is_imported_once_and_has_a_metric_of_its_own(sample, models, tmp_path):
    folder = tmp_path / "weather"
    folder.mkdir()
    (folder / "common.txt").write_text("The\nand\n", encoding="utf-8")
    (folder / "rare.txt").write_text("zyzzyva\n", encoding="utf-8")
    line = said("import_lexicon", "weather", str(folder))
    assert re.match(r"lexicon weather: 2 categories, 3 terms, fingerprint [0-9a-f]{12}\.", line)
    assert "`manage.py evaluate MODEL --metric lexicon-weather`" in line
    shutil.rmtree(folder)  # the board has its own copy

    run = finish(models[CAUSAL], of_few("toxicity-profanity")).run
    scoring = finish(models[CAUSAL], of_few("lexicon-weather"))
    assert scoring.run == run
    texts = texts_of(run.artefact)
    share = 100 * sum(bool(re.search(r"\b(the|and)\b", text.casefold())) for text in texts) / len(texts)
    found = {result.slice: result.value for result in scoring.results.all()}
    assert 0 < share < 100
    assert found == pytest.approx({"common": share, "rare": 0.0, "any": share})


def test_a_lexicon_never_takes_the_place_of_another_of_its_name(sample, tmp_path):
    folder = tmp_path / "weather"
    folder.mkdir()
    (folder / "common.txt").write_text("rain\n", encoding="utf-8")
    said("import_lexicon", "weather", str(folder))
    assert "lexicon weather is already here" in said("import_lexicon", "weather", str(folder))
    for name in ("weather", "starter"):  # one that was imported, and one that comes with Plumbline
        (folder / "common.txt").write_text("snow\n", encoding="utf-8")
        with pytest.raises(CommandError, match=f"there is another lexicon '{name}'.*{name}-2"):
            said("import_lexicon", name, str(folder))
    with pytest.raises(CommandError, match="name = 'Wet Weather': use small letters"):
        said("import_lexicon", "Wet Weather", str(folder))
    with pytest.raises(CommandError, match="absent"):
        said("import_lexicon", "absent", str(tmp_path / "absent"))
    assert set(Metric.objects.filter(slug__startswith="lexicon-").values_list("slug", flat=True)) == {
        "lexicon-starter",
        "lexicon-weather",
    }


def interrupted_after(number: int, scoring: Scoring, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Score until so many shards are written, as if the worker were told to stop; returns the names of the shards."""
    written: list[str] = []
    original = Shards.write

    def put(shards, place, table):
        original(shards, place, table)
        written.append(shards._names[place])
        if len(written) == number:
            leases.stop_requested.set()

    with monkeypatch.context() as patch:
        patch.setattr(Shards, "write", put)
        score.score(scoring)
    leases.stop_requested.clear()
    return written


@pytest.mark.slow
def test_a_scoring_that_is_interrupted_goes_on_from_its_last_shard_with_the_same_bytes(
    sample, models, settings, monkeypatch
):
    settings.SHARD_SCORES = 8
    whole = finish(models[CAUSAL], of_few("toxicity-profanity"))
    version = whole.metric_version
    results = list(whole.results.order_by("measure", "slice").values("measure", "slice", "value", "ci_low", "ci_high"))
    prompts, artefact, replicates = version.prompt_scores, whole.artefact, whole.replicates
    version.standings.all().delete()
    whole.results.all().delete()
    MetricVersion.objects.filter(pk=version.pk).update(prompt_scores=None, status="candidate", published_at=None)
    Scoring.objects.filter(pk=whole.pk).update(state="queued", artefact=None, replicates=None, scored_at=None)
    scoring = Scoring.objects.get(pk=whole.pk)

    first = interrupted_after(2, scoring, monkeypatch)
    assert (again(scoring).state, scoring.done, scoring.results.count()) == (Work.State.QUEUED, 16, 0)
    second = interrupted_after(1, scoring, monkeypatch)
    assert again(scoring).done == 24
    rest = interrupted_after(99, scoring, monkeypatch)
    distinct = len({*TEXTS, *texts_of(scoring.run.artefact)})
    assert len({*first, *second, *rest}) == len([*first, *second, *rest]) == -(-distinct // 8)  # none twice
    assert again(scoring).state == Work.State.DONE
    assert (scoring.artefact, scoring.replicates) == (artefact, replicates)
    assert MetricVersion.objects.get(pk=version.pk).prompt_scores == prompts
    again_found = scoring.results.order_by("measure", "slice")
    assert list(again_found.values("measure", "slice", "value", "ci_low", "ci_high")) == results
    assert not default_storage.exists(f"shards/scoring-{scoring.pk}")


@pytest.mark.slow
def test_the_size_of_shards_changes_no_byte_of_the_scores(sample, models, settings):
    first = finish(models[CAUSAL], of_few("toxicity-profanity"))
    settings.SHARD_SCORES = 7
    call_command("add_metric", "again", "--evaluation-set", "real-toxicity-prompts-sample", "--scorer", "profanity",
                 "--k", str(K), stdout=StringIO())  # fmt: skip
    second = finish(models[CAUSAL], Metric.objects.get(slug="again"))
    assert second.metric_version != first.metric_version
    assert (second.run, second.artefact) == (first.run, first.artefact)


@pytest.mark.slow
def test_shards_of_another_scorer_are_not_mixed_in(sample, models, settings, tmp_path, monkeypatch):
    settings.SHARD_SCORES = 8
    scoring = request_evaluation(models[CAUSAL], of_few("toxicity-detoxify-original"))
    collect.collect(scoring.run)
    put_detoxify("detoxify-original", tmp_path / "first")
    assert len(interrupted_after(3, again(scoring), monkeypatch)) == 3

    checkpoint, configuration = put_detoxify("detoxify-original", tmp_path / "second", seed=1)
    scorers._load.cache_clear()
    MetricVersion.objects.filter(pk=scoring.metric_version_id).update(scorer_fingerprint="")  # its first one, again
    score.score(Scoring.objects.get(pk=scoring.pk))
    assert again(scoring).state == Work.State.DONE
    real = Detoxify(checkpoint=str(checkpoint), huggingface_config_path=str(configuration))
    found = scores_of(scoring.artefact, "toxicity")
    np.testing.assert_allclose(found, real.predict(texts_of(scoring.run.artefact))["toxicity"], atol=1e-5, rtol=0)
    assert not default_storage.exists(f"shards/scoring-{scoring.pk}")


@pytest.mark.slow
def test_a_scorer_that_changed_before_the_first_numbers_came_is_refused_until_it_is_put_back(
    sample, models, settings, tmp_path, monkeypatch
):
    settings.SHARD_SCORES = 8
    put_detoxify("detoxify-original", tmp_path / "first")
    metric = of_few("toxicity-detoxify-original")
    scoring = request_evaluation(models[CAUSAL], metric)
    collect.collect(scoring.run)
    interrupted_after(1, again(scoring), monkeypatch)
    version = MetricVersion.objects.get(metric=metric)
    put_detoxify("detoxify-original", tmp_path / "second", seed=1)
    scorers._load.cache_clear()  # as in a worker that was started again
    score.score(scoring)
    assert (again(scoring).state, scoring.attempts, scoring.artefact) == (Work.State.FAILED, 1, None)
    assert scoring.reason.startswith(f"the scorer detoxify-original is not the one of {metric.slug} v1 any more")
    assert version.scorer_fingerprint[:12] in scoring.reason
    assert not scoring.results.exists()
    assert MetricVersion.objects.get(metric=metric).scorer_fingerprint == version.scorer_fingerprint

    put_detoxify("detoxify-original", tmp_path / "third")
    scorers._load.cache_clear()
    assert finish(models[CAUSAL], metric).state == Work.State.DONE


@pytest.mark.slow
def test_a_scorer_that_changed_scores_nothing_under_a_version_of_the_old_one(sample, models, tmp_path):
    put_detoxify("detoxify-original", tmp_path / "first")
    metric = of_few("toxicity-detoxify-original")
    old = finish(models[CAUSAL], metric)
    version = metric.current_version()
    standings = list(version.standings.values_list("measure", "slice", "model", "rank", "value"))
    put_detoxify("detoxify-original", tmp_path / "second", seed=1)
    scorers._load.cache_clear()
    finish(models[OTHER_CAUSAL], metric)
    assert not Result.objects.filter(scoring__metric_version=version, scoring__model=models[OTHER_CAUSAL]).exists()
    assert list(version.standings.values_list("measure", "slice", "model", "rank", "value")) == standings
    version.refresh_from_db()
    assert version.scorer_fingerprint == old.metric_version.scorer_fingerprint
    assert Run.objects.filter(model=models[OTHER_CAUSAL]).count() == 1  # whatever scores it next


@pytest.fixture
def service(settings, monkeypatch) -> Iterator[StandInPerspective]:
    """A stand-in for Perspective, with the operator's key."""
    monkeypatch.setattr(service_client, "BACKOFF", 0.001)
    monkeypatch.setattr(service_client, "TIMEOUT", httpx.Timeout(5.0))
    with standin_perspective.serving() as stage:
        settings.PERSPECTIVE_URL = stage.address
        settings.PERSPECTIVE_API_KEY = KEY
        settings.PERSPECTIVE_REQUESTS_PER_SECOND = 2000.0
        yield stage


def test_without_a_key_perspective_is_unavailable_and_says_what_to_do(sample, models, service, settings, client):
    settings.PERSPECTIVE_API_KEY = ""
    with pytest.raises(CommandError, match=r"toxicity-perspective is unavailable: .* set PERSPECTIVE_API_KEY"):
        said("evaluate", CAUSAL, "--metric", "toxicity-perspective")
    assert not Run.objects.exists()
    html = client.get("/rankings/?metric=toxicity-perspective").content.decode()
    assert "This metric is unavailable: Perspective needs a key" in html
    assert "set PERSPECTIVE_API_KEY" in html
    settings.PERSPECTIVE_API_KEY = KEY
    assert "This metric is unavailable" not in client.get("/rankings/?metric=toxicity-perspective").content.decode()
    assert service.requests == []


def test_after_its_last_day_perspective_is_retired(sample, models, settings, monkeypatch, client):
    settings.PERSPECTIVE_API_KEY, settings.PERSPECTIVE_URL = KEY, perspective.PUBLIC_API
    monkeypatch.setattr(perspective, "END_OF_SERVICE", timezone.now().date() - timedelta(days=2))
    assert problem_with("perspective").state == ScorerState.RETIRED
    assert "This metric is retired: " in client.get("/rankings/?metric=toxicity-perspective").content.decode()
    with pytest.raises(CannotEvaluate, match=r"is retired: .*use another scorer"):
        request_evaluation(models[CAUSAL], Metric.objects.get(slug="toxicity-perspective"))


@pytest.mark.slow
def test_perspective_scores_the_same_run_and_its_replies_are_dropped(sample, models, service, settings):
    run = finish(models[CAUSAL], of_few("toxicity-profanity")).run
    scoring = finish(models[CAUSAL], of_few("toxicity-perspective"))
    assert (scoring.state, scoring.run) == (Work.State.DONE, run)
    texts = texts_of(run.artefact)
    for attribute in perspective.ATTRIBUTES:
        assert scores_of(scoring.artefact, attribute) == pytest.approx([expected(text, attribute) for text in texts])
    distinct = {*texts, *TEXTS}
    assert sorted(service.texts[-len(distinct) :]) == sorted(distinct)  # each once, after its control set
    assert {key for _, _, key, _ in service.requests} == {KEY}
    by_prompt = np.array([expected(text, "TOXICITY") for text in texts]).reshape(-1, K)
    result = scoring.results.get(measure="expected_max_toxicity", slice="TOXICITY:all")
    assert result.value == pytest.approx(by_prompt.max(axis=1).mean(), abs=1e-6)
    assert not (settings.VAR / "replies" / f"scoring-{scoring.pk}").exists()


@pytest.mark.slow
def test_a_text_that_is_refused_for_good_is_missing_and_never_0(sample, models, service):
    run = finish(models[CAUSAL], of_few("toxicity-profanity")).run
    texts = texts_of(run.artefact)
    refused = {*texts[:K], texts[2 * K]}  # all of the first prompt, and one of the third
    for text in refused:
        service.faults[text] = ["LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE"]
    scoring = finish(models[CAUSAL], of_few("toxicity-perspective"))
    table = artefacts.load(scoring.artefact)
    for text, reason, value in zip(
        texts, table["reason"].to_pylist(), table["score:TOXICITY"].to_pylist(), strict=True
    ):
        assert (value is None) == (text in refused)
        assert reason == ("Perspective: the language is not supported" if text in refused else None)
    asked = np.array([np.nan if text in refused else expected(text, "TOXICITY") for text in texts]).reshape(-1, K)
    absent = int(np.isnan(asked).sum())
    assert absent >= K + 1
    mean = scoring.results.get(measure="mean_toxicity", slice="TOXICITY:all")
    assert (mean.n, mean.missing) == (len(texts) - absent, absent)
    assert mean.value == pytest.approx(np.nanmean(asked), abs=1e-6)
    worst = scoring.results.get(measure="expected_max_toxicity", slice="TOXICITY:all")
    assert (worst.n, worst.missing) == (len(TEXTS) - 1, 1)
    known = asked[1:]
    lacking = np.isnan(known).sum(axis=1)
    assert set(lacking) == {0, 1}
    # A prompt that lacks one score is raised by what the others lose, on average, where one is left out at random.
    loss = np.mean([row.max() - np.mean([max(few) for few in combinations(row, K - 1)]) for row in known[lacking == 0]])
    corrected = np.nanmax(known, axis=1).sum() + lacking.sum() * loss
    assert worst.value == pytest.approx(corrected / len(known), abs=1e-6)


@pytest.mark.slow
def test_what_perspective_answered_before_an_interruption_is_not_asked_again(
    sample, models, service, settings, monkeypatch
):
    finish(models[CAUSAL], of_few("toxicity-profanity"))
    metric = of_few("toxicity-perspective")
    scoring = request_evaluation(models[CAUSAL], metric)
    openings.ensure_control_set(scoring.metric_version)
    opened = len(service.requests)
    told = []
    original = leases.Lease.check

    def check(lease):
        told.append(lease)
        if len(told) == 17:  # in the middle of a shard: its texts are answered, but no shard is written
            leases.stop_requested.set()
        original(lease)

    with monkeypatch.context() as patch:
        patch.setattr(leases.Lease, "check", check)
        score.score(scoring)
    leases.stop_requested.clear()
    assert again(scoring).state == Work.State.QUEUED
    kept = settings.VAR / "replies" / f"scoring-{scoring.pk}"
    answered = sum(len(path.read_text().splitlines()) for path in kept.glob("*.jsonl"))
    asked = len(service.requests)
    assert 10 <= answered <= asked - opened < 50
    score.score(scoring)
    assert again(scoring).state == Work.State.DONE
    distinct = {*TEXTS, *texts_of(scoring.run.artefact)}
    left = service.texts[asked:]
    assert len(set(left)) == len(left)
    assert {*service.texts[opened:asked], *left} == distinct
    assert not kept.exists()


@pytest.mark.slow
def test_a_perspective_that_refuses_the_key_is_tried_again_with_the_reason_and_keeps_the_key_to_itself(
    sample, models, service
):
    finish(models[CAUSAL], of_few("toxicity-profanity"))
    for text in TEXTS:
        service.faults[text] = ["bad key"]
    scoring = finish(models[CAUSAL], of_few("toxicity-perspective"))
    assert (scoring.state, scoring.attempts, scoring.results.count()) == (Work.State.QUEUED, 0, 0)
    assert scoring.not_before > timezone.now()
    assert "check that the key is right" in scoring.reason
    assert KEY not in scoring.reason
