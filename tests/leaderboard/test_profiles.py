"""The model page: the newest numbers of each metric in full, and all that is behind them."""

import gzip
import re
import statistics
from datetime import timedelta

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import (
    AuditEvent,
    LanguageModel,
    Metric,
    MetricVersion,
    ModelIdentity,
    OutdatedEntry,
    Result,
    Scoring,
    Standing,
)
from leaderboard.operations.services.scrub import look_at
from leaderboard.queries.profiles import other_revisions
from leaderboard.services import artefacts
from leaderboard.services.publish import publish_standings
from tests.charts import list_charts, points, read_chart
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.living import lost
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_demographics import page, said, table

pytestmark = [pytest.mark.django_db, pytest.mark.either_database, pytest.mark.usefixtures("lasting_board")]

MOST_QUERIES = 13
MOST_BYTES = 150_000
MODEL = f"/models/{CAUSAL}/"


def again(scoring: Scoring, shift: float = 0.01) -> MetricVersion:
    """One more version of the scoring's metric, published, with the same entries, their values a little higher."""
    last = scoring.metric_version
    version = MetricVersion.objects.create(
        metric=last.metric,
        number=last.metric.versions.count() + 1,
        protocol=last.protocol,
        scorer=last.scorer,
        scorer_fingerprint=f"{last.metric.versions.count():064x}",
        formula_version=last.formula_version,
    )
    for of in last.scorings.filter(state="done").prefetch_related("results"):
        copy = Scoring.objects.create(
            run=of.run,
            model=of.model,
            metric_version=version,
            state="done",
            artefact=of.artefact,
            replicates=of.replicates,
            scored_at=timezone.now(),
        )
        Result.objects.bulk_create(
            Result(scoring=copy, measure=r.measure, slice=r.slice, value=r.value + shift, n=r.n)
            for r in of.results.all()
        )
    publish_standings(version)
    version.refresh_from_db()
    return version


def own(metric: Metric, model: LanguageModel) -> Scoring:
    return Scoring.objects.get(model=model, metric_version=metric.current_version())


def test_quantiles_and_medians_are_those_of_the_stored_values(client, board, models):
    scoring = own(board, models[CAUSAL])
    texts = artefacts.load(board.protocol.evaluation_set.artefact).to_pylist()
    harmful = {row["id"]: row["harmful"] for row in texts}
    of: dict[bool, list[float]] = {True: [], False: []}
    for row in artefacts.load(scoring.artefact).to_pylist():
        of[harmful[row["id"]]].append(row["log_perplexity"])
    html = page(client, MODEL)
    _, rows = table(html, f"Quantiles of log-perplexity, {board.title}")
    for label, values in (("Harmful", of[True]), ("Benign", of[False])):
        hundredths = statistics.quantiles(values, n=100, method="inclusive")
        expected = [hundredths[place - 1] for place in (5, 25, 50, 75, 95)]
        assert [float(cell) for cell in rows[label][:5]] == pytest.approx(expected, abs=0.0006)
        assert rows[label][5:] == [str(len(values)), "0"]
    first, second = statistics.median(of[True]), statistics.median(of[False])
    which = "less" if first > second else "more"
    assert f"A harmful text is {which} likely to the model than a benign one at the median" in said(html)
    assert f"is {first:.3f} for harmful texts and {second:.3f} for benign ones" in said(html)
    assert f"{np.exp(first - second):.2f} times" in said(html)


@pytest.mark.slow
def test_the_newest_version_is_shown_in_full_and_older_ones_as_a_line_each(client, board, models):
    scoring = own(board, models[CAUSAL])
    newest = again(again(scoring).scorings.get(model=models[CAUSAL]))
    html = page(client, MODEL)
    assert html.count(", by slice</caption>") == 1
    assert f"Metric version {newest.number}, current" in said(html)
    _, rows = table(html, f"Ranks over versions, {board.title}")
    assert [name.split()[0] for name in rows] == ["1", "2", "3"]
    for name, cells in rows.items():
        standing = Standing.objects.get(
            model=models[CAUSAL],
            metric_version__metric=board,
            metric_version__number=int(name.split()[0]),
            measure="likelihood_auc",
            slice="average",
            population="causal",
        )
        assert cells[0] == f"{standing.rank} of 2 causal models"
        assert cells[2] == f"{standing.value:.3f}"


def test_an_older_version_can_be_asked_for_and_says_that_it_is_older(client, board, models):
    first = board.current_version()
    again(own(board, models[CAUSAL]))
    old = Result.objects.get(
        scoring__model=models[CAUSAL], scoring__metric_version=first, measure="likelihood_auc", slice="women"
    )
    assert f"{old.value:.3f}" not in table(page(client, MODEL), f"{board.title}, version 2, by slice")[1]["Women"][0]
    html = page(client, f"{MODEL}?metric={board.slug}&version=1")
    assert f"{old.value:.3f}" in table(html, f"{board.title}, version 1, by slice")[1]["Women"][0]
    assert "An older version, as you asked" in html


@pytest.mark.parametrize("query", ["metric=nonsense", "metric=safety-starter&version=9", "version=x"])
def test_an_address_that_names_nothing_is_a_404(client, board, query):
    assert client.get(f"{MODEL}?{query}").status_code == 404


@pytest.mark.slow
def test_the_history_of_ranks_leads_to_the_history_with_the_model_highlighted(client, board, models):
    again(own(board, models[CAUSAL]))
    html = page(client, MODEL)
    assert f'href="/history/?metric={board.slug}&amp;model={CAUSAL}"' in html
    assert page(client, f"/history/?metric={board.slug}&model={CAUSAL}").count("selected>" + CAUSAL) == 1
    place = next(place for place, name in enumerate(list_charts(html)) if name.endswith("-ranks"))
    assert len(points(read_chart(client, html, place))) == 2


def test_the_rank_is_among_models_of_its_kind(client, board, models):
    standing = Standing.objects.get(
        model=models[CAUSAL],
        measure="likelihood_auc",
        slice="average",
        population="causal",
        metric_version=board.current_version(),
    )
    assert f"Rank {standing.rank} of 2 causal models" in said(page(client, MODEL))


def test_files_can_be_downloaded_and_their_rows_and_sizes_are_said(client, board, models):
    scoring = own(board, models[CAUSAL])
    html = page(client, MODEL)
    for artefact in (scoring.run.artefact, scoring.artefact):
        address = f"/artefacts/{artefact.sha256}.parquet"
        assert f'href="{address}"' in html
        response = client.head(address)
        assert response.status_code == 200
        assert int(response["Content-Length"]) == artefact.size
    assert f"{scoring.artefact.rows} rows" in said(html)


def test_a_file_that_is_gone_is_said_and_nothing_fails(client, board, models):
    scoring = own(board, models[CAUSAL])
    with lost(scoring.artefact):
        assert not look_at(scoring.artefact)
        html = page(client, MODEL)
    assert "gone from the storage" in html
    assert f'href="/artefacts/{scoring.artefact.sha256}.parquet"' not in html
    assert "damaged or gone" in html
    assert "Quantiles of log-perplexity" not in html


def test_a_withdrawn_model_says_so_with_the_reason_and_passes_no_files_on(client, board, models):
    LanguageModel.objects.filter(pk=models[CAUSAL].pk).update(access="withdrawn")
    publish_standings(board.current_version())
    assert "No reason is on record" in page(client, MODEL)
    AuditEvent.objects.create(
        verb="withdraw model", subject=f"model {CAUSAL}", detail={"reason": "its <authors> asked"}
    )
    html = page(client, MODEL)
    assert "Withdrawn: it is not ranked any more" in said(html)
    assert "The reason given: its &lt;authors&gt; asked" in html
    assert 'href="/artefacts/' not in html
    assert "No files to download: the model was withdrawn" in said(html)


def test_a_withdrawn_entry_that_was_not_ranked_passes_no_files_on_either(client, board, models):
    scoring = own(board, models[CAUSAL])
    Scoring.objects.filter(pk=scoring.pk).update(texts_missing=scoring.texts)
    publish_standings(board.current_version())
    assert 'href="/artefacts/' in page(client, MODEL)
    LanguageModel.objects.filter(pk=models[CAUSAL].pk).update(access="withdrawn")
    html = page(client, MODEL)
    assert 'href="/artefacts/' not in html
    assert "No files to download: the model was withdrawn" in said(html)


def test_an_outdated_entry_is_said_with_its_reason(client, board, models):
    scoring = own(board, models[CAUSAL])
    OutdatedEntry.objects.create(
        metric_version=board.current_version(),
        model=models[CAUSAL],
        last_scoring=scoring,
        reason="the weights are gone",
    )
    assert "the weights are gone" in said(page(client, MODEL))


def test_other_revisions_of_the_same_name_are_linked(client, board, models):
    other = LanguageModel.objects.create(
        slug="another-revision", name=CAUSAL, kind="causal", source="hub", location="org/name", revision="f" * 40
    )
    assert f'href="{other.get_absolute_url()}"' in page(client, MODEL)
    assert f'href="{MODEL}"' in page(client, other.get_absolute_url())


def test_entries_of_one_identity_are_linked_whatever_they_are_called(client, board, models):
    identity = ModelIdentity.objects.create(slug="one-model", name="One model")
    LanguageModel.objects.filter(pk=models[CAUSAL].pk).update(identity=identity)
    fields = {"kind": "causal", "source": "hub", "location": "org/name"}
    same = LanguageModel.objects.create(slug="same", name="Same", revision="e" * 40, identity=identity, **fields)
    LanguageModel.objects.create(slug="namesake", name=CAUSAL, revision="d" * 40, **fields)
    assert other_revisions(LanguageModel.objects.get(pk=models[CAUSAL].pk)) == [same]


def test_a_result_is_cited_with_all_that_identifies_it(client, board, models):
    scoring = own(board, models[CAUSAL])
    version = scoring.metric_version
    html = page(client, MODEL)
    plain = said(re.search(r'<pre id="cite-.*?</pre>', html, re.S)[0])
    bibtex = said(re.search(r'<pre id="bibtex-.*?</pre>', html, re.S)[0])
    result = scoring.results.get(measure="likelihood_auc", slice="average")
    texts = version.protocol.evaluation_set
    for part in (
        CAUSAL,
        models[CAUSAL].revision,
        f"{result.value:.3f} (95% interval {result.ci_low:.3f} to {result.ci_high:.3f})",
        f"metric version {version.number}",
        f"{texts.title}, version {texts.version}",
        f"{scoring.scored_at:%B %Y}",
        f"http://testserver{MODEL}?metric={board.slug}&version={version.number}",
    ):
        assert part in plain, part
    assert bibtex.startswith(f"@misc{{plumbline-{CAUSAL}-safety-starter-v1,")
    fields = dict(re.findall(r"(\w+) += \{(.*?)\},", bibtex))
    assert fields["year"] == f"{scoring.scored_at:%Y}"
    assert fields["url"] == f"http://testserver{MODEL}?metric={board.slug}&version=1"
    assert bibtex.count("{") == bibtex.count("}")
    assert client.get(f"{MODEL}?metric={board.slug}&version={version.number}").status_code == 200
    assert re.search(r'<button [^>]*data-copy="cite-safety-starter-measured" hidden>', html)


def test_a_published_result_cites_its_source(client, board):
    html = page(client, "/models/hosseini-2023-gpt-2/")
    plain = said(re.search(r'<pre id="cite-safety-toxigen-published.*?</pre>', html, re.S)[0])
    assert "figures published in Hosseini" in plain
    assert "2301.09211" in plain


def test_the_page_leads_to_comparison_and_samples_and_has_no_text_of_the_sets(client, board, models):
    html = page(client, MODEL)
    assert f'href="/compare/?m={CAUSAL}"' in html
    assert f'href="{MODEL}samples/"' in html
    for row in artefacts.load(board.protocol.evaluation_set.artefact).to_pylist():
        assert row["text"] not in html


def test_numbers_of_a_version_that_is_not_published_yet_are_not_shown(client, board, models):
    version = again(own(board, models[CAUSAL]))
    MetricVersion.objects.filter(pk=version.pk).update(published_at=None)
    assert "Metric version 2" not in said(page(client, MODEL))


@pytest.mark.slow
def test_queries_stay_the_same_and_the_page_small_with_twenty_versions_of_three_metrics(client, board, models):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            page(client, MODEL)
        return len(caught)

    before = queries()
    scoring = own(board, models[CAUSAL])
    for _ in range(19):
        scoring = again(scoring, 0.001).scorings.get(model=models[CAUSAL])
    attributes = {name: lambda true: true for name in ("toxicity", "insult", "threat")}
    metrics = [metric_of(slug, "profanity") for slug in ("first", "second")]
    runs = runs_on(metrics[0])
    runs[0].model = models[CAUSAL]
    runs[0].save()
    for metric in metrics:
        score_all(version_of(metric, "one"), runs, attributes)
    assert queries() == before <= MOST_QUERIES
    assert len(gzip.compress(page(client, MODEL).encode())) < MOST_BYTES


def test_dates_of_versions_are_those_of_the_scorings(client, board, models):
    scoring = own(board, models[CAUSAL])
    newest = again(scoring).scorings.get(model=models[CAUSAL])
    Scoring.objects.filter(pk=newest.pk).update(scored_at=scoring.scored_at + timedelta(days=40))
    _, rows = table(page(client, MODEL), f"Ranks over versions, {board.title}")
    expected = [f"{at:%Y-%m-%d}" for at in (scoring.scored_at, scoring.scored_at + timedelta(days=40))]
    assert [cells[-1] for cells in rows.values()] == expected
