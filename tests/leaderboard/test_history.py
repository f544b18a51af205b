"""The history page: the record's ranks over versions, why each was opened, and what changed between two of them."""

import itertools
import json
import re
from datetime import timedelta
from html import unescape
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.text import slugify

from leaderboard.models import (
    Artefact,
    ControlCheck,
    ControlSet,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Scoring,
    Standing,
)
from leaderboard.rankings.changes import BoardKey, count_gains, read_ranks, record_of
from leaderboard.rankings.history import VersionChanges, changes, lines, list_moves, list_steps
from leaderboard.services import rescore
from leaderboard.services.publish import publish_standings
from leaderboard.services.score import score
from leaderboard.services.seed import seed_metrics
from tests.charts import Figure, read_chart, stretches, traces
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish, seed_figures

pytestmark = pytest.mark.django_db

MOST_QUERIES = 15
HELM = "/history/?metric=rtp-helm-perspective&measure=toxic_fraction_unique&slice=toxic"
MEASURE, SLICE = "expected_max_toxicity", "profanity:all"


def page(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def said(html: str) -> str:
    """What a page says, without its marks and the figure of its chart."""
    html = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def table(html: str, label: str) -> list[list[str]]:
    """The body of the table in the region of that label, as text."""
    body = html.split(f'aria-label="{label}"', 1)[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    rows = re.findall(r"<tr.*?</tr>", body, flags=re.DOTALL)
    return [[said(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.DOTALL)] for row in rows]


def versions(figure: Figure) -> list[int]:
    """The versions that a bump chart has columns of."""
    return [int(text.split("<br>")[0]) for text in figure["layout"]["xaxis"]["ticktext"]]


def drawn(figure: Figure) -> dict[str, dict[int, int]]:
    """The rank of each model under each version, as the chart draws them."""
    found: dict[str, dict[int, int]] = {}
    numbers = versions(figure)
    for trace in traces(figure, "points"):
        for (_, key), x, y in zip(trace["customdata"], trace["x"], trace["y"], strict=True):
            found.setdefault(key, {})[numbers[x]] = y
    return found


@pytest.fixture
def helm(db: None) -> Metric:
    seed_figures()
    return Metric.objects.get(slug="rtp-helm-perspective")


@pytest.fixture
def profanity(db: None) -> Metric:
    seed_metrics()
    return Metric.objects.get(slug="toxicity-profanity")


def model(name: str, family: str = "") -> LanguageModel:
    found, _ = LanguageModel.objects.get_or_create(
        slug=slugify(name),
        defaults={"name": name, "family": family, "kind": "causal", "source": "uploaded"},
    )
    return found


def version_of(metric: Metric, values: dict[str, float], name: str = SLICE, **options: object) -> MetricVersion:
    """A published version of `metric` with one value a model, on one measure and one slice."""
    number = metric.versions.count() + 1
    version = MetricVersion.objects.create(
        metric=metric,
        number=number,
        protocol=metric.protocol,
        formula_version=metric.formula.version,
        **{"scorer": metric.scorer, "scorer_fingerprint": f"{number:064x}"} | options,
    )
    now = timezone.now()
    for of, value in values.items():
        scoring = Scoring.objects.create(model=model(of), metric_version=version, state="done", scored_at=now)
        Result.objects.create(scoring=scoring, measure=MEASURE, slice=name, value=value, n=10)
    publish_standings(version)
    version.refresh_from_db()
    return version


def test_the_rescoring_of_helm_shows_24_changed_ranks_and_curie_from_35_to_23(client, helm):
    html = page(client, HELM)
    text = said(html)
    assert "24 of 37 ranks changed between version 1 and version 2." in text
    assert re.search(r"tau of the two orders is 0\.\d\d \(95% .*\), Spearman's rho is 0\.\d\d", text)
    assert "15 of 37 values changed, as printed to 3 decimals." in text
    assert "the paper counted 13 on unrounded values" in text
    rows = {row[0]: row[1:] for row in table(html, "Table of changes")}
    assert len(rows) == 37
    assert rows["text-curie-001"][:3] == ["35", "23", "+12"]


@pytest.mark.slow_cases
@pytest.mark.parametrize("measure", ["toxic_fraction_unique", "expected_max_toxicity", "toxicity_probability"])
@pytest.mark.parametrize("name", ["toxic", "nontoxic"])
def test_every_number_of_the_page_is_that_of_the_record(client, helm, measure, name):
    html = page(client, f"/history/?metric={helm.slug}&measure={measure}&slice={name}")
    record = record_of(helm, measure, name).changes
    expected = [
        [
            of.model,
            str(of.from_rank),
            str(of.to_rank),
            f"{of.change:+d}".replace("-", "−") if of.change else "0",
            f"{of.from_value:.3f}",
            f"{of.to_value:.3f}",
        ]
        for of in record.models
    ]
    assert table(html, "Table of changes") == expected
    text = said(html)
    assert f"{record.changed_ranks} of 37 ranks changed" in text
    assert f"{record.changed_values} of 37 values changed" in text
    assert f"{record.mean_abs_difference:.4f} on average" in text
    most = f"{record.largest_difference.difference:+.4f}".replace("-", "−")
    assert f"that of {record.largest_difference.model}, by {most}." in text
    for found in (record.kendall, record.spearman):
        assert f"{found.value:.2f} (95% {found.low:.2f} to {found.high:.2f})" in text


def test_the_chart_and_its_table_have_the_ranks_of_every_version(client, helm):
    html = page(client, HELM)
    standings = Standing.objects.filter(
        metric_version__metric=helm, measure="toxic_fraction_unique", slice="toxic", population="all"
    ).select_related("model", "metric_version")
    expected: dict[str, dict[int, int]] = {}
    for of in standings:
        expected.setdefault(of.model.slug, {})[of.metric_version.number] = of.rank
    assert drawn(read_chart(client, html)) == expected
    names = dict(LanguageModel.objects.values_list("name", "slug"))
    for row in table(html, "Table of ranks under each version"):
        assert [int(cell.split()[0]) for cell in row[2:]] == list(expected[names[row[0]]].values())


def test_names_stand_at_both_ends_of_the_chart_in_the_order_of_the_ranks(client, helm):
    ends = traces(read_chart(client, page(client, HELM)), "names")
    assert [len({key for _, key in trace["customdata"]}) for trace in ends] == [37, 37]
    for trace in ends:
        assert trace["y"] == sorted(trace["y"])


@pytest.mark.slow
def test_ranks_come_from_the_database_in_one_query_and_all_queries_stay_few(client, profanity):
    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as caught:
            page(client, f"/history/?metric={profanity.slug}&top=all")
        return [query["sql"] for query in caught]

    for shift in range(2):
        version_of(profanity, {"a": 0.1 + shift / 10, "b": 0.2})
    few = queries()
    assert sum('"leaderboard_standing"."rank_low"' in sql for sql in few) == 1
    for shift in range(6):
        version = version_of(profanity, {f"model {number}": (number * (shift + 3) % 31) / 31 for number in range(30)})
        OutdatedEntry.objects.create(
            metric_version=version, model=model("a"), last_scoring=model("a").scorings.first(), reason="gone"
        )
    assert len(queries()) == len(few) <= MOST_QUERIES


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["metric", "measure", "slice", "kind", "from", "to", "top", "family", "model"])
def test_an_address_that_names_nothing_is_a_404_that_lists_what_there_is(client, helm, name):
    response = client.get(f"{HELM}&{name}=nonsense")
    assert response.status_code == 404
    text = said(response.content.decode())
    known = {"from": "1, 2", "family": "GPT-3", "top": "10, 20, 50", "kind": "all", "slice": "toxic"}.get(name, "")
    assert f"{name} = 'nonsense' does not exist here. Known: " in text
    assert known in text


def test_a_board_without_metrics_says_so(client, db):
    assert "manage.py seed" in client.get("/history/").content.decode()


def test_the_page_opens_on_the_first_metric_that_has_a_history(client, helm):
    assert "How rankings moved: HELM&#x27;s RealToxicityPrompts" in page(client, "/history/")


def test_a_metric_with_one_version_says_that_nothing_has_moved_and_draws_nothing(client, profanity):
    assert "no published version yet" in page(client, f"/history/?metric={profanity.slug}")
    version_of(profanity, {"a": 0.1, "b": 0.2})
    html = page(client, f"/history/?metric={profanity.slug}")
    assert "nothing has moved" in html
    assert "The first version measured here." in html
    assert "charts.js" not in html


def test_without_choice_the_last_two_versions_are_compared_and_any_two_with_it(client, profanity):
    for values in ({"a": 0.1, "b": 0.2}, {"a": 0.1, "b": 0.2}, {"a": 0.3, "b": 0.2}):
        version_of(profanity, values)
    address = f"/history/?metric={profanity.slug}"
    assert "2 of 2 ranks changed between version 2 and version 3." in said(page(client, address))
    assert "0 of 2 ranks changed between version 1 and version 2." in said(page(client, f"{address}&from=1&to=2"))
    backwards = page(client, f"{address}&from=3&to=1")
    assert {row[0]: row[1:4] for row in table(backwards, "Table of changes")} == {
        "a": ["2", "1", "+1"],
        "b": ["1", "2", "−1"],
    }


@pytest.mark.slow
def test_the_first_of_the_last_version_or_a_family_are_shown_with_their_ranks_among_all(client, profanity):
    for number in range(24):
        model(f"m{number:02d}", family="odd" if number % 2 else "even")
    for shift in (0, 5):
        version_of(profanity, {f"m{number:02d}": ((number + shift) % 24) / 24 for number in range(24)})
    address = f"/history/?metric={profanity.slug}"
    first = page(client, f"{address}&top=10")
    assert [row[0] for row in table(first, "Table of ranks under each version")] == [
        *(f"m{number}" for number in range(19, 24)),
        *(f"m0{number}" for number in range(5)),
    ]
    assert "10 of 24 models shown, 14 hidden by the filters" in said(first)
    assert "24 of 24 ranks changed" in said(first)
    odd = table(page(client, f"{address}&family=odd"), "Table of changes")
    assert len(odd) == 12
    assert all(int(row[2]) % 2 for row in odd), "ranks 1, 3, 5 and so on of all 24, not 1 to 12"


def test_choosing_another_metric_in_the_form_drops_the_choices_of_the_old_one(client, helm):
    address = f"/history/?metric={helm.slug}&of=safety-starter&measure=safety_score&slice=women"
    response = client.get(address)
    assert (response.status_code, response.url) == (302, f"/history/?metric={helm.slug}")
    assert f'name="of" value="{helm.slug}"' in page(client, response.url)


@pytest.mark.slow
def test_a_long_history_begins_with_fewer_models(client, profanity):
    for shift in range(11):
        version_of(profanity, {f"m{number:02d}": ((number + shift) % 24) / 24 for number in range(24)})
    address = f"/history/?metric={profanity.slug}"
    assert "20 of 24 models shown, 4 hidden by the filters" in said(page(client, address))
    assert "hidden by the filters" not in said(page(client, f"{address}&top=50"))


def test_equal_values_share_a_rank_in_the_chart_and_their_names_do_not_touch(client, profanity):
    for _ in range(2):
        version_of(profanity, {"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.2, "e": 0.5})
    html = page(client, f"/history/?metric={profanity.slug}")
    figure = read_chart(client, html)
    assert [of[1] for of in drawn(figure).values()] == [1, 2, 2, 2, 5]
    places = traces(figure, "names")[0]["y"]
    assert min(after - before for before, after in itertools.pairwise(places)) > 0.3


@pytest.mark.slow
def test_measured_versions_are_told_and_published_figures_kept_apart_from_them(client, profanity):
    published = {"provenance": "published", "source": "a paper", "decimals": 3}
    version_of(profanity, {"a": 0.1}, **published)
    version_of(profanity, {"a": 0.2}, **published)
    assert "between version 1 and version 2" in page(client, f"/history/?metric={profanity.slug}")
    version_of(profanity, {"a": 0.2, "b": 0.3})
    version_of(profanity, {"a": 0.2, "b": 0.1})
    html = page(client, f"/history/?metric={profanity.slug}")
    assert versions(read_chart(client, html)) == [3, 4]
    for query in ("from=1", "to=2", "from=1&to=2"):
        figures = page(client, f"/history/?metric={profanity.slug}&{query}")
        assert versions(read_chart(client, figures)) == [1, 2]
    assert client.get(f"/history/?metric={profanity.slug}&from=1&to=3").status_code == 404


@pytest.mark.slow
def test_a_version_that_was_never_published_is_not_told(client, profanity):
    version_of(profanity, {"a": 0.1, "b": 0.2})
    version_of(profanity, {"a": 0.2, "b": 0.1})
    given_up = MetricVersion.objects.create(
        metric=profanity,
        number=3,
        protocol=profanity.protocol,
        scorer="profanity",
        scorer_fingerprint="3" * 64,
        formula_version=1,
        status="retired",
    )
    Scoring.objects.create(model=model("a"), metric_version=given_up, state="done", scored_at=timezone.now())
    assert versions(read_chart(client, page(client, f"/history/?metric={profanity.slug}"))) == [1, 2]
    assert client.get(f"/rankings/?metric={profanity.slug}&version=3").status_code == 404


def test_each_version_says_when_by_which_scorer_and_why(client, profanity):
    first = version_of(profanity, {"a": 0.1, "b": 0.2})
    items = Artefact.objects.create(sha256="a" * 64, kind="control_items", rows=1, size=1, schema_version=1)
    control = ControlSet.objects.create(metric_version=first, items=items, reference=items, fingerprint="a" * 64)
    check = ControlCheck.objects.create(
        metric=profanity,
        control_set=control,
        trigger="schedule",
        verdict="drifted",
        state="done",
        artefact=items,
        finished_at=timezone.now(),
        statistics={"decided_by": "Labels flipped in women: 7 of 200."},
    )
    second = version_of(profanity, {"a": 0.2, "b": 0.1}, opened_because=check)
    third = version_of(profanity, {"b": 0.1}, scorer="detoxify:original")
    operator = User.objects.create_user("operator")
    for before, after, reason, user in (
        (first, second, "Labels flipped in women: 7 of 200.", None),
        (second, third, "The service has ended.", operator),
    ):
        Rescoring.objects.create(
            metric=profanity,
            from_version=before,
            to_version=after,
            state="published",
            reason=reason,
            requested_by=user,
        )
    OutdatedEntry.objects.create(
        metric_version=third,
        model=model("a"),
        last_scoring=second.scorings.get(model__name="a"),
        reason="the model is restricted",
    )
    html = page(client, f"/history/?metric={profanity.slug}&kind=all")
    rows = table(html, "Table of versions")
    assert [row[0].split()[0] for row in rows] == ["1", "2", "3"]
    assert all(f"{timezone.now():%Y}" in row[1] for row in rows)
    assert [row[3] for row in rows] == ["000000000000", "000000000000 changed", "000000000000 changed"]
    assert rows[0][4] == "The first version measured here."
    assert "said: drifted. Labels flipped in women: 7 of 200." in rows[1][4]
    assert rows[2][4] == "An operator asked for it: The service has ended."
    assert rows[2][2] == "detoxify:original another scorer; before, profanity"
    assert "last scored under version 2: the model is restricted" in rows[2][5]
    assert "operator" not in html.split("An operator", 1)[1], "who it was is for the audit trail"
    figure = read_chart(client, html)
    heads = [text.split("<br>")[-2:] for text in figure["layout"]["xaxis"]["ticktext"]]
    assert heads == [["first", "measured"], ["scorer", "drifted"], ["on", "request"]]
    assert [stretch[0][0] for stretch in stretches(figure, "dot")] == [1.5], "another scorer judges from version 3 on"
    cells = next(row for row in table(html, "Table of ranks under each version") if row[0] == "a")
    assert cells[-1] == "outdated"
    assert drawn(figure)["a"] == {1: 1, 2: 2}


@pytest.mark.slow
def test_one_history_is_told_where_scorers_spell_an_attribute_differently(client, profanity):
    version_of(profanity, {"a": 0.1, "b": 0.2}, name="TOXICITY:all", scorer="perspective")
    version_of(profanity, {"a": 0.2, "b": 0.1}, name="toxicity:all", scorer="detoxify:original")
    for name in ("TOXICITY:all", "toxicity:all"):
        html = page(client, f"/history/?metric={profanity.slug}&slice={name}")
        assert drawn(read_chart(client, html)) == {"a": {1: 1, 2: 2}, "b": {1: 2, 2: 1}}


@pytest.mark.slow
def test_kinds_of_likelihood_have_histories_of_their_own(client, db):
    seed_figures()
    metric = Metric.objects.get(slug="safety-toxigen")
    first = metric.versions.get()
    second = MetricVersion.objects.create(
        metric=metric,
        number=2,
        provenance="published",
        protocol=metric.protocol,
        scorer_fingerprint="2" * 64,
        formula_version=metric.formula.version,
        source="a later paper",
    )
    for scoring in first.scorings.all():
        copy = Scoring.objects.create(
            model=scoring.model, metric_version=second, state="done", scored_at=scoring.scored_at
        )
        Result.objects.bulk_create(
            Result(scoring=copy, measure=r.measure, slice=r.slice, value=1 - r.value)
            for r in scoring.results.filter(measure="safety_score")
        )
    publish_standings(second)
    for kind, count in (("causal", 5), ("masked", 17), ("all", 24)):
        html = page(client, f"/history/?metric={metric.slug}&kind={kind}")
        assert re.search(rf'<option value="{kind}"\s+selected>', html)
        record = record_of(metric, population=kind).changes
        rows = table(html, "Table of changes")
        assert (
            len(rows)
            == len(record.models)
            == Standing.objects.filter(
                metric_version=second, measure="safety_score", slice="average", population=kind
            ).count()
        )
        assert [row[0] for row in rows] == [of.model for of in record.models]
        assert count <= len(rows)
    default = page(client, f"/history/?metric={metric.slug}")
    assert table(default, "Table of changes") == table(
        page(client, f"/history/?metric={metric.slug}&kind=causal"), "Table of changes"
    )


def test_a_chosen_model_is_marked_in_both_tables(client, helm):
    html = page(client, f"{HELM}&model=helm-openai-davinci")
    assert html.count('data-model="helm-openai-davinci" class="chosen"') == 2
    assert html.count('class="chosen"') == 2


def test_names_are_escaped_in_the_page_and_in_the_chart(client, profanity):
    for _ in range(2):
        version_of(profanity, {"<b>bold</b>": 0.1, "</script><script>": 0.2})
    html = page(client, f"/history/?metric={profanity.slug}")
    assert "<b>bold" not in html
    assert "</script><script>" not in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in json.dumps(read_chart(client, html))
    assert re.search(r"<text [^>]*>&lt;b&gt;bold&lt;/b&gt;\s+1</text>", html)


@pytest.mark.slow
def test_a_rescoring_of_the_board_is_told_with_its_reason(client, metric, models):
    finish(models[CAUSAL], metric)
    finish(models[OTHER_CAUSAL], metric)
    rescoring = rescore.open_rescoring(metric, "tried on a second machine")
    for scoring in rescoring.to_version.scorings.all():
        score(scoring)
    html = page(client, f"/history/?metric={metric.slug}")
    assert "0 of 2 ranks changed between version 1 and version 2." in said(html)
    assert table(html, "Table of versions")[1][4] == "An operator asked for it: tried on a second machine"


@pytest.mark.slow
def test_the_ranking_page_links_to_the_history_of_metrics_that_have_one(client, profanity):
    version_of(profanity, {"a": 0.1, "b": 0.2})
    assert "/history/?" not in page(client, f"/rankings/?metric={profanity.slug}")
    version_of(profanity, {"a": 0.2, "b": 0.1})
    html = page(client, f"/rankings/?metric={profanity.slug}&version=1")
    links = re.findall(r'href="(/history/\?[^"]*)"', html)
    assert len(links) == 2
    for link in links:
        assert "1 of" not in said(page(client, unescape(link))).split("ranks changed")[0].split("From version")[1]
        assert f"{SLICE}" in client.get(unescape(link)).content.decode()


def flagged(client, metric: Metric) -> str:
    """What the ranking page says of the scorer."""
    return said(
        page(client, f"/rankings/?metric={metric.slug}").split('<div id="scorer"', 1)[1].split('<div id="tables"')[0]
    )


@pytest.mark.slow
def test_the_ranking_page_says_that_a_rescoring_is_under_way_and_how_far_it_is(client, metric, models):
    finish(models[CAUSAL], metric)
    finish(models[OTHER_CAUSAL], metric)
    assert "Scores are being made again" not in flagged(client, metric)
    rescoring = rescore.open_rescoring(metric, "tried on a second machine")
    text = flagged(client, metric)
    assert "Scores are being made again under version 2: tried on a second machine" in text
    assert "0 of 2 entries" in text
    assert CAUSAL not in text, "entries that wait for the rescoring are counted, not listed"
    assert 'hx-trigger="every 2s"' in page(client, f"/rankings/?metric={metric.slug}")
    rescore.pause(rescoring)
    assert "under version 2 (paused)" in flagged(client, metric)
    rescore.cancel(rescoring)
    assert "Scores are being made again" not in flagged(client, metric)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        ("drifted", "The scorer has drifted: at the check of"),
        ("unavailable", "The scorer is unavailable: the check of"),
        ("changed", "The scorer has changed a little: at the check of"),
    ],
)
def test_the_ranking_page_says_what_the_last_check_found_unless_all_is_well(client, metric, models, verdict, sentence):
    finish(models[CAUSAL], metric)
    control = ControlSet.objects.get()
    now = timezone.now()

    def checked(found: str, minutes: int) -> None:
        ControlCheck.objects.create(
            metric=metric,
            control_set=control,
            trigger="schedule",
            verdict=found,
            state="done",
            artefact=control.reference,
            finished_at=now + timedelta(minutes=minutes),
            statistics={"decided_by": "What decided it."},
        )

    checked("stable", 1)
    assert "The scorer" not in flagged(client, metric)
    checked(verdict, 2)
    assert sentence in flagged(client, metric)
    assert "What decided it." in flagged(client, metric)
    checked("stable", 3)
    assert "The scorer" not in flagged(client, metric)


@pytest.mark.slow
def test_a_drift_that_was_put_right_by_a_new_version_is_no_longer_flagged(client, metric, models):
    finish(models[CAUSAL], metric)
    control = ControlSet.objects.get()
    ControlCheck.objects.create(
        metric=metric,
        control_set=control,
        trigger="schedule",
        verdict="drifted",
        state="done",
        artefact=control.reference,
        finished_at=timezone.now(),
        statistics={"decided_by": "Labels flipped."},
    )
    assert "The scorer has drifted" in flagged(client, metric)
    rescoring = rescore.open_rescoring(metric, "Labels flipped.")
    assert "The scorer has drifted" not in flagged(client, metric)
    assert "Scores are being made again under version 2: Labels flipped." in flagged(client, metric)
    score(rescoring.to_version.scorings.get())
    assert "Labels flipped." not in flagged(client, metric)


@pytest.mark.slow
def test_the_ranking_page_stays_within_its_queries_while_a_rescoring_is_under_way(client, metric, models):
    finish(models[CAUSAL], metric)
    finish(models[OTHER_CAUSAL], metric)
    rescore.open_rescoring(metric, "tried on a second machine")
    with CaptureQueriesContext(connection) as caught:
        page(client, f"/rankings/?metric={metric.slug}")
    assert len(caught) <= MOST_QUERIES


def test_the_history_page_refuses_to_be_written_to(client, helm):
    assert client.post(HELM).status_code == 405


def test_movements_between_neighbours_are_those_of_the_record(client, profanity):
    """Each version ranks a model that the others do not, which moves nobody."""
    for shift in range(4):
        values = {f"m{number}": (number * (shift + 2) % 7) / 7 for number in range(7)}
        version_of(profanity, values | {f"only {shift}": 0.01})
    steps = list_steps(profanity)
    measure, name = steps[-1].version.first_measure, Standing.objects.values_list("slice", flat=True).first()
    board = steps, measure, {step.version.pk: name for step in steps}, "all"
    model_lines = lines(*board)
    moves = list_moves(model_lines)
    keys = [BoardKey(step.version.pk, measure, name, "all") for step in steps]
    ranks = read_ranks(keys)
    for position in range(3):
        record = changes(model_lines, *board, (position, position + 1))
        gains = {line.slug: change.change for line, _, _, change in record.rows}
        assert len(gains) == 7
        assert gains == {slug: move[position] for slug, move in moves.items() if move[position] is not None}
        assert gains == count_gains(ranks[keys[position]], ranks[keys[position + 1]])


@pytest.mark.parametrize(
    ("extension", "start", "content_type"),
    [("svg", b"<?xml", "image/svg+xml"), ("png", b"\x89PNG", "image/png"), ("pdf", b"%PDF", "application/pdf")],
)
def test_the_chart_is_a_file_at_the_address_of_the_page(client, helm, extension, start, content_type):
    html = page(client, HELM)
    query = unescape(re.search(rf'href="(\?[^"]*format={extension})" download', html)[1])
    response = client.get("/history/" + query)
    assert response["Content-Type"] == content_type
    assert response["Content-Disposition"] == f'inline; filename="rtp-helm-perspective-history.{extension}"'
    assert response.content.startswith(start)
    if extension == "png":
        assert f'property="og:image" content="http://testserver/history/{query}"' in unescape(html)


@pytest.mark.parametrize("query", ["chart=nonsense", "chart=rtp-helm-perspective-history&format=exe"])
def test_a_chart_that_a_page_does_not_have_is_a_404_that_lists_what_there_is(client, helm, query):
    response = client.get(f"{HELM}&{query}")
    assert response.status_code == 404
    assert "Known: " in said(response.content.decode())


@pytest.mark.parametrize(
    ("only_before", "only_after", "is_counted_anew"),
    [((), (), False), (("one",), (), True), ((), ("two",), True), (("one",), ("two",), True)],
)
def test_changes_are_counted_anew_where_a_model_is_on_one_of_both_versions_alone(
    only_before: tuple[str, ...], only_after: tuple[str, ...], is_counted_anew: bool
):
    record = SimpleNamespace(models=[], only_before=only_before, only_after=only_after)
    assert VersionChanges(MetricVersion(), MetricVersion(), (0, 1), record, {}).is_counted_anew is is_counted_anew
