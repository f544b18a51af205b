"""Successions: a scorer compared with the one that is to follow it, and the hand-over; by worker, command and page."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from leaderboard import tasks
from leaderboard.models import (
    Artefact,
    AuditEvent,
    AuditVerb,
    EvaluationSet,
    LanguageModel,
    Metric,
    MetricVersion,
    Succession,
    Work,
)
from leaderboard.models.clock import from_now
from leaderboard.people.services.roles import set_role
from leaderboard.queries.succession import announced_end, newest_succession, show_succession
from leaderboard.queries.succession_words import entry_table, sentences
from leaderboard.services import artefacts, calibrations, rescore
from leaderboard.services import succession as service
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.succession_ranks import find_measurement
from leaderboard.services.succession_texts import SuccessionVersions, find_published_set, find_versions
from scoring.evaluation_sets import build_starter, get
from scoring.metrics.kinds import Measurement
from scoring.refusals import Refused
from scoring.scorers import registry
from scoring.scorers.registry import ScorerDeclaration
from scoring.succession import Preservation, fit_mapping, split_groups
from tests.declared import harms
from tests.leaderboard.approved_board import compare_pages
from tests.leaderboard.conftest import keep_quickly, seed_figures
from tests.leaderboard.living import (
    NAME,
    SLUG,
    Killed,
    Stage,
    StandIn,
    drain,
    entrant,
    probability,
    small_metric,
    standing_in,
    standings_of,
    submit,
)
from tests.leaderboard.stored import metric_of, version_of
from tests.leaderboard.test_history import page, said, table
from tests.rows import Board, load_board

pytestmark = pytest.mark.django_db

HEIR, HEIR_SLUG = "heir", "toxicity-heir"
SHIFT = 1.0  # of the heir's logits: it sees the same, and calls more of it toxic
COPIES = 4  # of the ten prompts
ADDRESS = f"/metrics/{SLUG}/succession/"


def add_heir() -> Stage:
    """Register the successor among the scorers; returns what sets it."""
    heir = Stage(fingerprint="heir", shift=SHIFT)
    registry.SCORERS = (*registry.SCORERS, ScorerDeclaration(HEIR, "Heir", False, lambda _choice: StandIn(heir)))
    return heir


@pytest.fixture(autouse=True)
def heir() -> Iterator[Stage]:
    """The successor, as the stage sets it."""
    with standing_in():
        yield add_heir()


def measure(folder: Path) -> Metric:
    """A board with four entries."""
    metric = small_metric(folder, copies=COPIES)
    for number in range(1, 5):
        submit(entrant(number, metric), metric)
    return metric


def measure_twice(folder: Path) -> None:
    """The same entries, scored by the heir too, for a metric of its own."""
    measure(folder)
    second = small_metric(folder, slug=HEIR_SLUG, scorer=HEIR, copies=COPIES)
    for model in LanguageModel.objects.all():
        request_evaluation(model, second, send=False)
    drain()


@pytest.fixture(scope="module")
def boards(django_db_setup, django_db_blocker, tmp_path_factory) -> dict[str, Board]:
    """The rows of both boards, computed once."""
    with django_db_blocker.unblock(), standing_in():
        add_heir()
        folder = tmp_path_factory.mktemp("boards")
        return {build.__name__: keep_quickly(partial(build, folder)) for build in (measure, measure_twice)}


@pytest.fixture
def metric(db, boards) -> Metric:
    """A board with four entries, scored by one scorer."""
    load_board(boards["measure"])
    return Metric.objects.get(slug=SLUG)


@pytest.fixture
def shared(db, boards) -> Metric:
    """The same board, whose entries the heir has scored, too."""
    load_board(boards["measure_twice"])
    return Metric.objects.get(slug=SLUG)


def compare(metric: Metric, successor: str = HEIR) -> Succession:
    """The comparison, done by a worker."""
    row = service.request_succession(metric, successor, send=False)
    tasks.compare_successor(row.pk)
    row.refresh_from_db()
    assert row.state == Work.State.DONE, row.reason
    return row


def operator() -> User:
    user = User.objects.create_user("olga", "olga@example.org", "x")
    set_role(user, "operator")
    return user


def test_prompts_with_published_scores_are_enough_where_nobody_can_ask_the_old_scorer(client, db, tmp_path):
    metric = small_metric(tmp_path, slug="toxicity-perspective-small", scorer="perspective", copies=COPIES)
    row = compare(metric)
    (source,) = row.result["sources"]
    assert (source["key"], row.scorer, row.result["old_version"]) == ("published", "perspective", None)
    toxicity = source["attributes"][0]
    prompts = artefacts.load(metric.protocol.evaluation_set.artefact)
    published = {
        r["id"]: r["score"]
        for r in artefacts.load(metric.protocol.evaluation_set.prompt_scores).to_pylist()
        if r["attribute"] == "toxicity"
    }
    pairs = np.array(
        [
            (published[id_], np.float32(probability(text, "toxicity", SHIFT)))
            for id_, text in zip(prompts["id"].to_pylist(), prompts["text"].to_pylist(), strict=True)
            if published[id_] is not None
        ]
    )
    assert (toxicity["n"], toxicity["missing"]) == (len(pairs), 4)
    assert toxicity["pearson"]["value"] == pytest.approx(np.corrcoef(pairs.T)[0, 1])
    assert toxicity["labels"]["only_second"] == ((pairs[:, 0] <= 0.5) & (pairs[:, 1] > 0.5)).sum()
    report = show_succession(row)
    assert (report.orders, report.ranks) == (None, Preservation.UNKNOWN)
    with time_machine.travel(datetime(2026, 12, 31, 23, tzinfo=UTC)):
        text = said(page(client, "/metrics/toxicity-perspective-small/succession/"))
    assert "no model has been scored by both" in text
    assert "Perspective ends on 31 December 2026: nothing can be scored with it after that day." in text
    with time_machine.travel(datetime(2027, 1, 1, tzinfo=UTC)):
        assert announced_end("perspective").startswith("Perspective ended on 31 December 2026:")


def test_published_scores_are_those_of_the_metrics_own_prompts_else_of_the_most_that_are_whole(db):
    metric = metric_of("careful", "profanity")
    own = metric.protocol.evaluation_set
    files = [
        Artefact.objects.create(sha256=f"{number:064x}", kind="scores", rows=number, size=1, schema_version=1)
        for number in (1, 2, 3)
    ]
    few, many, missing_set = (
        EvaluationSet.objects.create(slug=slug, title=slug, kind=own.kind, artefact=file, prompt_scores=file)
        for slug, file in zip(("few", "many", "lost"), files, strict=True)
    )
    Artefact.objects.filter(pk=missing_set.artefact_id).update(state=Artefact.State.MISSING)
    assert find_published_set(metric) == own
    EvaluationSet.objects.filter(pk=own.pk).update(prompt_scores=None)
    assert find_published_set(metric) == many
    EvaluationSet.objects.filter(pk=many.pk).update(prompt_scores=None)
    assert find_published_set(metric) == few
    EvaluationSet.objects.filter(pk=few.pk).update(prompt_scores=None)
    assert find_published_set(metric) is None


def test_what_the_successor_answered_is_not_kept_beyond_the_comparison(metric, settings):
    row = service.request_succession(metric, HEIR, send=False)
    replies = Path(settings.VAR, "replies", f"succession-{row.pk}")
    replies.mkdir(parents=True)
    tasks.compare_successor(row.pk)
    assert not replies.exists()
    assert not Path(default_storage.path(f"shards/succession-{row.pk}")).exists()


@pytest.mark.slow
def test_entries_that_both_scored_are_ranked_under_each_and_after_the_mapping(shared):
    row = compare(shared)
    keys = [source["key"] for source in row.result["sources"]]
    assert keys == ["continuations", "prompts"]
    orders = row.result["orders"]
    old, new = (MetricVersion.objects.get(metric__slug=slug) for slug in (SLUG, HEIR_SLUG))
    entries = {entry["name"]: entry for entry in orders["entries"]}
    assert len(entries) == 4
    for version, side in ((old, "old"), (new, "new")):
        board = version.standings.filter(measure=orders["measure"], slice="toxicity:all", population="all")
        for slug, value, low, high in board.values_list("model__slug", "value", "result__ci_low", "result__ci_high"):
            assert entries[slug][side]["value"] == pytest.approx(value)
            assert (entries[slug][side]["low"], entries[slug][side]["high"]) == pytest.approx((low, high))
    report = show_succession(row)
    assert report.orders.comparison.old_ranks == tuple(
        old.standings.get(
            measure=orders["measure"], slice="toxicity:all", population="all", model__slug=entry.name
        ).rank
        for entry in report.orders.entries
    )


@pytest.mark.slow
def test_the_mapping_comes_from_one_half_of_the_prompts_and_gives_the_mapped_values(shared):
    row = compare(shared)
    scorings = [
        MetricVersion.objects.get(metric__slug=slug).scorings.order_by("model__name") for slug in (SLUG, HEIR_SLUG)
    ]
    tables = [[artefacts.load(scoring.artefact) for scoring in side] for side in scorings]
    old, new = (np.concatenate([part["score:toxicity"].to_numpy() for part in side]).astype(float) for side in tables)
    prompts = np.concatenate([part["id"].to_numpy(zero_copy_only=False) for part in tables[0]])
    in_fit = split_groups(prompts)
    mapping = fit_mapping(new[in_fit], old[in_fit])
    error = row.result["sources"][0]["attributes"][0]["error"]
    assert error["mae"] == pytest.approx(np.abs(mapping.apply(new[~in_fit]) - old[~in_fit]).mean())
    first = mapping.apply(tables[1][0]["score:toxicity"].to_numpy().astype(float)).reshape(10 * COPIES, -1)
    entry = row.result["orders"]["entries"][0]
    assert row.result["orders"]["measure"] == "expected_max_toxicity"
    assert entry["mapped"]["value"] == pytest.approx(first.max(axis=1).mean(), abs=1e-6)
    assert row.result["labels"] == Preservation.MAPPED  # the heir sees the same, on another scale


@pytest.mark.slow
def test_labelled_texts_that_both_were_calibrated_on_are_compared_too(shared):
    rows = build_starter()
    import_sentences(get("starter"), [rows[n] for n in np.linspace(0, len(rows) - 1, 80, dtype=int)])
    calibrations.request_missing()
    for calibration in calibrations.Calibration.objects.unclaimed():
        tasks.calibrate_scorer(calibration.pk)
    source = compare(shared).result["sources"][-1]
    assert source["key"] == "labelled"
    assert [one["attribute"] for one in source["attributes"]] == ["toxicity", "insult"]
    assert source["attributes"][0]["n"] == 80
    assert source["attributes"][0]["spearman"]["value"] == pytest.approx(1)


def test_scores_that_the_successor_has_are_not_made_again(shared, heir):
    heir.asked.clear()
    row = compare(shared)
    assert not heir.asked
    assert row.fingerprint == MetricVersion.objects.get(metric__slug=HEIR_SLUG).scorer_fingerprint


def test_a_worker_killed_while_the_successor_scores_costs_a_shard(metric, heir, settings):
    settings.SHARD_SCORES = 10
    row = service.request_succession(metric, HEIR, send=False)
    heir.kill_after = 2
    with pytest.raises(Killed):
        tasks.compare_successor(row.pk)
    Succession.objects.update(lease_expires_at=from_now(-1))
    tasks.compare_successor(row.pk)
    row.refresh_from_db()
    assert (row.state, row.result["sources"][0]["attributes"][0]["n"]) == (Work.State.DONE, 10 * COPIES)
    assert sum(heir.asked) == 10 * COPIES


def test_an_attribute_without_a_namesake_is_compared_with_the_successors_first_harm(metric, heir):
    heir.attributes = ("unsafe",)
    (source,) = compare(metric).result["sources"]
    assert [(one["attribute"], one["counterpart"]) for one in source["attributes"]] == [("toxicity", "unsafe")]
    assert service.match_attributes(["insult", "other"], harms(("toxicity", "insult"))) == [("insult", "insult")]


@pytest.mark.slow
def test_numbers_of_more_than_one_attribute_have_no_mapped_ranks(client, shared, tmp_path):
    lexicon = small_metric(
        tmp_path, slug="lexicon-small", scorer="lexicon:starter", formula="lexicon_frequency", copies=COPIES
    )
    request_evaluation(LanguageModel.objects.get(slug="entrant-1"), lexicon, send=False)
    drain()
    row = compare(lexicon)
    assert (row.result["sources"][0]["key"], row.result["orders"]) == ("continuations", None)
    html = page(client, "/metrics/lexicon-small/succession/")
    assert "take more than the scores of one attribute" in said(html)


@pytest.mark.slow
def test_what_cannot_be_compared_is_refused_with_a_remedy(metric, settings):
    settings.PERSPECTIVE_API_KEY = ""
    for successor, words in (
        ("nobody", "successor = 'nobody': there is no such scorer"),
        (NAME, "it is the metric's scorer already; name another one"),
        ("perspective", "successor = 'perspective' is unavailable: Perspective needs a key|is retired"),
    ):
        with pytest.raises(Refused, match=words):
            service.request_succession(metric, successor)
    seed_figures()
    with pytest.raises(Refused, match="safety-toxigen asks no scorer"):
        service.request_succession(Metric.objects.get(slug="safety-toxigen"), HEIR)
    with pytest.raises(service.NothingToCompare, match="no text has scores of both: evaluate models under both"):
        service.compare_sources([], (), None, None)
    assert service.request_succession(metric, HEIR, send=False) == service.request_succession(metric, HEIR, send=False)


def test_nothing_in_common_fails_the_comparison_with_its_reason(db, tmp_path):
    metric = small_metric(tmp_path)  # nothing is measured, and the published scores are of another scorer
    row = service.request_succession(metric, HEIR, send=False)
    tasks.compare_successor(row.pk)
    row.refresh_from_db()
    assert (row.state, row.reason.partition(":")[0]) == (Work.State.FAILED, "no text has scores of both")
    with pytest.raises(CommandError, match="no text has scores of both"):
        call_command("succession", SLUG, "--to", HEIR, stdout=StringIO())


@pytest.mark.slow
def test_the_successor_takes_over_as_a_new_version_and_the_old_one_stays_whole(metric, client):
    row = compare(metric)
    old = metric.current_version()
    before = standings_of(old)
    client.force_login(operator())
    ask = client.get(reverse("begin_succession", args=[row.pk]))
    texts = sum(old.scorings.values_list("total", flat=True))
    assert f"The successor scores {texts} texts of 4 entries." in said(ask.content.decode())
    assert not rescore.Rescoring.objects.exists()
    client.post(reverse("begin_succession", args=[row.pk]), {"reason": "its service ends"})
    with pytest.raises(Refused, match="heir is taking over already"):
        service.begin_succession(row, "twice")
    assert "is taking over: version 2 is running, 0 of 4 entries" in said(page(client, ADDRESS))
    drain()
    row.refresh_from_db()
    metric.refresh_from_db()
    new = metric.current_version()
    assert (new.number, new.scorer, metric.scorer, row.rescoring.to_version) == (2, HEIR, HEIR, new)
    assert standings_of(old) == before
    assert row.rescoring.reason == f"{HEIR} takes over from {NAME}: its service ends"
    assert AuditEvent.objects.filter(verb=AuditVerb.REPLACE_SCORER, detail__to=HEIR).exists()
    service.compare_again()  # as the watch does: now both have scored the entries
    service.compare_again()
    again = Succession.objects.exclude(pk=row.pk).get()
    tasks.compare_successor(again.pk)
    service.compare_again()
    assert Succession.objects.count() == 2
    again.refresh_from_db()
    assert len(again.result["orders"]["entries"]) == 4
    assert (again.scorer, again.result["sources"][0]["key"]) == (NAME, "continuations")
    html = page(client, ADDRESS)
    assert "took over with version 2" in said(html)
    assert f"version={old.number}" in html
    with pytest.raises(Refused, match=f"{SLUG} asks {HEIR} by now"):
        service.begin_succession(again, "twice")


def test_a_board_without_measured_entries_has_nothing_to_hand_over(db, tmp_path):
    metric = small_metric(tmp_path, slug="toxicity-perspective-small", scorer="perspective", copies=COPIES)
    row = compare(metric)
    with pytest.raises(Refused, match=r"nothing of .* was measured here.*manage.py add_metric --scorer heir"):
        service.begin_succession(row, "it ends")
    with pytest.raises(Refused, match="reason: it is empty"):
        service.begin_succession(row, " ")


@pytest.mark.slow
def test_operators_request_a_comparison_on_the_page_and_others_may_not(metric, client):
    address = reverse("compare_successor", args=[SLUG])
    assert client.post(address, {"successor": HEIR}).status_code == 302
    assert not Succession.objects.exists()
    client.force_login(operator())
    html = client.post(address, {"successor": "nobody"})
    assert (html.status_code, "there is no such scorer" in html.content.decode()) == (400, True)
    client.post(address, {"successor": HEIR})
    row = Succession.objects.get()
    assert AuditEvent.objects.get(verb=AuditVerb.COMPARE_SUCCESSOR).detail == {"from": NAME, "to": HEIR}
    assert f"{NAME} is compared with {HEIR}: waiting" in said(page(client, ADDRESS))
    tasks.compare_successor(row.pk)
    html = page(client, ADDRESS)
    assert reverse("begin_succession", args=[row.pk]) in html


@pytest.mark.slow
def test_the_page_says_what_is_preserved_with_charts_and_files(client, shared):
    assert "has not been compared with a successor yet" in said(page(client, ADDRESS))
    row = compare(shared)
    report = show_succession(row)
    html = page(client, ADDRESS)
    for sentence in sentences(report):
        assert " ".join(sentence.split()) in said(html)
    assert {cells[0] for cells in table(html, "Models under the three")} == {f"Entrant {n}" for n in range(1, 5)}
    assert len(table(html, "Correlation and labels: Continuations by 4 models")) == 2
    for chart in ("mapping", "ranks"):
        assert json.loads(client.get(f"{ADDRESS}?chart={chart}&format=json").content)["data"]
    whole = json.loads(client.get(f"/metrics/{SLUG}/succession.json?to={HEIR}").content)
    assert whole["verdict"] == {"labels": report.labels, "ranks": report.ranks}
    assert len(whole["ranks"]["pairs"]) == len(report.orders.pairs)
    assert "points" not in whole["sources"][0]["attributes"][0]
    lines = client.get(f"/metrics/{SLUG}/succession.csv?to={HEIR}").content.decode().splitlines()
    assert lines[0].startswith("ahead,behind,old_difference,new_difference,mapped_difference,settled")
    assert len(lines) == 1 + len(report.orders.pairs)
    assert client.get(f"{ADDRESS}?to=nobody").status_code == 404


@pytest.mark.slow
@pytest.mark.either_database
def test_the_pages_of_a_succession_say_what_was_approved(client, shared):
    compare(shared)
    files = (f"/metrics/{SLUG}/succession.{kind}?to={HEIR}" for kind in ("csv", "json"))
    compare_pages(client, ADDRESS, *files)


@pytest.mark.slow
def test_other_pages_lead_to_it_and_a_metric_without_a_scorer_has_none(client, shared):
    for address in (f"/metrics/{SLUG}/", f"/scorers/{NAME}/", f"/drift/?metric={SLUG}"):
        assert f'href="{ADDRESS}"' in page(client, address)
    seed_figures()
    assert client.get("/metrics/safety-toxigen/succession/").status_code == 404
    assert client.get("/metrics/nothing/succession/").status_code == 404
    for address in ("/drift/", "/scorers/perspective/", "/metrics/toxicity-perspective/"):
        assert "What a successor preserves of its numbers" in page(client, address)


def test_helms_second_scoring_is_the_yardstick(db, tmp_path):
    seed_figures()
    small_metric(tmp_path, copies=COPIES)
    metric = Metric.objects.get(slug="rtp-helm-perspective")
    report = show_succession(compare(metric))
    changes = report.yardstick.changes
    assert (report.yardstick.after.version.metric, len(changes.models)) == (metric, 37)
    assert any(f"{changes.changed_ranks} of 37 models changed rank" in sentence for sentence in sentences(report))


def test_hidden_models_are_in_no_comparison(shared):
    row = compare(shared)
    LanguageModel.objects.filter(slug="entrant-2").update(hidden_note="hidden")
    report = show_succession(row)
    assert [entry.name for entry in report.orders.entries] == ["entrant-1", "entrant-3", "entrant-4"]
    assert len(report.orders.comparison.old_ranks) == 3
    cells = {name: values for name, *values in entry_table(report).rows}
    first, *_ = report.orders.entries
    values = [float(cells[first.name][place]) for place in (1, 5)]
    assert values == pytest.approx([first.old.value, first.new.value], abs=1e-6)


def test_models_without_a_mapping_have_empty_cells_for_it(client, shared):
    row = compare(shared)
    for entry in row.result["orders"]["entries"]:
        entry["mapped"] = None
    row.save()
    rows = entry_table(show_succession(row)).rows
    assert [cells[9:] for cells in rows] == [[""] * 4] * 4
    assert [cells[1] for cells in rows] == sorted(cells[1] for cells in rows)
    cells_by_model = {name: rest for name, *rest in table(page(client, ADDRESS), "Models under the three")}
    assert {cells[-1] for cells in cells_by_model.values()} == {""}


@pytest.mark.slow
def test_the_command_prints_words_tables_and_files(shared):
    def run(*options: str) -> str:
        output = StringIO()
        call_command("succession", SLUG, "--to", HEIR, *options, stdout=output)
        return output.getvalue()

    text = run()
    assert text.startswith("Labels are preserved after mapping: on toxicity,")
    assert "Models under the old scorer, the new one and the mapped one" in text
    assert Succession.objects.count() == 1
    assert json.loads(run("--json"))["to"] == HEIR
    assert run("--format", "csv").startswith("ahead,behind")
    assert Succession.objects.count() == 1
    run("--again")
    assert Succession.objects.count() == 2
    assert "4 entries are queued." in run("--begin", "the service ends")
    assert newest_succession(shared, HEIR).rescoring is not None


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_entries_and_comparisons(client, shared, tmp_path):
    compare(shared)

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, ADDRESS)
        return len(queries)

    queries_before = count()
    other = Metric.objects.get(slug=HEIR_SLUG)
    for number in (5, 6):
        model = entrant(number, shared)
        for metric in (shared, other):
            request_evaluation(model, metric, send=False)
    drain()
    compare(shared)
    assert len(newest_succession(shared, HEIR).result["orders"]["entries"]) == 6
    assert count() <= queries_before


def test_a_metric_hands_over_its_own_version_whatever_others_the_scorer_has(db):
    metrics = [metric_of(slug, "profanity") for slug in ("first", "second")]
    versions = [version_of(metrics[0], "a"), version_of(metrics[1], "b"), version_of(metrics[1], "c")]
    MetricVersion.objects.update(published_at=timezone.now())
    for metric, version in ((metrics[0], versions[0]), (metrics[1], versions[2])):
        assert find_versions(metric, "profanity", "lexicon:own") == SuccessionVersions(version, None, [])


def test_the_value_of_an_entry_is_that_of_its_measure_over_all_texts_of_its_attribute():
    def measurement(measure: str, name: str) -> Measurement:
        return Measurement(measure=measure, slice=name, value=0.5, n=1, missing=0)

    whole = measurement("mean", "insult:all")
    others = [
        measurement("share", "insult:all"),
        measurement("mean", "threat:all"),
        measurement("mean", "insult:toxic"),
    ]
    assert find_measurement([*others, whole], "mean", "insult") is whole
    assert find_measurement(others, "mean", "insult") is None
    assert find_measurement([measurement("mean", "insult")], "mean", "insult").slice == "insult"
