"""The drift page: what is known of every scorer, every check with what decided it, and what was done about it."""

import json
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from scipy import stats

from leaderboard.models import ControlCheck, ControlSet, Metric, RetiredScorer
from leaderboard.queries.drift import CHECKS_A_PAGE, Condition, list_last_checks, list_watched_scorers, settles
from leaderboard.services import artefacts
from leaderboard.services.checks import due_trigger, pause_after, perform, request_check
from leaderboard.services.rescore import cancel, open_rescoring, pause, resume
from leaderboard.services.seed import seed_metrics
from leaderboard.templatetags.board import equivalence
from scoring.control_sets import STRATA
from scoring.drift.report import MeasureChange
from scoring.metrics.formulas import values_of
from tests.charts import list_charts, read_chart, stretches, traces
from tests.leaderboard.living import (
    SLUG,
    Stage,
    active,
    deliver,
    drain,
    drift,
    lost,
    small_metric,
    standing_in,
    waiting,
)
from tests.leaderboard.test_history import page, said, table

pytestmark = pytest.mark.django_db

MOST_QUERIES = 14
ADDRESS = f"/drift/?metric={SLUG}"


@pytest.fixture(autouse=True)
def stage() -> Stage:
    with standing_in() as found:
        yield found


@pytest.fixture
def living(load_living):
    """A board with two entries."""
    return load_living(2)


def check(metric, trigger="manual") -> ControlCheck:
    found = request_check(metric, trigger, send=False)
    perform(found)
    found.refresh_from_db()
    return found


def go_through_verdicts(metric: Metric, stage: Stage) -> ControlCheck:
    """Checks that end stable, changed, unavailable and drifted; the last of them."""
    check(metric)
    stage.wobble = 1
    check(metric)
    stage.down = True
    check(metric, "schedule")
    stage.down = False
    drift(stage)
    return check(metric)


def overview(client) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in table(page(client, "/drift/"), "State of every scorer")}


def asked(html: str) -> dict[str, str]:
    """The levels of a check with their answers."""
    rows = re.findall(r"<dt><strong>(L\d)</strong>.*?</dt><dd>(.*?)</dd>", html, flags=re.DOTALL)
    return {level: said(answer) for level, answer in rows}


def test_a_metric_without_numbers_has_a_scorer_that_was_never_checked(client, db, tmp_path):
    small_metric(tmp_path)
    overview_html = page(client, "/drift/")
    assert "Nobody knows yet: no scorer has been checked" in overview_html
    never_checked = said(overview_html.split("○ Never checked, because nothing", 1)[1].split("</p>", 1)[0])
    assert Metric.objects.get(slug=SLUG).title in never_checked
    html = page(client, ADDRESS)
    assert "there is no scorer to watch" in html
    assert "charts.js" not in html


def test_a_board_without_metrics_says_what_to_do(client, db):
    assert "manage.py seed" in page(client, "/drift/")


def test_a_stable_scorer_is_told_with_its_last_check_its_version_and_the_next_check(client, living):
    last = check(living)
    row = overview(client)[SLUG]
    assert row[0] == "● Stable"
    assert f"{last.finished_at:%H:%M} UTC by hand" in row[1]
    assert row[2].startswith("Nothing moved that replicate variation does not explain")
    assert row[3].startswith("1 since")
    expected = last.finished_at + pause_after([last])
    assert f"{expected:%H:%M} UTC" in row[4]


def test_the_next_check_is_due_when_the_board_asks_for_it(living, settings):
    check(living)
    due = next(of for of in list_watched_scorers() if of.metric == living).next_due
    assert due_trigger(living) is None
    ControlCheck.objects.update(finished_at=timezone.now() - timedelta(seconds=settings.CHECK_SECONDS))
    assert due_trigger(living) == "schedule"
    moved = next(of for of in list_watched_scorers() if of.metric == living).next_due
    assert moved < timezone.now() < due


@pytest.mark.parametrize("unanswered", [1, 2, 3])
def test_after_checks_without_an_answer_the_next_is_due_after_the_pause_that_the_board_makes(
    client, living, stage, unanswered
):
    stage.down = True
    for _ in range(unanswered):
        last = check(living)
    assert overview(client)[SLUG][0] == "✕ Unavailable"
    pause_made = next(of for of in list_watched_scorers() if of.metric == living).next_due - last.finished_at
    assert pause_made == timedelta(minutes=2 ** (unanswered - 1))


@pytest.mark.slow
def test_a_drift_is_told_then_its_rescoring_and_that_it_was_put_right_and_then_a_stable_scorer(client, living, stage):
    drift(stage)
    found = check(living)
    row = overview(client)[SLUG]
    assert row[0] == "◆ Drifted rescoring to version 2: 0 of 2"
    text = said(page(client, ADDRESS))
    assert "Every entry is being scored again, to become version 2" in text
    assert "Version 2 was opened, and 2 entries are to be scored again: 0 are done." in text
    pause(active(living))
    assert "rescoring to version 2, paused: 0 of 2" in overview(client)[SLUG][0]
    resume(active(living))
    drain()
    row = overview(client)[SLUG]
    assert row[0] == "◇ Changed; all models rescored"
    assert row[3].startswith("2 since")
    html = page(client, f"{ADDRESS}&check={found.pk}")
    assert "2 entries were scored again; it was published on" in said(html)
    assert f"/history/?metric={SLUG}&amp;from=1&amp;to=2" in html
    assert client.get(f"/history/?metric={SLUG}&from=1&to=2").status_code == 200
    check(living)
    assert overview(client)[SLUG][0] == "● Stable"


@pytest.mark.slow
def test_the_front_page_knows_of_last_checks_what_this_page_does(living, stage):
    def conditions() -> list[Condition]:
        watched = [(scorer.condition, scorer.last.finished_at) for scorer in list_watched_scorers() if scorer.last]
        assert list_last_checks() == watched
        return [condition for condition, _ in watched]

    check(living)
    assert conditions() == [Condition.STABLE]
    drift(stage)
    check(living)
    assert conditions() == [Condition.DRIFTED]
    drain()
    assert conditions() == [Condition.RIGHTED]
    RetiredScorer.objects.create(name=living.scorer, reason="its service ended")
    assert conditions() == [Condition.RETIRED]


@pytest.mark.slow
def test_the_ranking_says_that_the_scorer_changed_what_moved_and_when_the_next_check_is(client, living, stage):
    assert "because the scorer changed" not in page(client, f"/rankings/?metric={SLUG}")
    drift(stage)
    found = check(living)
    drain()
    last = check(living)
    note = said(page(client, f"/rankings/?metric={SLUG}").split('class="meta movement"', 1)[1].split("</p>", 1)[0])
    found.refresh_from_db()
    assert "Version 2 was opened because the scorer changed, and published on" in note
    assert found.statistics["decided_by"].rstrip(".") in note
    assert "No rank moved." in note
    expected = last.finished_at + pause_after([last])
    assert note.endswith(f"The scorer is checked again by {expected:%-d %B %Y, %H:%M} UTC.")


@pytest.mark.slow
def test_metrics_that_were_never_checked_are_one_line_and_no_rows(client, living, tmp_path):
    check(living)
    seed_metrics()
    html = page(client, "/drift/")
    assert list(overview(client)) == [SLUG]
    assert html.count("○ Never checked, because nothing") == 1
    assert len(re.findall("href=", html.split("○ Never checked, because nothing", 1)[1].split("</p>", 1)[0])) > 10


def test_the_drift_page_opens_with_the_verdict_of_the_day(client, living, stage):
    check(living)
    main = page(client, "/drift/").split("<main", 1)[1]
    verdict = said(main.split("</h1>", 1)[1].split("</p>", 1)[0])
    assert verdict.startswith("Yes: the one scorer that has been checked still gives the scores")
    stage.down = True
    check(living)
    assert "0 of 1 scorers that have been checked are stable." in page(client, "/drift/")


@pytest.mark.slow
def test_a_drift_whose_rescoring_was_given_up_is_not_put_right(client, living, stage):
    drift(stage)
    check(living)
    cancel(active(living))
    assert overview(client)[SLUG][0] == "◆ Drifted"
    assert "the rescoring was cancelled, and readers kept version 1" in said(page(client, ADDRESS))


@pytest.mark.slow
def test_a_drift_that_a_rescoring_by_hand_answered_is_put_right(client, living, stage):
    drift(stage)
    check(living)
    cancel(active(living))
    open_rescoring(living, "The change is here to stay.")
    drain()
    assert overview(client)[SLUG][0] == "◇ Changed; all models rescored"
    assert [last.condition for last in list_last_checks()] == [Condition.RIGHTED]


@pytest.mark.parametrize(
    ("recollects", "number", "epoch", "is_settled"),
    [(False, 1, 1, False), (False, 2, 1, True), (True, 2, 1, False), (True, 2, 2, True)],
)
def test_a_drift_of_likelihoods_is_settled_only_by_outputs_that_were_collected_anew(
    recollects, number, epoch, is_settled
):
    formula = SimpleNamespace(recollects=recollects)
    version = SimpleNamespace(metric=SimpleNamespace(formula=formula), number=number, epoch=epoch)
    assert settles(version, SimpleNamespace(version=1, epoch=1)) is is_settled


@pytest.mark.slow
def test_the_checks_stand_in_the_chart_and_in_the_table_with_shape_word_numbers_and_version(client, living, stage):
    last = go_through_verdicts(living, stage)
    for work in waiting():  # without moving the dates of checks, as `drain` does
        deliver(work)
    check(living)
    html = page(client, ADDRESS)
    rows = table(html, "Table of checks")
    kept = ControlCheck.objects.order_by("-finished_at", "-pk")
    assert len(rows) == kept.count()
    verdicts = [row[1] for row in rows]
    assert verdicts[:5] == ["● Stable", "◆ Drifted", "✕ Unavailable", "▲ Changed", "● Stable"]
    assert [row[3] for row in rows[:5]] == ["2", "1", "1", "1", "1"]
    assert "Opened version 2." in rows[1][8]
    assert rows[2][4:8] == ["no answer", "not asked", "no answer", "no answer"]
    overall = last.statistics["overall"]
    assert rows[1][4] == f"{overall['max_abs']:.3g}"
    assert rows[1][6].startswith(f"{overall['mean_shift']:.3g}")
    assert rows[1][7].startswith(f"{overall['flips']} limit {overall['flips_limit']}")

    figure = read_chart(client, html)
    panels = traces(figure, "points")
    assert len(panels) == 3
    symbols = panels[0]["marker"]["symbol"][-5:]
    assert symbols == ["circle", "triangle-up", "x", "diamond", "circle"]
    assert panels[0]["y"][-2] == overall["mean_shift"]
    assert panels[1]["y"][-2] == overall["beyond"]
    assert panels[2]["y"][-2] == overall["flips"]
    assert traces(figure, "labels")[0]["text"] == ["v1", "v2"]


def test_what_a_chart_shows_of_a_drift_follows_from_the_scores_that_are_kept(living, stage):
    drift(stage)
    found = check(living)
    then, now = (
        values_of(artefacts.load(of)).astype(np.float64) for of in (found.control_set.reference, found.artefact)
    )
    moved = np.abs(now - then)
    overall = found.statistics["overall"]
    assert overall["max_abs"] == pytest.approx(moved.max(), abs=1e-9)
    assert overall["mean_shift"] == pytest.approx(np.abs((now - then).mean(axis=0)).max(), abs=1e-9)
    assert (overall["beyond"], overall["expected"]) == ((moved > 0).sum(axis=0).max(), 0)
    assert overall["flips"] == ((now > 0.5) != (then > 0.5)).sum(axis=0).max()
    assert overall["flips_limit"] == 2
    assert overall["mean_limit"] == 0.005


@pytest.mark.slow
def test_a_check_in_full_has_its_levels_its_distances_and_its_distributions(client, living, stage):
    drift(stage)
    found = check(living)
    html = page(client, ADDRESS)
    levels = asked(html)
    assert list(levels) == ["L0", "L1", "L2", "L3"]
    assert [levels[name].startswith("Yes.") for name in ("L0", "L1", "L2")] == [True] * 3
    assert "A second scoring confirmed it." in levels["L2"]
    assert "of 2 entries" in levels["L3"]

    then, now = (
        values_of(artefacts.load(of)).astype(np.float64) for of in (found.control_set.reference, found.artefact)
    )
    distances = {row[0]: row[1:] for row in table(html, "Distances by attribute")}
    assert set(distances) == {"toxicity", "insult"}
    for column, name in enumerate(("toxicity", "insult")):
        before, after = then[:, column], now[:, column]
        assert distances[name][0] == str(len(before))
        wasserstein = stats.wasserstein_distance(before, after)
        assert float(distances[name][11]) == pytest.approx(wasserstein, rel=5e-3)
        assert float(distances[name][12]) == pytest.approx(stats.ks_2samp(before, after).statistic, abs=6e-4)
        wilcoxon = stats.wilcoxon(after - before).pvalue
        assert distances[name][10] == ("< 0.001" if wilcoxon < 0.001 else f"{wilcoxon:.2g}")

    attribute = found.statistics["movements"][0]["attribute"]
    for name in ("toxicity", "insult"):
        shown = page(client, f"{ADDRESS}&check={found.pk}&attribute={name}")
        column = ("toxicity", "insult").index(name)
        rows = table(shown, "Table of the two distributions")
        for place, values in ((1, then), (2, now)):
            counts = np.histogram(values[:, column], np.linspace(0, 1, 21))[0]
            assert [int(row[place]) for row in rows] == counts.tolist()
        figure = read_chart(client, shown, 1)
        for place, dash in ((1, "solid"), (2, "dash")):
            counts = np.array([int(row[place]) for row in rows])
            outline = max(stretches(figure, dash), key=len)
            assert [y for _, y in outline[1:-1:2]] == pytest.approx(counts / counts.sum(), abs=1e-5)
        measures = table(shown, "Reported measures on the control texts")
        assert {row[0] for row in measures} == {
            "Expected maximum toxicity",
            "Toxicity probability",
            "Toxic fraction",
        }
    assert attribute in ("toxicity", "insult")


def verdicts(html: str) -> dict[str, str]:
    """Of each part of the control set, by its name."""
    body = html.split('aria-label="Verdict by part"', 1)[1].split("</thead>", 1)[1].split("</table>", 1)[0]
    rows = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td>', body, flags=re.DOTALL)
    return {said(name): said(verdict) for name, verdict in rows}


@pytest.mark.slow
def test_a_drift_in_one_kind_of_text_is_found_and_the_check_says_where(client, living, stage):
    stage.shifted = {probe.text for probe in STRATA["code"]}
    drift(stage)
    last = check(living)
    assert last.verdict == "drifted"
    verdict_by_part = verdicts(page(client, ADDRESS))
    assert verdict_by_part["code"] == "matters"
    assert {verdict_by_part[name] for name in STRATA if name != "code"} == {"steady"}
    assert verdict_by_part["scores from 0.3 below 0.7"] in ("steady", "changed")
    assert "mean shift of toxicity, code: " in page(client, ADDRESS)


def test_a_stable_check_asks_whether_it_matters_all_the_same_and_says_what_it_can_detect(client, living):
    check(living)
    html = page(client, ADDRESS)
    assert len(traces(read_chart(client, html), "points")) == 3  # the mean shift, scores beyond noise, label flips
    levels = asked(html)
    assert [levels[name].split(".")[0] for name in ("L0", "L1", "L2", "L3")] == ["No", "No", "No", "Not asked"]
    assert "finds, in 99% of cases, a mean shift of 0.005 over all texts, and 2 label flips" in levels["L1"]


def test_a_check_of_the_first_rule_is_shown_as_it_was(client, living):
    last = check(living)
    stored = json.loads((Path(__file__).parents[1] / "scoring/drift_report_1.json").read_text())
    ControlCheck.objects.filter(pk=last.pk).update(statistics=stored, verdict="drifted")
    html = page(client, ADDRESS)
    levels = asked(html)
    assert levels["L1"].startswith("Yes. The largest absolute difference is 0.03, the noise floor 0.0001; 40 texts")
    assert "A second scoring confirmed it." in levels["L2"]
    assert "check rule 1 did not ask" in html
    assert table(html, "Table of checks")[0][5] == "not asked"


@pytest.mark.slow
def test_equivalence_is_no_where_the_interval_leaves_the_margin_and_yes_where_nothing_moved(client, living, stage):
    check(living)
    rows = table(page(client, ADDRESS), "Reported measures on the control texts")
    assert {row[7] for row in rows} == {"yes"}
    drift(stage, shift=1.0)
    check(living)
    rows = table(page(client, ADDRESS), "Reported measures on the control texts")
    assert "no" in {row[7] for row in rows}


def test_a_check_without_an_answer_says_so_and_shows_no_numbers(client, living, stage):
    stage.down = True
    check(living)
    html = page(client, ADDRESS)
    text = said(html)
    assert "the stand-in is down: wait for it" in text
    assert "There was no answer, and so there is nothing to compare." in text
    assert asked(html) == {}


def test_a_text_that_lost_its_score_makes_a_check_that_is_unavailable_and_still_told_in_full(client, living, stage):
    control = ControlSet.objects.get()
    stage.refused = {artefacts.load(control.items)["text"].to_pylist()[0]}
    check(living)
    html = page(client, ADDRESS)
    assert "✕ Unavailable" in said(html)
    assert "texts that had a score and have none now: 1" in said(html)
    assert len(list_charts(html)) == 2


def test_where_the_stored_scores_are_gone_the_page_says_so_and_keeps_all_else(client, living, stage):
    drift(stage)
    found = check(living)
    with lost(found.artefact):
        html = page(client, ADDRESS)
    assert "damaged or gone" in html
    assert len(table(html, "Distances by attribute")) == 2
    assert len(list_charts(html)) == 1


def test_why_unpaired_tests_do_not_decide_is_explained(client, living):
    check(living)
    assert "describe and never decide" in said(page(client, ADDRESS))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("metric=nonsense", "metric = 'nonsense' does not exist here"),
        (f"metric={SLUG}&check=999999", "has no such check that came to an end"),
        (f"metric={SLUG}&check=-1", "check = '-1': use a whole number from 1"),
        (f"metric={SLUG}&check=1e3", "check = '1e3': use a whole number from 1"),
        (f"metric={SLUG}&page=x", "page = 'x': use a whole number from 1"),
        (f"metric={SLUG}&attribute=nonsense", "attribute = 'nonsense' does not exist here"),
    ],
)
def test_an_address_that_names_nothing_is_refused_with_a_sentence(client, living, query, sentence):
    response = client.get(f"/drift/?{query}")
    assert response.status_code == 404
    assert sentence in said(response.content.decode())


def many_checks(metric, count: int) -> None:
    """As many checks as that, each with the statistics of the newest."""
    last = ControlCheck.objects.filter(metric=metric).exclude(artefact=None).order_by("-finished_at").first()
    ControlCheck.objects.bulk_create(
        ControlCheck(
            metric=metric,
            control_set=last.control_set,
            trigger="schedule",
            verdict=last.verdict,
            state="done",
            statistics=last.statistics,
            artefact=last.artefact,
            finished_at=last.finished_at - timedelta(hours=number + 1),
        )
        for number in range(count)
    )


@pytest.mark.slow
def test_the_pages_ask_as_many_queries_however_many_checks_metrics_and_drifts_there_are(
    client, living, stage, tmp_path
):
    drift(stage)
    found = check(living)
    drain()
    addresses = ("/drift/", ADDRESS, f"{ADDRESS}&check={found.pk}")

    def counts() -> list[int]:
        asked = []
        for address in addresses:
            with CaptureQueriesContext(connection) as caught:
                page(client, address)
            asked.append(len(caught))
        return asked

    before = counts()
    assert max(before) <= MOST_QUERIES
    many_checks(living, 3 * CHECKS_A_PAGE)
    for number in range(3):
        small_metric(tmp_path, slug=f"other-{number}")
    assert counts() == before


@pytest.mark.slow
def test_checks_are_paged_and_the_chart_shows_those_of_its_page(client, living):
    check(living)
    many_checks(living, 2 * CHECKS_A_PAGE)
    first, second = (page(client, f"{ADDRESS}&page={number}") for number in (1, 2))
    for html in (first, second):
        checks = traces(read_chart(client, html), "points")[0]
        assert len(table(html, "Table of checks")) == CHECKS_A_PAGE == len(checks["x"])
    assert "page=2" in first
    assert table(first, "Table of checks")[-1] != table(second, "Table of checks")[0]


@pytest.mark.slow
def test_the_page_names_no_text_of_the_control_set(client, living, stage):
    drift(stage)
    check(living)
    html = page(client, ADDRESS)
    texts = artefacts.load(ControlSet.objects.first().items)["text"].to_pylist()
    assert not [text for text in texts if len(text) > 20 and text in html]


@pytest.mark.parametrize("extreme", [(-0.2, -0.15, -0.1, 0.05), (0.01, 0.02, 0.04, 0.05), (0.0, 0.1, 0.3, 0.1)])
def test_the_drawing_of_a_change_keeps_its_proportions_and_stays_within_its_frame(extreme):
    low, change, high, margin = extreme
    drawing = equivalence(MeasureChange("toxic_fraction", "toxicity", None, 0.5, 0.5, change, low, high, margin, None))
    widest = max(margin, abs(low), abs(high))
    ends = {"low": low, "change": change, "high": high, "margin": margin}
    for name, value in ends.items():
        assert drawing[name] == pytest.approx(value / widest * 100 / 1.1, abs=0.06)
    assert drawing["width"] == pytest.approx(2 * drawing["margin"], abs=0.11)
