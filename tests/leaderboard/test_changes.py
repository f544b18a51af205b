"""The about page and the public change log: what changed, when and why, in plain sentences without names of people."""

import re
import tomllib

import pytest
from django.contrib.auth.models import User
from django.core.cache import caches
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import AuditEvent, ControlCheck, Metric
from leaderboard.queries.changes import CHANGES_A_PAGE, KINDS
from leaderboard.services.access import set_access
from leaderboard.services.audit import record
from leaderboard.services.checks import request_check
from leaderboard.services.language_models import add_bundled
from leaderboard.services.rescore import cancel, open_rescoring, pause, resume
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.living import (
    NAME,
    SLUG,
    active,
    drain,
    drift,
    entrant,
    malformed,
    names_of,
    small_metric,
    standing_in,
    standings_of,
    submit,
)
from tests.leaderboard.test_drift_page import check
from tests.leaderboard.test_history import page, said

pytestmark = pytest.mark.django_db

MOST_QUERIES = 12
OPERATOR = "mallory"


@pytest.fixture
def stage():
    with standing_in() as found:
        yield found


@pytest.fixture
def living(load_living, stage):
    return load_living(2)


@pytest.fixture
def operator(db):
    return User.objects.create_user(OPERATOR, is_staff=True)


def log(client, query: str = "") -> list[str]:
    """The entries of the log, without their dates."""
    html = page(client, f"/about/changes/{query}")
    assert OPERATOR not in html
    found = html.split('<ol class="log">', 1)
    items = found[1].split("</ol>", 1)[0].split("<li>")[1:] if len(found) > 1 else []
    texts = (re.sub(r"^\d+ \w+ \d+, \d\d:\d\d ", "", said(item)) for item in items)
    return [re.sub(r" ([.,:;)])", r"\1", text) for text in texts]  # where a link ended


def test_an_empty_board_says_so(client, db):
    assert "Nothing has happened on this board yet" in page(client, "/about/changes/")
    assert "Nothing has happened on this board yet" in page(client, "/about/")


def test_a_first_model_is_in_the_log_with_its_texts_its_numbers_and_its_version(client, living):
    found = log(client)
    assert found[0] == f"Entry added. Entrant 2 has its first numbers in {SLUG}, under version 1."
    assert (
        f"Version published. Version 1 of {SLUG} was published with 1 entry. The ranking"
        in found[1:-1][-2] + found[1:-1][-1]
    )
    assert found[-1].startswith("Evaluation set. The evaluation set ten-prompts v1 was imported, 10 texts.")


@pytest.mark.slow
def test_bundled_models_are_in_the_log_by_name_with_a_link(client, db):
    models = add_bundled()
    found = log(client)
    assert len(found) == len(models)
    html = page(client, "/about/changes/")
    for model in models:
        assert f'href="/models/{model.slug}/"' in html


@pytest.mark.slow
def test_a_drift_and_all_that_it_sets_off_is_told_with_the_reason(client, living, stage):
    drift(stage)
    found = check(living)
    with malformed(active(living).to_version.scorings.get(model__slug="entrant-2").run.artefact):
        drain()
    why = f"Why: {found.statistics['decided_by']}"
    published, outdated, opened, drifted = log(client)[:4]
    assert published.startswith(f"Version published. Version 2 of {SLUG} was published with 2 entries")
    assert "1 could not be scored again" in published
    assert why[:200] in published
    assert outdated.startswith(f"Entries outdated. 1 entry could not be scored under version 2 of {SLUG}: Entrant 2 (")
    assert opened.startswith("Rescored. The board began to rescore 2 entries")
    assert "from version 1 to version 2" in opened
    assert drifted.startswith(f"Drift found. The scorer of {SLUG}, version 1, had drifted.")
    assert why[:200] in drifted
    address = f"/drift/?metric={SLUG}&check={found.pk}"
    assert address.replace("&", "&amp;") in page(client, "/about/changes/")
    assert client.get(address).status_code == 200


@pytest.mark.slow
def test_an_entry_that_comes_back_after_it_was_outdated_is_scored_again_not_added(client, living, stage):
    from leaderboard.models import Scoring
    from leaderboard.services.evaluate import request_evaluation

    with malformed(Scoring.objects.get(model__slug="entrant-2").run.artefact):
        open_rescoring(living, "tried")
        drain()
    again = Scoring.objects.get(model__slug="entrant-2", metric_version__number=2)
    assert again.state == "failed"
    request_evaluation(again.model, living, send=False)
    drain()
    assert log(client)[0].startswith("Rescored. Entrant 2 was scored again under version 2")
    added = AuditEvent.objects.filter(verb="add entry").values_list("detail__model", flat=True)
    assert sorted(added) == ["entrant-1", "entrant-2"]


def test_what_a_person_did_is_told_with_the_reason_and_without_the_name(client, living, operator):
    rescoring = open_rescoring(living, "The server moved.", user=operator)
    cancel(rescoring, operator)
    given_up, opened = log(client)[:2]
    assert given_up.startswith(f"Rescored. The rescoring of {SLUG} to version 2 was cancelled by an operator")
    assert opened.startswith("Rescored. An operator began to rescore 2 entries")
    assert "Why: The server moved." in opened


@pytest.mark.slow
def test_a_scorer_that_takes_over_is_told(client, living, stage):
    from scoring.scorers import registry
    from scoring.scorers.registry import ScorerDeclaration
    from tests.leaderboard.living import StandIn

    registry.SCORERS = (*registry.SCORERS, ScorerDeclaration("other", "Other", False, lambda _choice: StandIn(stage)))
    open_rescoring(living, "The service has ended.", scorer="other")
    drain()
    told = next(entry for entry in log(client) if entry.startswith("Scorer replaced"))
    assert told.startswith(f"Scorer replaced. The scorer other replaced {NAME} with version 2 of {SLUG}")
    assert "Why: The service has ended." in told


@pytest.mark.slow
def test_published_figures_are_in_the_log_with_their_source(client, db):
    seed_figures()
    found = log(client, "?metric=rtp-helm-perspective")
    assert len(found) == 2
    assert "with 37 entries: figures of HELM v0.2.2, scored again in April 2023 by Pozzobon et al. 2023" in found[0]


def test_what_is_only_operational_is_left_out(client, living, operator):
    before = log(client)
    request_check(living, ControlCheck.Trigger.MANUAL, send=False, user=operator)
    rescoring = open_rescoring(living, "tried")
    pause(rescoring, operator)
    resume(rescoring, operator)
    assert len(log(client)) == len(before) + 1


# Withdrawing


def test_a_withdrawn_model_leaves_the_ranking_at_once_and_the_log_says_why(client, living, operator):
    first = living.current_version()
    model = first.scorings.get(model__slug="entrant-1").model
    assert set_access(model, "withdrawn", "Its authors asked for it.", operator)
    assert names_of(first) == {"entrant-2"}
    assert log(client)[0] == (
        "Access changed. Entrant 1 was withdrawn by an operator: it is no longer ranked. Why: Its authors asked for it."
    )
    assert not set_access(model, "withdrawn", "again", operator)
    assert set_access(model, "open", "A mistake.", operator)
    assert names_of(first) == {"entrant-1", "entrant-2"}
    assert log(client, "?kind=withdrawn")[0].startswith("Access changed. Entrant 1 was opened again by an operator.")


@pytest.mark.slow
def test_a_version_that_is_superseded_keeps_a_model_that_is_withdrawn_later(client, living):
    first = living.current_version()
    open_rescoring(living, "tried")
    drain()
    before = standings_of(first)
    set_access(first.scorings.get(model__slug="entrant-1").model, "withdrawn", "Its authors asked for it.")
    assert standings_of(first) == before
    assert names_of(living.current_version()) == {"entrant-2"}


def test_a_restricted_model_keeps_its_ranks(client, living):
    before = standings_of(living.current_version())
    set_access(living.current_version().scorings.get(model__slug="entrant-1").model, "restricted", "A licence.")
    assert standings_of(living.current_version()) == before
    assert "was restricted by an operator" in log(client)[0]


def test_the_command_withdraws_and_refuses_without_a_reason(living, capsys):
    call_command("set_access", "entrant-1", "withdrawn", "--reason", "asked for")
    assert "entrant-1 is withdrawn" in capsys.readouterr().out
    call_command("set_access", "entrant-1", "withdrawn", "--reason", "asked for")
    assert "already" in capsys.readouterr().out
    with pytest.raises(CommandError, match="reason: it is empty"):
        call_command("set_access", "entrant-1", "open", "--reason", " ")


# Filters, pages, speed


@pytest.mark.slow
def test_the_log_is_filtered_by_metric_and_by_kind_together(client, living, stage, tmp_path):
    other = small_metric(tmp_path, slug="other")
    submit(entrant(7, other), other)
    drift(stage)
    check(living)
    assert all("Drift found" in entry for entry in log(client, "?kind=drift"))
    assert len(log(client, "?kind=drift")) == 1
    assert log(client, "?kind=drift&metric=other") == []
    assert "Nothing of that kind is on record" in page(client, "/about/changes/?kind=drift&metric=other")
    assert {entry.startswith("Entry added. Entrant 7") for entry in log(client, "?metric=other&kind=added")} == {True}


@pytest.mark.parametrize("query", ["?kind=nonsense", "?metric=nonsense", "?page=0", "?page=-1", "?page=x"])
def test_an_address_that_names_nothing_is_refused(client, living, query):
    assert client.get(f"/about/changes/{query}").status_code == 404


def test_the_log_is_paged_and_its_filters_go_along(client, living):
    for number in range(2 * CHANGES_A_PAGE):
        record("add entry", f"metric {SLUG}", {"model": f"m{number}", "version": 1})
    first = page(client, f"/about/changes/?metric={SLUG}&kind=added")
    assert len(log(client, f"?metric={SLUG}&kind=added")) == CHANGES_A_PAGE
    older = re.search(r'href="([^"]*)" rel="next"', first)[1].replace("&amp;", "&")
    assert older == f"?metric={SLUG}&kind=added&page=2"
    assert len(log(client, older)) == CHANGES_A_PAGE
    assert len(log(client, f"?metric={SLUG}&kind=added&page=99")) == 2, "beyond the last page is the last"


@pytest.mark.slow
def test_the_pages_ask_as_many_queries_however_much_has_happened(client, living, stage):
    def counts() -> list[int]:
        found = []
        for address in ("/about/", "/about/changes/", f"/about/?metric={SLUG}"):
            with CaptureQueriesContext(connection) as caught:
                page(client, address)
            found.append(len(caught))
        return found

    before = counts()
    assert max(before) <= MOST_QUERIES
    for number in range(3):
        drift(stage, 0.4 * (number + 1), f"other-{number}")
        check(living)
        drain()
    assert counts() == before


@pytest.mark.slow
def test_every_verb_that_the_board_writes_is_told_or_known_to_be_operational(client, living, stage, operator):
    drift(stage)
    check(living)
    with malformed(active(living).to_version.scorings.get(model__slug="entrant-2").run.artefact):
        drain()
    request_check(living, ControlCheck.Trigger.MANUAL, send=False, user=operator)
    cancel(open_rescoring(living, "tried", user=operator), operator)
    told = {verb for kind in KINDS for verb in kind.verbs}
    written = set(AuditEvent.objects.values_list("verb", flat=True))
    assert written - told == {"request control check"}
    assert len(log(client)) == AuditEvent.objects.filter(verb__in=told).count()


# About


def test_the_about_page_says_what_it_is_for_how_to_read_and_cite_and_what_changed(client, living):
    html = page(client, "/about/")
    text = said(html)
    for heading in ("Purpose", "How to read a number", "Limits", "How to cite", "Licences", "Recent changes"):
        assert f">{heading}</h2>" in html
    assert "Apache-2.0" in text
    assert "Ten prompts" in text
    assert "Entrant 2 has its first numbers" in text


@pytest.mark.django_db
def test_the_about_page_says_which_code_runs_and_where_its_project_is(client, settings):
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"version {project['version']}" in client.get("/about/").content.decode()
    assert "the project's page" not in client.get("/about/").content.decode()
    settings.PROJECT_URL = "https://forge.example/plumbline"
    caches["pages"].clear()
    page = client.get("/about/?metric=").content.decode()
    assert '<a href="https://forge.example/plumbline">the project' in page


def test_a_metric_is_cited_with_its_version_date_and_address(client, living):
    version = living.current_version()
    text = said(page(client, f"/about/?metric={SLUG}"))
    assert f"{SLUG}, metric version 1, published {version.published_at:%-d %B %Y}" in text
    assert f"http://testserver/rankings/?metric={SLUG}&version=1" in text
    assert f"@misc{{plumbline-{version.published_at:%Y}-{SLUG}-v1," in text
    assert f"year = {{{version.published_at:%Y}}}," in text.replace("  ", " ")


def test_a_citation_in_bibtex_escapes_what_latex_would_read_otherwise(client, living):
    Metric.objects.filter(pk=living.pk).update(title="50% of_all & more")
    text = said(page(client, f"/about/?metric={SLUG}"))
    assert r"note = {50\% of\_all \& more, metric version 1" in text


def test_the_about_page_refuses_a_metric_that_does_not_exist(client, living):
    assert client.get("/about/?metric=nonsense").status_code == 404


# What is said where a page is shared


def tags(html: str) -> dict[str, str]:
    found = re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', html)
    return dict(found)


@pytest.mark.parametrize("address", ["/", "/about/", "/about/changes/", "/drift/", f"/metrics/{SLUG}/", "/history/"])
def test_a_shared_page_says_its_title_and_description_once_and_has_a_picture(client, living, address):
    html = page(client, address)
    found = tags(html)
    title = re.search(r"<title>(.*?)</title>", html)[1]
    assert title
    assert html.count("<title>") == 1
    assert found["og:title"] == found["twitter:title"] == title
    assert found["og:description"] == found["twitter:description"] == found["description"]
    assert found["og:description"]
    picture = found["og:image"]
    assert picture == found["twitter:image"]
    assert re.fullmatch(r"http://testserver/static/img/preview\.[0-9a-f]{12}\.png", picture)


def test_titles_are_escaped_once_wherever_they_are_said(client, living):
    Metric.objects.filter(pk=living.pk).update(title='Cats & "dogs" <b>')
    html = page(client, f"/metrics/{SLUG}/")
    once = "Cats &amp; &quot;dogs&quot; &lt;b&gt;: what is measured and how · Plumbline"
    assert f"<title>{once}</title>" in html
    assert tags(html)["og:title"] == once


def test_one_view_has_one_address(client, living):
    canonical = r'<link rel="canonical" href="([^"]*)">'
    addresses = [
        f"/rankings/?slice=&metric={SLUG}&measure=mean_toxicity",
        f"/rankings/?measure=mean_toxicity&metric={SLUG}&kind=",
    ]
    found = {re.search(canonical, page(client, address))[1] for address in addresses}
    assert found == {f"http://testserver/rankings/?measure=mean_toxicity&amp;metric={SLUG}"}
