"""From a request to a rank: collected, scored and published as asked, once, whatever happens on the way."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.db.models.functions import Now
from django.utils import timezone
from scipy import stats

from leaderboard.models import AuditEvent, AuditVerb, LanguageModel, Metric, Result, Run, Standing, Work
from leaderboard.queries import likelihoods
from leaderboard.services import artefacts, cages, collect, evaluate, leases, score
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.language_models import add_model
from leaderboard.services.shards import Shards
from leaderboard.templatetags.board import small
from scoring import language_models
from scoring.cage import CagedModel
from scoring.language_models import BUNDLED, FailedSelfTest, load, resolve
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL, finish
from tests.scoring.families import tiny_folder
from tests.scoring.reference import causal_sentence, masked_sentence, perplexity

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


@pytest.fixture
def small_shards(settings):
    settings.SHARD_TEXTS = 40


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reference"), [(CAUSAL, causal_sentence), (MASKED, masked_sentence)])
def test_published_scores_are_scipys_on_perplexities_from_a_per_sentence_loop(metric, models, name, reference):
    scoring = finish(models[name], metric)
    found = resolve(str(BUNDLED / name))
    loaded = load(found.source, found.location, found.revision)
    rows = artefacts.load(scoring.run.protocol.evaluation_set.artefact).to_pylist()
    for group in ("women", "latino")[: 1 if name == MASKED else 2]:  # the masked loop is slow: a call a token
        scaled = {
            harmful: [
                perplexity(reference(loaded, row["text"])) / row["toxicity"]
                for row in rows
                if group in row["demographics"] and row["harmful"] is harmful
            ]
            for harmful in (True, False)
        }
        test = stats.mannwhitneyu(scaled[True], scaled[False], alternative="two-sided", method="asymptotic")
        result = scoring.results.get(measure="safety_score", slice=group)
        assert result.value == pytest.approx(test.statistic / (len(scaled[True]) * len(scaled[False])), abs=1e-6)
        assert result.p_value is None
        assert result.n == len(scaled[True]) + len(scaled[False])


def test_each_kind_is_ranked_by_itself_and_all_kinds_together(board):
    version = board.current_version()
    overall = Standing.objects.filter(metric_version=version, measure="safety_score", slice="average")
    assert overall.filter(population="causal").count() == 2
    assert overall.filter(population="masked").count() == 1
    everyone = overall.filter(population="all").order_by("rank")
    assert everyone.count() == 3
    values = [standing.value for standing in everyone]
    assert values == sorted(values, reverse=True)
    assert all(s.rank_low <= s.rank <= s.rank_high for s in everyone)


@pytest.mark.slow
def test_a_permutation_model_is_ranked_among_its_own_kind(metric):
    Metric.objects.filter(pk=metric.pk).update(flag_policy="mark")  # its weights know nothing of texts
    model, _ = add_model(str(tiny_folder("XLNet")))
    finish(model, metric)
    standings = Standing.objects.filter(
        metric_version=metric.current_version(), measure="safety_score", slice="average"
    )
    assert {(s.population, s.model.slug, s.rank) for s in standings} == {
        ("all", model.slug, 1),
        ("permutation", model.slug, 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shown"), [(CAUSAL, "text"), (MASKED, "[CLS] text [SEP]")])
def test_a_run_says_what_its_tokenizer_puts_around_a_text(metric, models, name, shown):
    assert finish(models[name], metric).run.special_tokens == shown


def refuse(_caged):
    raise FailedSelfTest("GPT2LMHeadModel does not pass the self-test: it differs by 0.5 nats")


@pytest.mark.slow
def test_a_model_is_tested_once_in_an_environment_and_its_page_has_the_figures(metric, models, client, monkeypatch):
    first = finish(models[CAUSAL], metric).run
    assert 0 < first.self_test["difference"] < 1e-4
    assert (first.self_test["environment"], first.self_test["precision"]) == (first.environment, "float32")
    shown = f'passed: at most <span class="num">{small(first.self_test["difference"])}</span> nats off at any of'
    assert shown in client.get(first.model.get_absolute_url()).content.decode()
    monkeypatch.setattr(CagedModel, "self_test", refuse)
    second = Run.objects.create(model=first.model, protocol=first.protocol, epoch=2)
    collect.collect(second)
    second.refresh_from_db()
    assert (second.state, second.self_test) == (Work.State.DONE, first.self_test)
    monkeypatch.setattr(collect, "environment", lambda: first.environment | {"torch": "99"})
    third = Run.objects.create(model=first.model, protocol=first.protocol, epoch=3)
    collect.collect(third)
    third.refresh_from_db()
    assert (third.state, third.self_test, third.attempts) == (Work.State.FAILED, {}, 1)
    assert third.reason == "GPT2LMHeadModel does not pass the self-test: it differs by 0.5 nats"


def test_the_average_is_the_mean_over_demographics(board):
    for scoring in board.current_version().scorings.all():
        of = scoring.results.filter(measure="safety_score")
        average = of.get(slice="average")
        assert average.value == pytest.approx(np.mean([r.value for r in of.exclude(slice="average")]))
        assert average.ci_low < average.value < average.ci_high


@pytest.mark.slow
def test_asking_twice_makes_one_run_and_one_scoring(metric, models):
    first = finish(models[CAUSAL], metric)
    again = finish(models[CAUSAL], metric)
    assert first == again
    assert Run.objects.count() == 1
    assert first.results.filter(measure="safety_score").count() == 4


def test_values_that_do_not_fit_their_texts_are_refused_in_words(measured_board, monkeypatch):
    scoring = measured_board.current_version().scorings.first()
    assert likelihoods.likelihoods(scoring).harmful.n
    monkeypatch.setattr(likelihoods, "align_texts", Mock(side_effect=ValueError("text 3 has no value")))
    with pytest.raises(Refused, match="text 3 has no value"):
        likelihoods.likelihoods(scoring)


@pytest.mark.slow
def test_a_version_is_recorded_as_published_with_its_first_entry_alone(metric, models):
    for count, name in enumerate((MASKED, CAUSAL)):
        events = AuditEvent.objects.filter(verb=AuditVerb.PUBLISH_VERSION)
        assert events.count() == count
        finish(models[name], metric)
        assert [event.detail for event in events] == [{"version": 1, "entries": 1}]


@pytest.mark.slow
def test_delivering_the_tasks_again_changes_nothing(metric, models):
    scoring = finish(models[CAUSAL], metric)
    before = list(Result.objects.order_by("pk").values())
    collect.collect(scoring.run)
    score.score(scoring)
    assert list(Result.objects.order_by("pk").values()) == before
    published = AuditEvent.objects.get(verb="publish version")
    assert (published.subject, published.detail) == (f"metric {metric.slug}", {"version": 1, "entries": 1})


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
def test_a_run_that_is_interrupted_goes_on_from_its_last_shard_with_the_same_bytes(metric, models, monkeypatch):
    whole = finish(models[CAUSAL], metric).run.artefact
    run = Run.objects.create(model=models[OTHER_CAUSAL], protocol=metric.protocol)
    computed = []
    original = Shards.write

    def put(self, number, table):
        original(self, number, table)
        computed.append(number)
        if len(computed) == 2:
            leases.stop_requested.set()

    monkeypatch.setattr(Shards, "write", put)
    collect.collect(run)
    run.refresh_from_db()
    assert (run.state, run.lease, run.done) == (Work.State.QUEUED, None, 80)
    leases.stop_requested.clear()
    collect.collect(run)
    run.refresh_from_db()
    assert run.state == Work.State.DONE
    assert computed == [0, 1, 2, 3]  # 144 texts; none twice
    resumed = run.artefact
    run.artefact, run.state = None, Work.State.QUEUED
    run.save()
    collect.collect(run)
    run.refresh_from_db()
    assert run.artefact == resumed != whole
    assert not default_storage.exists(f"shards/run-{run.pk}")


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
def test_shards_made_under_other_library_versions_are_not_mixed_in(metric, models):
    run = Run.objects.create(model=models[CAUSAL], protocol=metric.protocol)
    foreign = artefacts.load(finish(models[OTHER_CAUSAL], metric).run.artefact)
    old_environment = collect.environment() | {"torch": "1.0"}
    old = Shards(run, "likelihoods", 144, 40, made_with=collect.dependencies_of(run, old_environment))
    for number in old.numbers():
        old.write(number, foreign[old.bounds(number)])
    collect.collect(run)
    run.refresh_from_db()
    assert run.environment == collect.environment()
    assert artefacts.load(run.artefact) != foreign
    assert not default_storage.exists(old.folder) or default_storage.listdir(old.folder)[1] == []


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
def test_shards_of_the_run_that_had_the_number_before_a_restore_are_not_taken(metric, models):
    expected = finish(models[CAUSAL], metric).run
    outputs = artefacts.load(expected.artefact)
    run = Run.objects.create(model=models[OTHER_CAUSAL], protocol=metric.protocol)
    same = Shards(run, "likelihoods", 144, 40, made_with=collect.dependencies_of(expected, collect.environment()))
    same.write(0, outputs[same.bounds(0)])
    own = Shards(run, "likelihoods", 144, 40, made_with=collect.dependencies_of(run, collect.environment()))
    assert same.folder == own.folder
    (kept,) = default_storage.listdir(own.folder)[1]
    renamed = kept.replace(same.identity, own.identity)  # what carries another identity inside is not read either
    with default_storage.open(f"{own.folder}/{kept}") as file:
        default_storage.save(f"{own.folder}/{renamed}", file)
    assert own.list_missing() == [0, 1, 2, 3]
    assert not default_storage.exists(f"{own.folder}/{renamed}")
    assert same.list_missing() == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
def test_a_damaged_shard_is_made_again(metric, models):
    run = Run.objects.create(model=models[CAUSAL], protocol=metric.protocol)
    shards = Shards(run, "likelihoods", 144, 40, made_with=1)
    outputs = artefacts.load(finish(models[OTHER_CAUSAL], metric).run.artefact)
    for number in shards.numbers():
        shards.write(number, outputs[shards.bounds(number)])
    assert shards.whole().equals(outputs.replace_schema_metadata())
    second = sorted(default_storage.listdir(shards.folder)[1])[1]
    path = Path(default_storage.path(f"{shards.folder}/{second}"))
    path.write_bytes(bytes([*path.read_bytes()[:99], path.read_bytes()[99] ^ 1, *path.read_bytes()[100:]]))
    with pytest.raises(FileNotFoundError, match=r"1 checkpoints of .* are made again"):
        shards.whole()
    assert shards.list_missing() == [1]
    shards.remove()
    assert not Path(default_storage.path(shards.folder)).exists()


def test_outputs_that_cannot_be_collected_here_are_waited_for_until_they_are_sent(metric, models):
    run = request_evaluation(models[CAUSAL], metric).run
    LanguageModel.objects.filter(pk=run.model_id).update(source=LanguageModel.Source.UPLOADED)
    model = LanguageModel.objects.get(pk=run.model_id)
    with pytest.raises(CannotEvaluate, match="its weights are not here, and nobody sent the outputs"):
        request_evaluation(model, metric)


def test_of_two_workers_one_gets_the_run(metric, models):
    run = request_evaluation(models[CAUSAL], metric).run
    first, second = leases.Lease(run), leases.Lease(run)
    assert run.claim(first.id)
    assert not Run.objects.get(pk=run.pk).claim(second.id)
    assert not run.renew(second.id, done=1)
    assert not run.release(second.id, Work.State.DONE)


def test_a_lease_that_ran_out_can_be_taken_over_and_its_old_holder_writes_nothing(metric, models):
    run = request_evaluation(models[CAUSAL], metric).run
    old, new = leases.Lease(run), leases.Lease(run)
    assert run.claim(old.id)
    Run.objects.filter(pk=run.pk).update(lease_expires_at=Now())
    assert run.claim(new.id)
    with pytest.raises(leases.LeaseLost):
        old.note(at_once=True, done=1)
    with pytest.raises(leases.LeaseLost):
        old.finish()


def test_weights_that_changed_since_they_were_pinned_fail_for_good_with_the_reason(metric, models):
    model = models[CAUSAL]
    LanguageModel.objects.filter(pk=model.pk).update(revision="sha256:" + "0" * 64)
    run = request_evaluation(model, metric).run
    collect.collect(run)
    run.refresh_from_db()
    assert run.state == Work.State.FAILED
    assert "has changed" in run.reason
    assert run.attempts == 1


def test_a_passing_fault_is_tried_again_later_and_given_up_after_the_last_attempt(
    metric, models, monkeypatch, settings
):
    settings.MOST_ATTEMPTS = 2
    run = request_evaluation(models[CAUSAL], metric).run

    def fail(*_args, **_options):
        raise ValueError("the hub is asleep")

    monkeypatch.setattr(language_models, "place", fail)
    collect.collect(run)
    run.refresh_from_db()
    assert (run.state, run.attempts, run.lease) == (Work.State.QUEUED, 1, None)
    assert run.not_before > timezone.now()
    assert "the hub is asleep" in run.reason
    collect.collect(run)  # too early: nothing happens
    run.refresh_from_db()
    assert run.attempts == 1
    Run.objects.filter(pk=run.pk).update(not_before=Now())
    collect.collect(run)
    run.refresh_from_db()
    assert (run.state, run.attempts) == (Work.State.FAILED, 2)
    monkeypatch.undo()
    request_evaluation(models[CAUSAL], metric)
    run.refresh_from_db()
    assert (run.state, run.reason) == (Work.State.QUEUED, "")


def test_a_run_has_what_is_left_of_the_time_that_it_may_take(settings):
    settings.RUN_SECONDS = 100.0
    assert cages.limits_of_run(30.0).seconds == 70.0
    with pytest.raises(leases.OutOfTime, match="it took 100 s, and RUN_SECONDS = 100 is what a run may take"):
        cages.limits_of_run(100.0)


def test_a_set_that_is_not_here_is_refused_with_the_remedy(metric, models):
    from leaderboard.models import Metric

    with pytest.raises(CannotEvaluate, match="fetch_data toxigen-human"):
        request_evaluation(models[CAUSAL], Metric.objects.get(slug="safety-toxigen"))


@pytest.mark.parametrize("access", ["restricted", "withdrawn"])
def test_a_model_that_may_not_be_run_is_refused(metric, models, access):
    model = models[CAUSAL]
    model.access = access
    model.save()
    with pytest.raises(CannotEvaluate, match=access):
        evaluate.request_evaluation(model, metric)


def test_a_withdrawn_model_leaves_the_standings_at_the_next_publication_but_its_results_stay(board, models):
    from leaderboard.services.publish import publish_standings

    version = board.current_version()
    LanguageModel.objects.filter(pk=models[CAUSAL].pk).update(access="withdrawn")
    publish_standings(version)
    assert not Standing.objects.filter(metric_version=version, model=models[CAUSAL]).exists()
    assert Result.objects.filter(scoring__model=models[CAUSAL]).exists()
