"""Pages of metrics of continuations: they show what is chosen, k and versions included, in a few queries."""

import re
from collections.abc import Iterator
from html import unescape

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Run, Scoring, Standing
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.language_models import add_bundled, add_model
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.services.publish import publish_standings
from scoring.language_models import BUNDLED
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish, quick_control_sets, without_looks
from tests.leaderboard.continuations import TEXTS, K, import_sample, of_few

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

MOST_QUERIES = 16  # one of them for report cards, of a share that these correct


@pytest.fixture(scope="module")
def measured(
    django_db_setup: None, django_db_blocker, _static_files: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Profanity of four continuations of each of ten prompts, of two models and of a twin of the first.

    Measured once, in a transaction around those of the tests.
    """
    with django_db_blocker.unblock(), transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        quick_control_sets(patch)
        without_looks(patch)
        import_sample(tmp_path_factory.mktemp("prompts"))
        models = {model.name: model for model in add_bundled()}
        twin, _ = add_model(str(BUNDLED / CAUSAL), name="Twin")
        for model in (models[CAUSAL], models[OTHER_CAUSAL], twin):
            finish(model, of_few("toxicity-profanity"))
        with django_db_blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.fixture
def ranked(measured: None, db: None) -> Metric:
    """The metric of what is measured."""
    return of_few("toxicity-profanity")


def rescored(metric: Metric) -> MetricVersion:
    """A second version, in which every value is a tenth of the first one's and two fewer models are ranked."""
    first = metric.current_version()
    second = MetricVersion.objects.create(
        metric=metric,
        number=2,
        protocol=metric.protocol,
        scorer_fingerprint="0" * 64,
        formula_version=metric.formula.version,
    )
    old = first.scorings.get(model__name=CAUSAL)
    new = Scoring.objects.create(
        model=old.model,
        metric_version=second,
        run=old.run,
        state="done",
        scored_at=timezone.now(),
        artefact=old.artefact,
    )
    Result.objects.bulk_create(
        Result(scoring=new, measure=r.measure, slice=r.slice, value=r.value / 10, n=r.n) for r in old.results.all()
    )
    publish_standings(second)
    return second


def page(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return unescape(response.content.decode())


def rows(html: str) -> list[tuple[str, str]]:
    """Name and value of each model, in the order of the table."""
    return re.findall(r'<th scope="row"><a [^>]*>([^<]+)</a>(?:(?!</th>).)*</th> ?<td class="num value">([\d.]+)', html)


def scenarios(html: str) -> dict[str, tuple[str, bool]]:
    """Address of each scenario by its label, and whether it is the one that is shown."""
    found = re.findall(r'<a href="(\?[^"]*version=[^"]*)"( aria-current="true")?>([^<]+)</a>', html)
    return {label: ("/rankings/" + address, bool(chosen)) for address, chosen, label in found}


def test_the_ranking_lists_models_from_the_least_toxic_with_k_and_intervals(client, ranked):
    html = page(client, f"/rankings/?metric={ranked.slug}")
    standings = list(
        Standing.objects.filter(measure="expected_max_toxicity", slice="profanity:all")
        .select_related("result", "model")
        .order_by("rank", "model__name")
    )
    assert rows(html) == [(s.model.name, f"{s.value:.3f}") for s in standings]
    for standing in standings:
        assert f"{standing.result.ci_low:.3f}–{standing.result.ci_high:.3f}" in html
        assert f">{standing.rank_low}–{standing.rank_high}</span>" in html
    assert f"k = {K}" in html
    assert "Profanity, all prompts" in html
    assert "Rank among" not in html  # one ranking of all kinds


def test_models_that_cannot_be_told_from_the_best_are_marked_together(client, ranked):
    of_all = Standing.objects.filter(measure="toxic_fraction", slice="profanity:all")
    of_all.exclude(model__name__in=(CAUSAL, "Twin")).update(rank=3, rank_low=3, rank_high=3)
    html = page(client, f"/rankings/?metric={ranked.slug}&measure=toxic_fraction")
    leading = re.findall(r'<tr class="leads">.*?<a [^>]*>([^<]+)</a>', html, re.DOTALL)
    assert set(leading) == {CAUSAL, "Twin"}


def test_every_measure_and_slice_can_be_chosen_and_shows_its_own_numbers(client, ranked):
    html = page(client, f"/rankings/?metric={ranked.slug}")
    measures = re.search(r'name="measure"[^>]*>(.*?)</select>', html, re.DOTALL)[1]
    names = re.search(r'name="slice"[^>]*>(.*?)</select>', html, re.DOTALL)[1]
    keys = [measure.key for measure in ranked.formula.ranked]
    chosen = ["profanity:all", "profanity:toxic", "profanity:nontoxic", "profanity:nontoxic-rescored"]
    assert re.findall(r'value="([^"]+)"', measures) == keys
    assert re.findall(r'value="([^"]+)"', names) == chosen
    for measure in keys:
        for name in chosen:
            shown = page(client, f"/rankings/?metric={ranked.slug}&measure={measure}&slice={name}")
            digits = ranked.formula.measures[measure].digits
            values = Standing.objects.filter(measure=measure, slice=name).values_list("model__name", "value")
            assert dict(rows(shown)) == {model: f"{value:.{digits}f}" for model, value in values}
    assert client.get(f"/rankings/?metric={ranked.slug}&measure=safety_score").status_code == 404
    assert (
        client.get(f"/rankings/?metric={ranked.slug}&measure=expected_max_toxicity_sd").status_code == 404
    )  # is not ranked
    assert client.get(f"/rankings/?metric={ranked.slug}&slice=women").status_code == 404


def test_values_of_another_k_stand_on_a_page_of_their_own(client, ranked, models):
    other = of_few("toxicity-profanity", 2)
    finish(models[CAUSAL], other)
    html = page(client, f"/rankings/?metric={other.slug}")
    assert "k = 2" in html
    assert f"k = {K}" not in html.split("<form")[2]
    assert [name for name, _ in rows(html)] == [CAUSAL]
    assert len(rows(page(client, f"/rankings/?metric={ranked.slug}"))) == 3
    assert client.get(f"/rankings/?metric={other.slug}&provenance=both").status_code == 200


def test_an_old_version_can_still_be_looked_at_and_the_current_one_is_shown_first(client, ranked):
    before = rows(page(client, f"/rankings/?metric={ranked.slug}"))
    assert 'id="version"' not in page(client, f"/rankings/?metric={ranked.slug}")
    rescored(ranked)
    html = page(client, f"/rankings/?metric={ranked.slug}")
    old = dict(before)[CAUSAL]
    assert [(name, float(value)) for name, value in rows(html)] == [(CAUSAL, pytest.approx(float(old) / 10, abs=1e-3))]
    assert "1, superseded" in html
    assert "2, current" in html
    assert "Metric version 2" in html
    first = page(client, f"/rankings/?metric={ranked.slug}&version=1")
    assert rows(first) == before
    assert "Metric version 1" in first
    assert rows(page(client, f"/rankings/?metric={ranked.slug}&version=2")) == rows(html)
    response = client.get(f"/rankings/?metric={ranked.slug}&version=3")
    assert response.status_code == 404
    assert "version = '3' does not exist here" in unescape(response.content.decode())


def test_the_three_scenarios_are_views_of_the_same_outputs(client, ranked):
    one = scenarios(page(client, f"/rankings/?metric={ranked.slug}&slice=profanity:nontoxic"))
    assert list(one) == ["As first scored", "Generations and prompts rescored"]

    rescored(ranked)
    html = page(client, f"/rankings/?metric={ranked.slug}&slice=profanity:nontoxic&measure=mean_toxicity")
    found = scenarios(html)
    assert list(found) == ["As first scored", "Generations rescored", "Generations and prompts rescored"]
    assert not any(chosen for _, chosen in found.values())
    numbers = []
    for label, (address, _) in found.items():
        shown = page(client, address)
        assert [name for name, (_, chosen) in scenarios(shown).items() if chosen] == [label]
        numbers.append(rows(shown))
    of = Result.objects.filter(scoring__model__name=CAUSAL, measure="mean_toxicity")
    expected = [
        of.get(scoring__metric_version__number=number, slice=f"profanity:{part}").value
        for number, part in ((1, "nontoxic"), (2, "nontoxic"), (2, "nontoxic-rescored"))
    ]
    assert [dict(number)[CAUSAL] for number in numbers] == [f"{value:.4f}" for value in expected]
    assert len(numbers[0]) == 3
    assert "version 1, prompts split by published scores" in html
    assert "version 2, prompts split by its own scores" in html


def test_without_published_scores_of_the_prompts_there_are_no_scenarios(client, ranked):
    assert scenarios(page(client, "/rankings/?metric=toxicity-perspective")) == {}  # nothing is ranked yet
    assert scenarios(page(client, "/rankings/?metric=safety-starter")) == {}


def test_a_metric_without_its_prompts_says_how_they_come_here(client, ranked):
    html = page(client, "/rankings/?metric=toxicity-openings")
    assert "No numbers here yet" in html
    assert "manage.py import_evaluation_set" in html


def test_what_is_under_way_says_whether_it_collects_or_scores(client, ranked, models):
    other = of_few("lexicon-starter")
    run = Run.objects.get(model=models[CAUSAL])
    scoring = request_evaluation(models[CAUSAL], other)
    Scoring.objects.filter(pk=scoring.pk).update(done=8, total=50)
    html = page(client, f"/rankings/?metric={other.slug}")
    assert "Scoring: waiting" in html
    assert "8 of 50" in html
    assert "Scoring: waiting" not in page(client, f"/rankings/?metric={ranked.slug}")
    Run.objects.filter(pk=run.pk).update(state="failed", reason="the disk is full", artefact=None)
    assert "the disk is full" in page(client, f"/rankings/?metric={other.slug}")


def test_a_model_page_has_every_number_of_its_continuations(client, ranked, models):
    html = page(client, models[CAUSAL].get_absolute_url())
    assert f"k = {K};" in html
    assert "Profanity, non-toxic prompts" in html
    for result in Result.objects.filter(scoring__model=models[CAUSAL]):
        assert f"{result.value:.{ranked.formula.measures[result.measure].digits}f}" in html
    run = Run.objects.get(model=models[CAUSAL])
    assert run.artefact.sha256 in html
    assert f'<span class="num">{len(TEXTS)}</span>' in html


def test_the_number_of_queries_grows_neither_with_models_nor_with_metrics(client, ranked):
    addresses = [
        f"/rankings/?metric={ranked.slug}",
        f"/rankings/?metric={ranked.slug}&slice=profanity:toxic&measure=toxic_fraction&version=1",
        "/rankings/?metric=toxicity-perspective",
        "/rankings/?metric=lexicon-starter",
    ]

    def queries() -> list[int]:
        counts = []
        for address in addresses:
            with CaptureQueriesContext(connection) as caught:
                page(client, address)
            counts.append(len(caught))
        return counts

    before = queries()
    version = ranked.current_version()
    template = version.scorings.get(model__name=CAUSAL)
    for number in range(6):
        model = LanguageModel.objects.create(
            slug=f"copy-{number}", name=f"Copy {number}", kind="causal", source="uploaded"
        )
        copy = Scoring.objects.create(
            model=model,
            metric_version=version,
            state="done",
            scored_at=template.scored_at,
            artefact=template.artefact,
            replicates=template.replicates,
        )
        Result.objects.bulk_create(
            Result(scoring=copy, measure=r.measure, slice=r.slice, value=r.value, n=r.n) for r in template.results.all()
        )
        declared = Declaration(f"more-{number}", "More", "profanity", "toxicity", "rtp", {"k": 30 + number})
        declare_metric(declared, ranked.protocol.evaluation_set)
    publish_standings(version)
    assert queries() == before
    assert max(before) <= MOST_QUERIES
