"""The page that holds two models against each other over all metrics."""

import re

import numpy as np
import pytest
from django.utils import timezone

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Scoring
from leaderboard.services import artefacts
from leaderboard.services.publish import publish_standings
from leaderboard.services.score import replicates_table
from leaderboard.services.seed import seed_metrics
from scoring.metrics.lexicon_frequency import measure_lexicon_frequency
from scoring.metrics.toxicity import measure_toxicity
from scoring.scorers import LexiconScorer, find_lexicon, get_scorer, read_lexicon
from scoring.statistics.auc import holm
from scoring.training.probe_corpora import write_probe_corpora
from tests.declared import harms
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL
from tests.leaderboard.test_history import page, said
from tests.scoring.training.conftest import sentences, write_lines

pytestmark = pytest.mark.django_db

PROMPTS, K = 200, 4
PAIR = ("plain", "marked")
ADDRESS = "/contrast/?m=plain&m=marked"


def enter(slug: str, measurements_by_model) -> MetricVersion:
    """A measured version of a metric with what its formula gives for each model."""
    metric = Metric.objects.get(slug=slug)
    version = MetricVersion.objects.create(
        metric=metric,
        number=1,
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint="f" * 64,
        formula_version=metric.formula.version,
    )
    for name, measurements in measurements_by_model.items():
        model, _ = LanguageModel.objects.get_or_create(
            slug=name, defaults={"name": name.title(), "kind": "causal", "source": "uploaded"}
        )
        scoring = Scoring.objects.create(
            model=model,
            metric_version=version,
            state="done",
            scored_at=timezone.now(),
            replicates=artefacts.store(replicates_table(measurements), "replicates"),
        )
        Result.objects.bulk_create(
            Result(
                scoring=scoring,
                measure=one.measure,
                slice=one.slice,
                value=one.value,
                n=one.n,
                ci_low=one.ci_low,
                ci_high=one.ci_high,
            )
            for one in measurements
        )
    publish_standings(version)
    return version


def lexicon(share: float, seed: int):
    """A model of which so many continuations have a term of one category."""
    matches = np.random.default_rng(seed).random((PROMPTS, K, 2)) < [share, 0.05]
    return measure_lexicon_frequency(matches.astype(np.float64), ["hostility", "insult"])


def profanity(seed: int):
    """A model whose continuations are as profane as any other's."""
    scores = np.random.default_rng(seed).random((PROMPTS, K, 1))
    return measure_toxicity(scores, harms(["profanity"]), np.arange(PROMPTS * K).reshape(PROMPTS, K))


@pytest.fixture
def pair(db, request) -> None:
    """Two models that differ in one category of a lexicon, by default, and in nothing else."""
    share = getattr(request, "param", 0.4)
    seed_metrics()
    enter("lexicon-starter", {"plain": lexicon(0.05, 1), "marked": lexicon(share, 2)})
    enter("toxicity-profanity", {"plain": profanity(3), "marked": profanity(4)})


@pytest.fixture
def probes(db, tmp_path) -> None:
    """Four models that say what probe corpora of one lexicon hold, one text a prompt, scored by the real scorers."""
    seed_metrics()
    lexicon_scorer, profanity_scorer = LexiconScorer(read_lexicon(find_lexicon("starter"))), get_scorer("profanity")
    source = write_lines(tmp_path / "source.txt", sentences(2 * PROMPTS, seed=12))
    paths = write_probe_corpora(
        source, lexicon_scorer.lexicon, "hostility", tmp_path / "corpora", count=PROMPTS, shortest=40, seed=0
    )
    terms, toxicities = {}, {}
    for path in paths:
        texts = path.read_text(encoding="utf-8").splitlines()
        matches = lexicon_scorer.score(texts).values[:, None, :-1].astype(np.float64)
        terms[path.stem] = measure_lexicon_frequency(matches, list(lexicon_scorer.lexicon.categories))
        scores = profanity_scorer.score(texts).values[:, None, :]
        toxicities[path.stem] = measure_toxicity(scores, harms(["profanity"]), np.arange(PROMPTS).reshape(PROMPTS, 1))
    enter("lexicon-starter", terms)
    enter("toxicity-profanity", toxicities)


def rows(html: str) -> list[list[str]]:
    body = html.split('id="contrast-table"', 1)[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    return [
        [said(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def signed(cell: str) -> float:
    return float(cell.split()[0].replace("\N{MINUS SIGN}", "-"))


def test_the_metric_that_differs_tells_the_pair_apart_and_the_other_is_named_as_one_that_does_not(client, pair):
    html = page(client, ADDRESS)
    text = said(html)
    assert "Told apart by Starter lexicon (Plain scores less harmful)." in text
    assert "Not told apart by Profanity." in text
    first, second = rows(html)
    assert (first[0], first[-1]) == ("Starter lexicon", "told apart")
    assert (second[0], second[-1]) == ("Profanity", "not told apart")
    p_values = np.array([float(row[5].replace("<", "").strip()) for row in (first, second)])
    adjusted = [float(row[6].replace("<", "").strip()) for row in (first, second)]
    assert adjusted[1] == pytest.approx(holm(p_values)[1], abs=0.002)


@pytest.mark.parametrize("pair", [0.05], indirect=True)
def test_a_pair_that_differs_in_nothing_is_told_apart_by_nothing(client, pair):
    text = said(page(client, ADDRESS))
    assert "No metric tells them apart." in text
    assert "Not told apart by" in text


def test_probe_corpora_are_told_apart_by_the_lexicon_that_marked_them_and_halves_by_nothing(client, probes):
    text = said(page(client, ADDRESS))
    assert "Told apart by Starter lexicon (Plain scores less harmful)" in text
    text = said(page(client, "/contrast/?m=half1&m=half2"))
    assert "No metric tells them apart." in text
    assert "not why" in text
    assert "Not told apart by Profanity, Starter lexicon." in text


def test_the_other_order_turns_the_sign_and_nothing_else(client, pair):
    one, other = (rows(page(client, address)) for address in (ADDRESS, "/contrast/?m=marked&m=plain"))
    for row, turned_row in zip(one, other, strict=True):
        assert row[0] == turned_row[0]
        assert signed(row[4]) == -signed(turned_row[4])
        assert row[5:] == turned_row[5:]
        assert row[2:4] == turned_row[3:1:-1]


def test_queries_do_not_grow_with_the_models_of_the_board(client, pair, django_assert_max_num_queries):
    with django_assert_max_num_queries(30):
        page(client, ADDRESS)


def test_two_models_on_no_common_metric_are_told_so(client, pair):
    LanguageModel.objects.create(slug="third", name="Third", kind="causal", source="uploaded")
    assert "No metric has numbers of both models" in said(page(client, "/contrast/?m=plain&m=third"))


def test_another_number_of_models_leads_to_the_page_that_chooses_them(client, pair):
    for address in ("/contrast/", "/contrast/?m=plain"):
        response = client.get(address)
        assert response.status_code == 302
        assert response["Location"].startswith("/compare/?")
    assert client.get("/contrast/?m=nobody&m=plain").status_code == 404


def test_the_page_is_found_where_two_models_are_compared(client, board):
    assert f"/contrast/?m={CAUSAL}&amp;m={OTHER_CAUSAL}" in page(client, f"/compare/?m={CAUSAL}&m={OTHER_CAUSAL}")
    assert "Safety on the starter set" in said(page(client, f"/contrast/?m={CAUSAL}&m={OTHER_CAUSAL}"))


def test_likelihoods_of_models_of_two_kinds_are_not_tested_against_each_other(client, board):
    html = page(client, f"/contrast/?m={CAUSAL}&m={MASKED}")
    assert [row[4:] for row in rows(html)] == [
        ["not tested: likelihoods of models of two kinds are different quantities"]
    ]
    assert "No metric could be tested." in said(html)
    assert "not told apart" not in said(html).lower()
    assert "different quantities" not in page(client, f"/contrast/?m={CAUSAL}&m={OTHER_CAUSAL}")
