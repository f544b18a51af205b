"""Where copies of one rule had drifted apart: every face of the board now gives the same answer."""

import csv
import io
import json
import re
from html import unescape
from urllib.parse import urlencode

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.template.loader import render_to_string
from django.test import Client

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Standing, Submission
from leaderboard.queries.news import publications
from leaderboard.rankings.changes import record_of
from leaderboard.rankings.places import places_of
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_rankings import page, ranks, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

SAFETY = "safety-toxigen"
SLUG = "hosseini-2023-gpt-2"


def told(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


@pytest.fixture
def figures(db: None) -> MetricVersion:
    """The published figures of the safety metric."""
    seed_figures()
    return MetricVersion.objects.get(metric__slug=SAFETY)


def embedded(client: Client) -> str:
    """The frame that oEmbed offers for the ranking."""
    address = f"http://testserver/rankings/?metric={SAFETY}"
    html = client.get(f"/oembed?{urlencode({'url': address})}").json()["html"]
    return page(client, unescape(re.search(r'src="http://testserver([^"]+)"', html)[1]))


def letter(model: LanguageModel, version: MetricVersion) -> str:
    """What a submitter is written once a model is ranked."""
    submission = Submission(pk=1, payload={"name": model.name}, model=model)
    places = list(places_of(model, [version]).values())
    context = {"name": model.name, "news": "ranked", "submission": submission, "places": places, "site": ""}
    return render_to_string("submissions/letter.txt", context)


def faces(client: Client, model: LanguageModel, version: MetricVersion) -> dict[str, bool]:
    """Whether each face of the board gives the model a rank in the metric."""
    items = client.get(f"/api/v1/metrics/{SAFETY}/standings?limit=1000").json()["items"]
    entries = client.get(f"/rankings.json?metric={SAFETY}").json()["entries"]
    rows = csv.DictReader(io.StringIO(client.get(f"/rankings.csv?metric={SAFETY}").content.decode("utf-8-sig")))
    command = json.loads(told("standings", SAFETY, "--format", "json"))["entries"]
    badge = client.get(f"/badges/{model.slug}/{SAFETY}.svg").content.decode()
    section = page(client, f"/models/{model.slug}/").split(f'id="profile-{SAFETY}-')[1]
    return {
        "page": model.name
        in dict(map(reversed, ranks(page(client, f"/rankings/?metric={SAFETY}&provenance=published&rows=100")))),
        "frame": model.name in dict(map(reversed, ranks(embedded(client)))),
        "API": model.slug in {item["slug"] for item in items},
        "JSON": model.slug in {entry["slug"] for entry in entries},
        "CSV": model.slug in {row["slug"] for row in rows},
        "command": model.slug in {entry["slug"] for entry in command},
        "badge": "not ranked" not in badge,
        "its page": 'class="standing"' in section.split("</section>")[0],
        "letter": ": rank " in letter(model, version),
    }


@pytest.mark.slow
def test_a_model_without_an_overall_standing_has_no_rank_in_the_metric_anywhere(client, figures):
    model = LanguageModel.objects.get(slug=SLUG)
    other = LanguageModel.objects.get(slug="hosseini-2023-gpt-2-medium")
    Standing.objects.filter(model=model, slice="average").delete()
    assert [face for face, ranked in faces(client, model, figures).items() if ranked] == []
    assert [face for face, ranked in faces(client, other, figures).items() if not ranked] == []
    elsewhere = Standing.objects.filter(metric_version=figures, model=model, population=model.kind)
    measure, name = elsewhere.values_list("measure", "slice")[0]
    asked = f"limit=1000&measure={measure}&slice={name}"
    items = client.get(f"/api/v1/metrics/{SAFETY}/standings?{asked}").json()["items"]
    assert SLUG in {item["slug"] for item in items}, "it still stands where it is ranked"


def test_a_value_has_the_digits_of_its_source_everywhere(client, figures):
    MetricVersion.objects.filter(pk=figures.pk).update(decimals=1)
    result = Result.objects.get(scoring__model__slug=SLUG, measure=figures.first_measure, slice="average")
    expected = f"{'≈ ' if result.derived else ''}{result.value:.1f}"
    assert f'<td class="num value">{expected}' in page(
        client, f"/rankings/?metric={SAFETY}&provenance=published&rows=100"
    )
    assert f'<td class="num value">{expected}' in embedded(client)
    badge = client.get(f"/badges/{SLUG}/{SAFETY}.svg?show=value").content.decode()
    assert f"auc {expected} · v" in badge
    profile = page(client, f"/models/{SLUG}/?metric={SAFETY}&version={figures.number}")
    assert f"average, {expected}." in said(profile)
    assert f" of GPT-2: {expected.removeprefix('≈ ')}" in said(profile)  # the citation
    for text in (
        client.get(f"/rankings.markdown?metric={SAFETY}").content.decode(),
        told("standings", SAFETY, "--format", "markdown"),
    ):
        (row,) = (line for line in text.splitlines() if "| GPT-2 |" in line)
        assert f"| {result.value:.1f} |" in row
    compared = page(client, f"/compare/?metric={SAFETY}&m={SLUG}&m=hosseini-2023-gpt-2-medium")
    assert f'<td class="num value">{expected}</td>' in compared


def test_a_metric_that_ranks_all_models_together_has_no_ranking_of_a_kind(client, db):
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    for name in ("one", "two"):
        score_all(version_of(metric, name), runs, {"profanity": lambda x: x})
    for path in ("standings", "rank-changes"):
        answer = client.get(f"/api/v1/metrics/rude/{path}?population=causal")
        fault = answer.json()["errors"][0]
        assert (answer.status_code, fault["field"], fault["value"]) == (404, "population", "causal")
    for command in ("standings", "rank_changes"):
        with pytest.raises(CommandError, match=r"population = .causal..*use all"):
            told(command, "rude", "--kind", "causal")
    html = page(client, "/rankings/?metric=rude&kind=causal")
    assert len(ranks(html)) == 4


@pytest.mark.slow
def test_a_rank_counts_models_that_were_hidden_since(client, db):
    metric = metric_of("rude", "profanity")
    score_all(version_of(metric, "one"), runs_on(metric), {"profanity": lambda x: x})
    LanguageModel.objects.filter(slug="birch").update(hidden_note="asked for")
    items = client.get("/api/v1/metrics/rude/standings").json()["items"]
    entries = json.loads(told("standings", "rude", "--format", "json"))["entries"]
    assert {item["population_size"] for item in items} == {entry["population_size"] for entry in entries} == {4}
    assert [item["slug"] for item in items] == [entry["slug"] for entry in entries]


def test_a_version_and_a_day_mean_that_version_as_it_stood_then(client, db):
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    for name in ("one", "two"):
        score_all(version_of(metric, name), runs, {"profanity": lambda x: x})
    tomorrow, past = "2999-01-01", "2001-01-01"
    assert (
        client.get(f"/api/v1/metrics/rude/standings?version=1&as_of={tomorrow}").json()["versions"][0]["version"] == 1
    )
    assert client.get(f"/rankings.json?metric=rude&version=1&as_of={tomorrow}").json()["version"] == 1
    assert client.get(f"/api/v1/metrics/rude/standings?version=1&as_of={past}").status_code == 404
    assert "No such ranking stood" in said(page(client, f"/rankings/?metric=rude&version=1&as_of={past}"))


@pytest.mark.slow
def test_changes_are_among_the_first_kind_that_both_versions_rank(client, figures):
    metric = figures.metric
    later = copy_version(figures)
    figures.standings.filter(population="causal").delete()
    record = record_of(Metric.objects.get(pk=metric.pk))
    assert record.before.population == "masked"
    assert client.get(f"/api/v1/metrics/{SAFETY}/rank-changes").json()["population"] == "masked"
    html = page(client, f"/history/?metric={SAFETY}")
    assert '<option value="masked" selected>' in html
    assert f"of {len(record.changes.models)} ranks changed" in html
    (item,) = publications(metric)
    assert (item.before, item.after) == (figures, later)
    assert item.models >= len(record.changes.models)


def copy_version(version: MetricVersion) -> MetricVersion:
    """The next version of the same metric, with the same figures and ranks."""
    MetricVersion.objects.filter(pk=version.pk).update(status="superseded")
    later = MetricVersion.objects.get(pk=version.pk)
    later.pk, later.number, later.status = None, version.number + 1, "current"
    later.save()
    scorings = {}
    for scoring in version.scorings.order_by("pk"):
        old = scoring.pk
        scoring.pk, scoring.metric_version = None, later
        scoring.save()
        scorings[old] = scoring
    for standing in version.standings.select_related("result"):
        result = standing.result
        copy, _ = Result.objects.get_or_create(
            scoring=scorings[result.scoring_id],
            measure=result.measure,
            slice=result.slice,
            defaults={"value": result.value, "n": result.n, "published_rank": result.published_rank},
        )
        standing.pk, standing.metric_version, standing.result = None, later, copy
        standing.save()
    return later
