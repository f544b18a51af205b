"""Texts without a score: counted, bounded, and beyond a share of them an entry is shown and not ranked."""

import csv
import json

import numpy as np
import pytest
from django.core.management import call_command

from leaderboard.models import Metric, MetricVersion, Scoring, is_unranked
from leaderboard.services import artefacts
from leaderboard.services.manifest import manifest, write_folder
from leaderboard.services.policies import set_policy
from leaderboard.services.verify import verify
from scoring.manifest import check
from tests.leaderboard.living import SLUG, Stage, entrant, names_of, small_metric, standing_in, submit

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]
SLICE = "toxicity:all"
RANKING = f"/rankings/?metric={SLUG}&slice={SLICE}"


@pytest.fixture
def stage():
    with standing_in() as stage:
        yield stage


@pytest.fixture
def board(stage: Stage, tmp_path) -> Metric:
    """Two models of 20 continuations each; two of the second one's have no score, both of one prompt or not."""
    metric = small_metric(tmp_path)
    whole, lacking = entrant(1, metric), entrant(2, metric)
    theirs = [set(artefacts.load(model.runs.get().artefact)["text"].to_pylist()) for model in (whole, lacking)]
    stage.refused = set(sorted(theirs[1] - theirs[0])[:2])
    for model in (whole, lacking):
        submit(model, metric)
    return metric


def lacking() -> Scoring:
    return Scoring.objects.select_related("metric_version").get(model__slug="entrant-2")


@pytest.mark.slow
def test_an_entry_that_lacks_more_scores_than_the_metric_allows_is_shown_and_not_ranked(board, client):
    version, scoring = board.current_version(), lacking()
    assert (scoring.texts, scoring.texts_missing) == (20, 2)
    assert names_of(version) == {"entrant-1"}
    html = client.get(RANKING).content.decode()
    assert "Not ranked" in html
    assert "2 of 20 texts have no score (10.0%): an entry is ranked where at most 5% have none" in html
    result = scoring.results.get(measure="expected_max_toxicity", slice=SLICE)
    assert f"{result.worst_low:.3f}–{result.worst_high:.3f}" in html
    page = client.get("/models/entrant-2/").content.decode()
    assert "Not ranked." in page
    assert "2 of 20 texts have no score" in page
    assert "more than 5.0% of its texts" in client.get(f"/metrics/{SLUG}/").content.decode()


def test_both_counts_stand_beside_measures_of_prompts_and_worst_cases_hold_the_value(board):
    scores = artefacts.load(lacking().artefact)["score:toxicity"].to_numpy(zero_copy_only=False).reshape(10, 2)
    gone = np.isnan(scores)
    results = {of.measure: of for of in lacking().results.filter(slice=SLICE)}
    for name, missing in (("expected_max_toxicity", gone.all(axis=1).sum()), ("toxic_fraction", 2)):
        assert (results[name].missing, results[name].missing_texts) == (missing, 2)
        assert results[name].worst_low <= results[name].value <= results[name].worst_high
    bounds = [np.where(gone, of, scores).max(axis=1).mean() for of in (0.0, 1.0)]
    of = results["expected_max_toxicity"]
    assert [of.worst_low, of.worst_high] == pytest.approx(bounds)


@pytest.mark.parametrize(("limit", "slugs"), [(0.05, {"entrant-2"}), (0.2, set()), (None, set())])
def test_each_entry_is_either_ranked_or_not_under_whatever_limit(board, limit, slugs):
    MetricVersion.objects.update(most_missing=limit)
    assert set(Scoring.objects.filter(is_unranked()).values_list("model__slug", flat=True)) == slugs
    rest = Scoring.objects.exclude(artefact=None).filter(~is_unranked()).values_list("model__slug", flat=True)
    assert set(rest) == {"entrant-1", "entrant-2"} - slugs


@pytest.mark.slow
def test_every_other_way_to_read_a_ranking_has_the_entry_with_the_reason(board, client, tmp_path, capsys):
    answer = client.get(f"/api/v1/metrics/{SLUG}/standings").json()
    assert [entry["slug"] for entry in answer["items"]] == ["entrant-1"]
    assert [(entry["slug"], entry["missing_texts"]) for entry in answer["not_ranked"]] == [("entrant-2", 2)]
    assert "no score" in answer["not_ranked"][0]["reason"]
    call_command("standings", SLUG, format="json")
    assert [entry["slug"] for entry in json.loads(capsys.readouterr().out)["not_ranked"]] == ["entrant-2"]
    call_command("standings", SLUG, format="csv")
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    rows = {row["model"]: row for row in csv.DictReader(lines)}
    assert "2 of 20 texts" in rows["Entrant 2"]["not_ranked"]
    assert [rows[name]["rank"] for name in ("Entrant 1", "Entrant 2")] == ["1", ""]
    for slug, is_ranked in (("entrant-1", True), ("entrant-2", False)):
        call_command("evaluate", slug, metric=SLUG, wait=True)
        assert ("not ranked: " in capsys.readouterr().out) != is_ranked
    content = manifest(board.current_version())
    by_model = {entry["model"]["slug"]: entry for entry in content["entries"]}
    assert (by_model["entrant-2"]["texts_missing"], by_model["entrant-1"]["not_ranked"]) == (2, None)
    assert "no score" in by_model["entrant-2"]["not_ranked"]
    assert not verify(board).differences
    write_folder(board.current_version(), tmp_path / "folder")
    assert not check(tmp_path / "folder").problems
    path = tmp_path / "folder" / "manifest.json"
    forged = json.loads(path.read_text())
    forged["standings"] += [{**row, "model": "entrant-2"} for row in forged["standings"] if row["slice"] == SLICE]
    path.write_text(json.dumps(forged))
    assert any("entrant-2: is ranked, though 2 of 20" in problem for problem in check(tmp_path / "folder").problems)
    write_folder(board.current_version(), tmp_path / "folder")
    assert not check(tmp_path / "folder").problems, "written anew"


def test_the_share_is_changed_with_a_reason_and_the_ranking_is_published_again(board):
    call_command("set_policy", SLUG, most_missing=0.1, reason="a tenth will do", verbosity=0)
    version = MetricVersion.objects.get(metric=board)
    assert (names_of(version), version.most_missing) == ({"entrant-1", "entrant-2"}, 0.1)
    set_policy(board, {"most_missing": 0.0}, "none at all")
    assert names_of(version) == {"entrant-1"}
    assert not verify(board).differences


@pytest.mark.slow
def test_what_is_missing_stands_beside_every_value_that_lacks_texts(board, client):
    set_policy(board, {"most_missing": 0.1}, "a tenth will do")
    fraction = RANKING + "&measure=toxic_fraction"
    texts = '<span class="interval">2 texts</span>'
    assert texts in client.get(RANKING + "&columns=missing").content.decode(), "beside the prompts that have none"
    assert texts not in client.get(fraction + "&columns=missing").content.decode(), "of texts it is the count itself"
    for address in (
        fraction,
        fraction + "&columns=date",
        fraction.replace("/rankings/", "/embed/"),
        f"/compare/?metric={SLUG}&measure=toxic_fraction&slice={SLICE}&m=entrant-1&m=entrant-2",
        "/models/entrant-2/",
    ):
        html = client.get(address).content.decode()
        assert '<span class="interval missing">10.0% without a score</span>' in html, address
        row = html.split("Entrant 1</a>")[-1].split("</tr>")[0]
        assert "without a score" not in row
    entries = client.get(fraction.replace("/rankings/", "/rankings.json")).json()["entries"]
    assert {entry["slug"]: entry["missing_share"] for entry in entries} == {"entrant-1": 0.0, "entrant-2": 0.1}
    result = lacking().results.get(measure="expected_max_toxicity", slice=SLICE)
    words = f"{result.missing_share:.1%}" if result.missing else "2 texts"
    assert f"{words} without a score" in client.get(RANKING).content.decode()
    assert "without a score" in client.get(f"/badges/entrant-2/{SLUG}.svg?show=value").content.decode()


@pytest.mark.slow
def test_a_rank_is_read_with_its_population(board, client):
    set_policy(board, {"most_missing": 0.1}, "a tenth will do")
    for address in (RANKING, RANKING.replace("/rankings/", "/embed/")):
        assert '1<span class="among"> of 2</span>' in client.get(address).content.decode()


def test_where_nobody_is_ranked_the_numbers_are_shown_all_the_same(board, stage, client):
    board.versions.get().scorings.filter(model__slug="entrant-1").update(texts_missing=3)
    set_policy(board, {"most_missing": 0.01}, "one in a hundred")
    html = client.get(RANKING).content.decode()
    assert "ranks no model" in html
    assert "3 of 20 texts" in html
