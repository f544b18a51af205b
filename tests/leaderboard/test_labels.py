"""What labels mean: declared once, kept with the version, and the order that follows from it."""

from importlib import import_module

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.base import CommandError

from leaderboard.models import Metric, MetricVersion, Rescoring, Result, Scoring, Standing
from leaderboard.services import artefacts, scorers
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import import_own_prompts
from leaderboard.services.rescore import cancel, open_rescoring
from leaderboard.services.seed import seed_metrics
from leaderboard.services.upgrade import catch_up, find_lag
from scoring.attributes import Attribute, Meaning
from scoring.metrics.formulas import attributes_of, values_of
from tests.leaderboard.continuations import records, written
from tests.leaderboard.living import deliver, drain, entrant, submit
from tests.tiny_classifiers import save_classifier

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]
LABELS = (Attribute("LABEL_0", Meaning.NEUTRAL), Attribute("LABEL_1", Meaning.HARM))


@pytest.fixture
def classifier(tmp_path) -> str:
    """A classifier whose labels say nothing, in a folder."""
    scorers.look_again()
    return f"classifier:{save_classifier(tmp_path / 'judge', outputs=2, problem_type='single_label_classification')}"


def add_metric(tmp_path, scorer: str, **options) -> Metric:
    import_own_prompts("ten-prompts", "Ten prompts", "CC0", written(tmp_path / "ten.jsonl", records()))
    call_command("add_metric", "judged", evaluation_set="ten-prompts", scorer=scorer, k=2, verbosity=0, **options)
    return Metric.objects.get(slug="judged")


@pytest.mark.slow
def test_the_declared_harm_is_ranked_and_its_complement_described(classifier, tmp_path, client):
    metric = add_metric(tmp_path, classifier, harm_label=["LABEL_1"])
    entries = [submit(entrant(number, metric), metric) for number in (1, 2, 3)]
    version = MetricVersion.objects.get(metric=metric)
    assert version.declared == LABELS
    standings = Standing.objects.filter(metric_version=version, measure="mean_toxicity", slice="LABEL_1:all")
    values = list(standings.order_by("rank").values_list("value", flat=True))
    assert values == sorted(values)
    assert not Standing.objects.filter(metric_version=version, slice__startswith="LABEL_0").exists()
    assert Result.objects.filter(scoring=entries[0], slice="LABEL_0:all").exists()
    # Prompts are split by what is declared, not by the first column.
    own = artefacts.load(version.prompt_scores)
    toxic = int((values_of(own)[:, attributes_of(own).index("LABEL_1")] > 0.5).sum())
    split = Result.objects.filter(scoring=entries[0], measure="toxicity_probability", slice="LABEL_1:toxic-rescored")
    assert sum(split.values_list("n", flat=True)) == toxic
    html = client.get(metric.get_absolute_url()).content.decode()
    assert "harms are ranked" in html
    assert "Rank <strong>" in client.get("/models/entrant-1/").content.decode()
    answer = client.get("/api/v1/metrics/judged/versions/1").json()
    assert answer["attributes"] == [attribute.as_json() for attribute in LABELS]
    assert answer["undeclared"] == []


def test_a_metric_of_labels_that_nobody_declared_is_refused_with_the_remedy(classifier, tmp_path):
    with pytest.raises(CommandError, match=r"label 'LABEL_0' of config.json .* --harm-label LABEL_0"):
        add_metric(tmp_path, classifier)
    with pytest.raises(CommandError, match="label 'hateful' is declared and does not stand"):
        add_metric(tmp_path, classifier, harm_label=["hateful"])
    with pytest.raises(CommandError, match="declared twice"):
        add_metric(tmp_path, classifier, harm_label=["LABEL_1"], good_label=["LABEL_1"])
    with pytest.raises(CommandError, match="declares its attributes itself"):
        add_metric(tmp_path, "profanity", harm_label=["profanity"])


def test_files_with_other_labels_than_a_ready_metric_declares_are_not_scored_with(tmp_path, settings):
    seed_metrics()
    ready = Metric.objects.filter(slug__startswith="toxicity-toxigen")
    assert {metric.scorer for metric in ready} == {
        "classifier:tomh/toxigen_roberta",
        "classifier:tomh/toxigen_hatebert",
    }
    assert all(metric.labels == {"LABEL_0": "neutral", "LABEL_1": "harm"} for metric in ready)
    settings.SCORERS = tmp_path
    save_classifier(tmp_path / "classifier/tomh/toxigen_roberta", id2label={0: "toxic", 1: "benign"})
    import_own_prompts("ten-prompts", "Ten prompts", "CC0", written(tmp_path / "ten.jsonl", records()))
    metric = ready.get(scorer="classifier:tomh/toxigen_roberta")
    metric.protocol = add_metric(tmp_path, "profanity").protocol
    metric.save()
    scoring = request_evaluation(entrant(1, metric), metric, send=False)
    deliver(scoring)
    scoring.refresh_from_db()
    assert (scoring.state, scoring.fault) == (Scoring.State.QUEUED, "UndeclaredLabel"), "the board's, no entry's"
    assert "label 'LABEL_0' is declared and does not stand in config.json" in scoring.reason


@pytest.mark.slow
def test_versions_from_before_declarations_keep_their_numbers_and_are_marked(classifier, tmp_path, client):
    migration = import_module("leaderboard.migrations.0011_labels")
    metric = add_metric(tmp_path, classifier, harm_label=["LABEL_1"])
    scoring = submit(entrant(1, metric), metric)
    version = MetricVersion.objects.get(metric=metric)
    MetricVersion.objects.filter(pk=version.pk).update(attributes=[], formula_version=1)
    before = list(scoring.results.values_list("measure", "slice", "value"))
    migration.mark_undeclared(apps, None)
    version.refresh_from_db()
    assert version.undeclared == ["LABEL_0", "LABEL_1"]
    assert list(scoring.results.values_list("measure", "slice", "value")) == before
    assert "Nobody declared LABEL_0 and LABEL_1 a harm" in client.get(metric.get_absolute_url()).content.decode()
    assert client.get("/api/v1/metrics/judged/versions/1").json()["undeclared"] == ["LABEL_0", "LABEL_1"]
    # What would have been ranked then is ranked still: of either label less is better.
    assert version.ranks(metric.formula.measures["mean_toxicity"], "LABEL_0:all")


@pytest.mark.slow
def test_an_upgrade_scores_anew_with_the_labels_that_were_declared_or_asks_for_them(classifier, tmp_path):
    metric = add_metric(tmp_path, classifier, harm_label=["LABEL_1"])
    submit(entrant(1, metric), metric)
    MetricVersion.objects.filter(metric=metric).update(attributes=[], formula_version=1)
    Metric.objects.filter(pk=metric.pk).update(labels={})
    assert "--harm-label LABEL_0" in find_lag(Metric.objects.get(pk=metric.pk)).obstacle
    assert not catch_up(metric)
    with pytest.raises(CommandError, match="'LABEL_2' is declared"):
        call_command("rescore", "judged", reason="declare the harm", harm_label=["LABEL_2"], yes=True, verbosity=0)
    Metric.objects.filter(pk=metric.pk).update(labels={"LABEL_1": "harm"})
    assert catch_up(metric)
    drain()
    metric.refresh_from_db()
    assert metric.labels == {"LABEL_1": "harm"}
    assert metric.current_version().declared == LABELS


@pytest.mark.slow
def test_a_rescoring_declares_what_nobody_had_declared(classifier, tmp_path):
    metric = add_metric(tmp_path, classifier, harm_label=["LABEL_1"])
    submit(entrant(1, metric), metric)
    call_command("rescore", "judged", reason="0 is the harm", harm_label=["LABEL_0"], yes=True, verbosity=0)
    drain()
    metric.refresh_from_db()
    assert metric.labels == {"LABEL_0": "harm"}
    meanings = {attribute.name: attribute.meaning for attribute in metric.current_version().declared}
    assert meanings == {"LABEL_0": Meaning.HARM, "LABEL_1": Meaning.NEUTRAL}
    assert not metric.current_version().standings.filter(slice__startswith="LABEL_1").exists()


@pytest.mark.slow
def test_a_rescoring_that_names_no_labels_keeps_those_that_are_declared(classifier, tmp_path):
    metric = add_metric(tmp_path, classifier, harm_label=["LABEL_1"])
    submit(entrant(1, metric), metric)
    call_command("rescore", "judged", reason="once more", yes=True, verbosity=0)
    drain()
    metric.refresh_from_db()
    assert metric.labels == {"LABEL_1": "harm"}
    assert (metric.current_version().number, metric.current_version().declared) == (2, LABELS)


@pytest.mark.slow
def test_what_was_declared_holds_again_where_the_rescorings_that_changed_it_are_cancelled(classifier, tmp_path):
    metric = add_metric(tmp_path, classifier, harm_label=["LABEL_1"])
    submit(entrant(1, metric), metric)
    open_rescoring(metric, "0 is the harm", labels={"LABEL_0": "harm"})
    open_rescoring(metric, "let another one judge", scorer="profanity")
    metric.refresh_from_db()
    assert metric.labels == {}
    assert cancel(Rescoring.objects.active().get())
    metric.refresh_from_db()
    assert metric.labels == {"LABEL_1": "harm"}
    assert submit(entrant(2, metric), metric).state == Scoring.State.DONE
    assert metric.current_version().declared == LABELS
    assert metric.current_version().number == 1
    assert metric.current_version().standings.filter(model__slug="entrant-2").exists()
