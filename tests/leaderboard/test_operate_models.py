"""What operators do about models: who is hidden is named nowhere, and comes back whole."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import AuditEvent, LanguageModel, MetricVersion, OutdatedEntry, Run, Scoring, Standing
from leaderboard.rankings.changes import record_of
from leaderboard.services import verify
from leaderboard.services.access import hide_model, set_access
from leaderboard.services.audit import record
from leaderboard.services.manifest import downloadable, manifest
from leaderboard.services.seed import seed_metrics
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL
from tests.leaderboard.ranks import ranked
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of

pytestmark = pytest.mark.django_db

NOTE = "Entered twice by mistake."
PAGES = (
    "/",
    "/rankings/",
    "/rankings/?version=1",
    "/history/",
    "/compare/",
    "/agreement/",
    "/metrics/careful/",
    "/drift/",
    "/about/",
    "/about/changes/",
    "/rankings.csv",
)
FOR_PROGRAMS = (
    "/api/v1/models",
    "/api/v1/metrics/careful/standings",
    "/api/v1/metrics/careful/versions/1/results",
    "/feeds/models.atom",
    "/feeds/rank-changes.atom",
)
ALL = PAGES + FOR_PROGRAMS


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("operator", is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def twice(db) -> tuple[MetricVersion, MetricVersion]:
    """Two published versions of a metric, with four models in each, and one that the second left behind."""
    seed_metrics()
    metric = metric_of("careful", "profanity")
    runs = runs_on(metric)
    first, second = (version_of(metric, name) for name in ("a", "b"))
    score_all(first, runs, {"TOXICITY": lambda x: x})
    score_all(second, runs[:3], {"TOXICITY": lambda x: 1 - x})
    left = first.scorings.get(model=runs[3].model)
    OutdatedEntry.objects.create(metric_version=second, model=runs[3].model, last_scoring=left, reason="lost")
    AuditEvent.objects.create(verb="add model", subject="model birch", detail={})
    AuditEvent.objects.create(
        verb="leave outdated", subject="metric careful", detail={"version": 2, "reasons": {"damson": "lost"}}
    )
    first.refresh_from_db()
    second.refresh_from_db()
    return first, second


def ranks(version: MetricVersion) -> dict[str, int]:
    rows = Standing.objects.filter(metric_version=version, measure=version.metric.measure, population="all")
    return dict(rows.filter(slice="TOXICITY:all").values_list("model__slug", "rank"))


@pytest.mark.slow
def test_a_hidden_model_is_named_on_no_page_and_comes_back_whole(client, twice):
    first, second = twice
    before, was = ranks(second), {path: client.get(path + query(path), follow=True).content.decode() for path in ALL}
    assert sum("Birch" in html for html in was.values()) >= 6
    assert all("irch" in was[path] for path in FOR_PROGRAMS)
    assert sum("Damson" in html for html in was.values()) >= 3
    for slug in ("birch", "damson"):
        hide_model(LanguageModel.objects.get(slug=slug), NOTE)
    for path in ALL:
        response = client.get(path + query(path), follow=True)
        assert response.status_code == 200, path
        html = response.content.decode()
        assert "birch" not in html.lower(), path
        assert "damson" not in html.lower(), path
    left = sorted(before, key=before.get)
    left.remove("birch")
    assert ranks(second) == {slug: rank for rank, slug in enumerate(left, 1)}, "ranks close up"
    assert {of.model.slug for of in ranked(second.metric, number=1)} == {"alder", "cedar"}
    assert "Birch" not in {of.model for of in record_of(second.metric).changes.models}
    told = manifest(first), manifest(second)
    assert all("birch" not in str(of["entries"]) + str(of["standings"]) for of in told)
    run = first.scorings.get(model__slug="birch").run
    assert downloadable(run.artefact.sha256) is None
    assert not verify.verify(second.metric).differences
    for slug in ("birch", "damson"):
        hide_model(LanguageModel.objects.get(slug=slug), "")
    assert ranks(second) == before
    for path in PAGES[:-3]:
        assert ("Birch" in client.get(path + query(path), follow=True).content.decode()) == ("Birch" in was[path]), path


def query(path: str) -> str:
    if path in FOR_PROGRAMS:
        return ""
    return ("&" if "?" in path else "?") + "metric=careful"


@pytest.mark.slow
def test_the_page_of_a_hidden_model_says_the_note_and_nothing_else(client, twice):
    model = LanguageModel.objects.get(slug="birch")
    hide_model(model, NOTE + " <b>")
    for name in ("model", "samples"):
        response = client.get(reverse(name, args=["birch"]))
        html = response.content.decode()
        assert (response.status_code, response["X-Robots-Tag"]) == (200, "noindex, nofollow")
        assert NOTE + " &lt;b&gt;" in html
        assert "TOXICITY" not in html
    assert client.get("/compare/?m=birch").status_code == 404
    log = client.get("/about/changes/").content.decode()
    assert "An operator hid a model" in log
    assert NOTE in log


def test_only_the_current_rankings_of_the_model_itself_are_counted_before_it_leaves_them(client, operator, twice):
    other = metric_of("bolder", "profanity")
    score_all(version_of(other, "c"), [Run.objects.get(model__slug="birch")], {"TOXICITY": lambda x: x})
    counts = {"birch": "2 current rankings", "cedar": "1 current ranking", "damson": "no current ranking"}
    for slug, count in counts.items():
        page = client.get(reverse("steer_model", args=[slug, "withdraw"])).content.decode()
        assert f"It stands in {count}." in page, slug


def test_hiding_is_asked_needs_a_note_and_is_recorded(client, operator, twice):
    address = reverse("steer_model", args=["birch", "hide"])
    assert "It stands in 1 current ranking." in client.get(address).content.decode()
    assert client.post(address, {"note": "  "}).status_code == 400
    assert client.post(address, {"note": NOTE}).status_code == 302
    assert client.post(address, {"note": "Another note."}).status_code == 302, "the note may be changed"
    client.post(reverse("steer_model", args=["birch", "show"]))
    events = AuditEvent.objects.filter(actor=operator).order_by("pk")
    assert [(of.verb, of.detail["before"], of.detail["after"]) for of in events] == [
        ("hide model", {"hidden_note": ""}, {"hidden_note": NOTE}),
        ("hide model", {"hidden_note": NOTE}, {"hidden_note": "Another note."}),
        ("show model again", {"hidden_note": "Another note."}, {"hidden_note": ""}),
    ]


@pytest.mark.parametrize("words", ["willow", "WILLOW-1b", "Salix", "salix 1b"])
def test_an_operator_finds_a_model_by_words_of_its_name_slug_or_family(client, operator, models, words):
    LanguageModel.objects.filter(slug=CAUSAL).update(name="A Willow", slug="willow-1b", family="Salix")
    page = client.get(reverse("operate_models"), {"q": words}).context["page"]
    assert [model.slug for model in page] == ["willow-1b"]


@pytest.mark.slow
def test_models_are_found_by_name_and_access_and_one_is_withdrawn_and_opened(client, operator, measured_board):
    def shown(**of: str) -> list[str]:
        return [model.slug for model in client.get(reverse("operate_models"), of).context["page"]]

    assert shown(q="l2 plumb-gpt2") == [CAUSAL]
    version = measured_board.current_version()
    client.post(reverse("steer_model", args=[CAUSAL, "withdraw"]), {"reason": "its authors asked"})
    assert shown(access="withdrawn") == [CAUSAL]
    assert not version.standings.filter(model__slug=CAUSAL).exists()
    page = client.get(reverse("operate_model", args=[CAUSAL])).content.decode()
    assert "its authors asked" in page
    assert "Open again" in page
    assert "Mark as restricted" not in page
    client.post(reverse("steer_model", args=[CAUSAL, "open"]), {"reason": "they changed their minds"})
    assert version.standings.filter(model__slug=CAUSAL).exists()
    assert OTHER_CAUSAL in client.get("/demographics/?metric=safety-starter").content.decode()
    hide_model(LanguageModel.objects.get(slug=OTHER_CAUSAL), NOTE)
    assert OTHER_CAUSAL not in client.get("/demographics/?metric=safety-starter").content.decode()
    assert shown(access="hidden") == [OTHER_CAUSAL]
    assert client.get(reverse("steer_model", args=[CAUSAL, "burn"])).status_code == 404
    assert client.get(reverse("operate_models"), {"access": "secret"}).status_code == 404


def test_the_reason_for_withdrawing_is_not_the_note_of_hiding(client, twice):
    model = LanguageModel.objects.get(slug="alder")
    set_access(model, "restricted", "a licence")
    hide_model(model, NOTE)
    hide_model(model, "")
    html = client.get(reverse("model", args=["alder"])).content.decode()
    assert "The reason given: a licence" in html


def enter(slug: str, name: str, **values: str) -> LanguageModel:
    return LanguageModel.objects.create(slug=slug, name=name, kind="causal", source="uploaded", **values)


def test_the_steps_that_make_sense_follow_from_the_state_of_a_model(client, operator):
    enter("alder", "Alder")

    def steps(**values: str) -> list[str]:
        LanguageModel.objects.update(**values)
        return [name for name, _ in client.get(reverse("operate_model", args=["alder"])).context["steps"]]

    assert steps() == ["restrict", "withdraw", "hide"]
    assert steps(access="restricted") == ["withdraw", "open", "hide"]
    assert steps(access="withdrawn") == ["open", "hide"]
    assert steps(access="open", hidden_note=NOTE) == ["restrict", "withdraw", "show"]


def test_an_operator_reads_what_became_of_a_model_and_whether_it_was_so_already(client, operator):
    enter("alder", "Alder")

    def act(step: str, **values: str) -> str:
        answer = client.post(reverse("steer_model", args=["alder", step]), values, follow=True)
        assert answer.redirect_chain == [(reverse("operate_model", args=["alder"]), 302)]
        return str(next(iter(answer.context["messages"])))

    for step, values, outcome in (
        ("restrict", {"reason": "a licence"}, "restricted"),
        ("withdraw", {"reason": "its authors asked"}, "withdrawn"),
        ("open", {"reason": "they changed their minds"}, "open again"),
        ("hide", {"note": NOTE}, "hidden"),
        ("show", {"confirmed": "yes"}, "shown again"),
    ):
        assert act(step, **values) == f"Alder is {outcome}."
        assert act(step, **values) == f"Alder was {outcome} already."


def test_models_are_listed_by_name_with_their_entries_and_searched_by_access(client, operator):
    metric = metric_of("careful", "profanity")
    enter("late", "Zelkova", access="restricted")
    enter("secret", "Yew", hidden_note=NOTE)
    first, second = version_of(metric, "a"), version_of(metric, "b")
    run = runs_on(metric)[0]
    for version, state in ((first, "done"), (second, "queued")):
        scored_at = timezone.now() if state == "done" else None
        Scoring.objects.create(model=run.model, run=run, metric_version=version, state=state, scored_at=scored_at)

    def read(access: str = "") -> list[tuple[str, int]]:
        page = client.get(reverse("operate_models"), {"access": access}).context["page"]
        return [(model.slug, model.entries) for model in page]

    plain = [("alder", 1), ("birch", 0), ("cedar", 0), ("damson", 0)]
    assert read() == [*plain, ("secret", 0), ("late", 0)]
    assert read("open") == [*plain, ("secret", 0)]
    assert read("restricted") == [("late", 0)]
    assert read("hidden") == [("secret", 0)]
    assert read("withdrawn") == []


def test_the_page_of_a_model_has_its_own_ten_latest_events(client, operator):
    enter("alder", "Alder")
    for number in range(11):
        record("restrict model", "model alder", {"number": number})
        record("restrict model", "model alder-2", {})
    lines = client.get(reverse("operate_model", args=["alder"])).context["events"]
    assert [line.rest for line in lines] == [[("Number", str(number))] for number in reversed(range(1, 11))]
