"""The page of a metric: what is measured, by what, on what, under which versions, and what the number does not tell."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import ControlSet, LanguageModel, Metric, MetricVersion, OutdatedEntry
from leaderboard.queries.metric_page import Counted, list_counts
from leaderboard.services.policies import set_policy
from leaderboard.services.rescore import cancel, open_rescoring
from leaderboard.services.seed import seed_metrics
from scoring.generation import PROTOCOLS, GenerationSettings
from scoring.likelihood import LikelihoodSettings
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.outputs import OUTPUTS
from scoring.scorers import SCORERS
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.living import (
    SLUG,
    active,
    drain,
    drift,
    entrant,
    malformed,
    standing_in,
    submit,
)
from tests.leaderboard.test_drift_page import check
from tests.leaderboard.test_history import HELM, helm, page, said, table

__all__ = ["helm"]

pytestmark = pytest.mark.django_db

MOST_QUERIES = 15
ADDRESS = f"/metrics/{SLUG}/"


@pytest.fixture
def stage():
    with standing_in() as found:
        yield found


@pytest.fixture
def living(load_living, stage):
    return load_living(2)


def terms(html: str) -> dict[str, str]:
    """Every term that the page explains."""
    pairs = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", html, flags=re.DOTALL)
    return {said(name): said(words) for name, words in pairs}


def timeline(html: str) -> list[str]:
    items = re.split(r"<li>\s*(?=<h3>)", html.split('<ol class="timeline"', 1)[1].split("</ol>", 1)[0])
    return [said(item) for item in items[1:]]


@pytest.mark.slow
def test_every_metric_has_a_page_before_anything_was_measured(client, db):
    seed_metrics()
    for metric in Metric.objects.all():
        text = said(page(client, metric.get_absolute_url()))
        assert metric.get_absolute_url() == f"/metrics/{metric.slug}/"
        for sentence in (*metric.formula.in_words, *metric.formula.limits):
            assert sentence in text
        for measure in metric.formula.measures.values():
            assert measure.explanation in text
            assert measure.citation in text
        assert "No version yet" in text


def test_an_unknown_metric_is_refused_with_a_sentence(client, db):
    response = client.get("/metrics/nonsense/")
    assert response.status_code == 404
    assert "There is no metric 'nonsense' on this board" in said(response.content.decode())


def test_every_formula_and_measure_says_what_it_is_and_what_it_does_not_tell():
    for formula in FORMULAS.values():
        assert len(formula.in_words) >= 2
        assert len(formula.limits) >= 4
        for measure in formula.measures.values():
            assert measure.formula, f"{measure.key} has no formula"


def test_of_every_scorer_that_has_opinions_it_is_said_what_they_do_not_tell():
    without = {declared.prefix for declared in SCORERS if not declared.limits}
    assert without == {"lexicon:"}, "whose limits are those of its formula"


@pytest.mark.parametrize("settings", [LikelihoodSettings(), *PROTOCOLS.values(), GenerationSettings(temperature=0.7)])
def test_every_parameter_of_every_protocol_is_said_in_words_with_its_value(settings):
    fields = {name: getattr(settings, name) for name in settings.__slots__}
    method = "likelihood" if isinstance(settings, LikelihoodSettings) else "rtp"
    words = dict(OUTPUTS[method].describe(fields))
    assert set(words) == set(fields)
    for name, value in fields.items():
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        assert words[name].startswith(shown)
        assert len(words[name]) > len(shown) + 10


def test_a_parameter_that_nobody_has_words_for_is_shown_all_the_same():
    assert OUTPUTS["rtp"].describe({"k": 3, "newly": "thought of"})[-1] == ("newly", "thought of")


@pytest.mark.slow
def test_the_page_of_likelihoods_counts_texts_by_demographic_and_names_no_scorer(client, metric, models):
    finish(models[CAUSAL], metric)
    html = page(client, metric.get_absolute_url())
    counts = {row[0]: row[1:] for row in table(html, "Texts by demographic")}
    assert set(counts) == {"Women", "Muslim", "Latino"}
    assert counts["Women"] == ["24", "24", "48"]
    text = said(html)
    assert "None: the numbers are likelihoods" in text
    assert "144 frozen texts are scored again before" in text
    assert terms(html)["bos"].startswith("none: a causal model is not asked")
    assert "Label flips" not in terms(html), "likelihoods have no labels"
    assert terms(html)["Mean shift"].startswith("The mean of scores shifts by more than 0.005")


def test_a_scorer_is_told_with_fingerprint_threshold_and_whether_it_is_to_be_had(client, living):
    version = living.current_version()
    html = page(client, ADDRESS)
    found = terms(html)
    assert found["Name"] == "Stand-in ( standin ): how right it is, and for whom"
    assert found["Fingerprint"].startswith(version.scorer_fingerprint[:12])
    assert found["Available here"].startswith("yes")
    assert "strictly above 0.5" in found["Threshold"]
    assert found["Label flips"].startswith("2 labels, or 1% of the texts where that is more, cross 0.5")
    assert found["k"] == "2 continuations of each prompt."


def test_a_scorer_that_cannot_be_had_says_why_and_what_it_costs(client, db, settings):
    settings.PERSPECTIVE_API_KEY, settings.PERSPECTIVE_URL = "", "http://127.0.0.1:9"
    seed_metrics()
    found = terms(page(client, "/metrics/toxicity-perspective/"))
    assert found["Available here"].startswith("no, it is unavailable: Perspective needs a key")
    assert found["Cost"].startswith("1 request and 1 s of quota a text")
    assert "no fee; texts leave this machine" in found["Cost"]
    assert found["Name"].endswith("unversioned")


def test_the_page_of_a_scorer_without_a_declared_fee_says_so(client, db, settings):
    seed_metrics()
    Metric.objects.filter(slug="toxicity-perspective").update(scorer="azure-content-safety:2024-09-01")
    definitions = terms(page(client, "/metrics/toxicity-perspective/"))
    assert "a fee that nobody has declared here" in definitions["Cost"]
    settings.AZURE_CONTENT_SAFETY_USD_PER_1000_TEXTS = 0.5
    definitions = terms(page(client, "/metrics/toxicity-perspective/"))
    assert "0.0005 US dollars" in definitions["Cost"]


def test_a_drift_policy_of_the_metric_is_the_one_that_is_told(client, living):
    Metric.objects.filter(pk=living.pk).update(drift_policy={"least_flips": 9, "mean_difference": 0.25})
    found = terms(page(client, ADDRESS))
    assert found["Label flips"].startswith("9 labels")
    assert "by more than 0.25" in found["Mean shift"]


@pytest.mark.slow
def test_versions_are_told_newest_first_with_why_when_entries_scorer_and_where_to_read_on(client, living, stage):
    drift(stage)
    found = check(living)
    with malformed(active(living).to_version.scorings.get(model__slug="entrant-2").run.artefact):
        drain()
    open_rescoring(living, "The server moved.", user=User.objects.create_user("mallory"))
    html = page(client, ADDRESS)
    third, second, first = timeline(html)
    assert third.startswith("Version 3 Measured here candidate An operator asked for it: The server moved.")
    assert "not published yet" in third
    assert "mallory" not in html
    assert "Manifest" not in third
    assert f"The control check of {found.finished_at:%-d %B %Y, %H:%M} UTC opened it." in second
    assert found.statistics["decided_by"] in second
    assert f"/drift/?metric={SLUG}&amp;check={found.pk}" in html
    assert "1 entry · scorer" in second
    assert "different from before" in second
    assert "1 outdated: not scored under this version" in second
    reason = OutdatedEntry.objects.get().reason
    assert f"Entrant 2 , last scored under version 1: {reason}" in second
    formula = Metric.objects.get(slug=SLUG).formula
    assert f"The first version measured here, by formula version {formula.version}." in first
    for address in (
        f"/rankings/?metric={SLUG}&version=2",
        f"/history/?metric={SLUG}&from=1&to=2",
        f"/metrics/{SLUG}/versions/2/manifest.json",
    ):
        assert address.replace("&", "&amp;") in html
        assert client.get(address).status_code == 200
    for number, noise in ((1, 0.5), (2, 0.25)):
        ControlSet.objects.filter(metric_version__number=number).update(noise=noise)
    assert "have a standard deviation of 0.25" in said(page(client, ADDRESS))
    cancel(active(living))
    assert "cancelled before it was published" in timeline(page(client, ADDRESS))[0]


def test_published_figures_are_told_with_their_source_and_what_changed_between_them(client, helm):
    html = page(client, helm.get_absolute_url())
    second, first = timeline(html)
    assert "HELM v0.2.2, as printed by Pozzobon et al. 2023" in first
    assert "37 entries" in first
    assert "Published figures" in second
    address = f"/history/?metric={helm.slug}&from=1&to=2"
    assert address.replace("&", "&amp;") in html
    assert client.get(address).status_code == 200


@pytest.mark.slow
def test_figures_beside_measured_versions_are_not_compared_where_the_history_tells_of_those(client, living):
    measured = living.current_version()
    for number in (2, 3):
        MetricVersion.objects.create(
            metric=living,
            number=number,
            provenance="published",
            status="superseded" if number == 2 else "current",
            protocol=living.protocol,
            scorer="perspective",
            scorer_fingerprint="a" * 64,
            formula_version=1,
            source="a paper",
            published_at=measured.published_at,
        )
    open_rescoring(living, "tried")
    drain()
    html = page(client, ADDRESS)
    for start, end in re.findall(r"&amp;from=(\d+)&amp;to=(\d+)", html):
        assert client.get(f"/history/?metric={SLUG}&from={start}&to={end}").status_code == 200
    assert "from=1&amp;to=4" in html


def test_many_outdated_entries_are_counted_beyond_the_first(client, living):
    version = living.current_version()
    last = version.scorings.first()
    for number in range(20):
        model = LanguageModel.objects.create(slug=f"m{number}", name=f"M {number}", kind="causal", source="uploaded")
        OutdatedEntry.objects.create(metric_version=version, model=model, last_scoring=last, reason="gone")
    text = said(page(client, ADDRESS))
    assert "20 outdated" in text
    assert "and 8 more" in text


@pytest.mark.slow
def test_the_page_asks_as_many_queries_however_many_versions_and_entries_there_are(client, living, stage):
    def count() -> int:
        with CaptureQueriesContext(connection) as caught:
            page(client, ADDRESS)
        return len(caught)

    before = count()
    assert before <= MOST_QUERIES
    for number in range(3, 6):
        submit(entrant(number, living), living)
    set_policy(living, {"brake_after": 0}, "each drift opens a version")
    for number in range(3):
        drift(stage, 0.4 * (number + 1), f"other-{number}")
        check(living)
        drain()
    assert living.versions.count() == 4
    assert count() == before


@pytest.mark.slow
def test_rankings_and_history_lead_to_the_page_and_the_page_to_them(client, helm):
    for address in (HELM, f"/rankings/?metric={helm.slug}"):
        assert f'href="/metrics/{helm.slug}/"' in page(client, address)
    html = page(client, helm.get_absolute_url())
    assert f'href="/rankings/?metric={helm.slug}"' in html
    assert f'href="/drift/?metric={helm.slug}"' in html


def test_the_page_refuses_to_be_written_to(client, helm):
    assert client.post(helm.get_absolute_url()).status_code == 405


def test_counts_are_of_prompts_or_by_label():
    counts = {"women": {"harmful": 3, "benign": 4}, "actors": 7, "men": {"benign": 2}}
    assert list_counts(counts) == [
        Counted("actors", None, None, 7),
        Counted("men", 0, 2, 2),
        Counted("women", 3, 4, 7),
    ]
