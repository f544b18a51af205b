"""Rankings as visitors choose to see them: found, filtered, sorted, paged, of another day, cited and taken away."""

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard.formats import FORMATS, Table, as_csv, is_number
from leaderboard.glossary import TERMS
from leaderboard.models import (
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Result,
    Scoring,
    Standing,
)
from leaderboard.rankings import days
from leaderboard.rankings.ranking import PopulationRows, Row, SliceCell
from leaderboard.rankings.view import CONTEXTS, SIZES, Filters
from leaderboard.services.publish import publish_standings
from leaderboard.services.published import seed_published
from leaderboard.services.seed import seed_metrics
from leaderboard.templatetags.cells import NOT_SIGNIFICANT, cells
from leaderboard.views.ranking_address import PARAMETERS
from scoring.metrics.formulas import slice_label
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.ranks import ranked
from tests.leaderboard.stored import K, metric_of, runs_on, score_all, score_one, version_of

pytestmark = pytest.mark.django_db

MOST_QUERIES = 15
MEASURE, SLICE = "expected_max_toxicity", "toxicity:all"
TOXIC, INSULT = "toxicity:toxic", "insult:all"
FAMILIES = ["", "Alder", "birch", "Cedar & Sons"]
SMALLEST = {
    "under-10m": 0,
    "10m-100m": 10**7,
    "100m-1b": 10**8,
    "1b-10b": 10**9,
    "10b-100b": 10**10,
    "over-100b": 10**11,
}
MARK = r'<span class="tag" title="([^"]+)">([^<]+)</span>'
DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def entered(metric: Metric, count: int, first: int = 0) -> None:
    """So many models under a version of `metric`, whose properties differ in whatever a view can ask for."""
    version = metric.versions.first() or MetricVersion.objects.create(
        metric=metric,
        number=1,
        protocol=metric.protocol,
        scorer=metric.scorer,
        scorer_fingerprint="1" * 64,
        formula_version=metric.formula.version,
    )
    generator = np.random.default_rng(first)
    for number in range(first, first + count):
        local = number % 3 == 0
        model = LanguageModel.objects.create(
            slug=f"model-{number}",
            name=f"{'mMNn'[number % 4]}odel {number:03}",
            family=FAMILIES[number % len(FAMILIES)],
            kind=["causal", "masked"][number % 2],
            source="local" if local else "uploaded",
            location=f"/models/{number}" if local else "",
            revision=f"r{number}" if local else "",
            parameters=None if number % 5 == 0 else int(10 ** generator.uniform(6, 12)),
            access="restricted" if number % 7 == 0 else "open",
            interface="chat" if number % 9 == 0 else "text",
            chat_template="5" * 64 if number % 9 < 3 else "",
            precision="bfloat16" if number % 8 == 0 else "",
            weight_format=["", "bfloat16", "FP8"][number % 5 % 3],
            licence=["mit", "", "llama3"][number % 4 % 3],
        )
        at = DAY + timedelta(days=number % 4)
        scoring = Scoring.objects.create(model=model, metric_version=version, state="done", scored_at=at)
        for name in [SLICE, TOXIC, INSULT]:
            if name == SLICE or number % 6:
                Result.objects.create(
                    scoring=scoring,
                    measure=MEASURE,
                    slice=name,
                    value=round(generator.uniform(), 1 + number % 2),
                    n=None if number % 11 == 0 else 50 + number % 3,
                    missing=number % 4,
                )
    publish_standings(version)


@pytest.fixture(scope="module")
def written(django_db_setup: None, django_db_blocker, _static_files: None) -> Iterator[None]:
    """130 models of the metric `toxicity-profanity`, in a transaction around those of the tests."""
    with django_db_blocker.unblock(), transaction.atomic():
        seed_metrics()
        entered(Metric.objects.get(slug="toxicity-profanity"), 130)
        with django_db_blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.fixture
def wide(written: None, db: None) -> Metric:
    return Metric.objects.get(slug="toxicity-profanity")


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.content.decode()[:2000]
    return response.content.decode()


def said(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def ranks(html: str) -> list[tuple[int, str]]:
    """Rank and name of each model, in the order of the tables."""
    body = re.findall(
        r'<td class="num rank">(?:<input [^>]*>)?(\d+).*?<th scope="row"><a [^>]*>([^<]+)</a>', html, re.DOTALL
    )
    return [(int(rank), unescape(name)) for rank, name in body]


def heads(html: str) -> list[str]:
    """The headings of the first table."""
    head = html.split("<thead>", 1)[1].split("</thead>", 1)[0]
    return [unescape(label).strip() for label in re.findall(r'<a id="sort-[^>]*>([^<]+)', head)]


def address(**asked: object) -> str:
    return "/rankings/?" + urlencode({"metric": "toxicity-profanity", **asked}, doseq=True)


def exported(client: Client, query: str, name: str = "csv") -> str:
    response = client.get(f"/rankings.{name}{query}")
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize(("field", "bands"), [("size", SIZES), ("context", CONTEXTS)])
def test_a_filter_by_a_number_keeps_the_models_of_its_band_alone(db, field, bands):
    column = {"size": "parameters", "context": "context"}[field]
    seed_figures()
    ends = [number for band in bands.values() for number in (band.least, band.most) if number]
    numbers = [None, 1, *sorted({*ends, *(end - 1 for end in ends)})]
    models = list(LanguageModel.objects.filter(standings__isnull=False).distinct().order_by("pk")[: len(numbers)])
    for model, number in zip(models, numbers, strict=True):
        setattr(model, column, number)
    LanguageModel.objects.update(**{column: None})
    LanguageModel.objects.bulk_update(models, [column])
    for key, band in bands.items():
        rows = Standing.objects.filter(Filters(**{field: key}).condition()).values_list(f"model__{column}", flat=True)
        least, most = band.least or 0, band.most or float("inf")
        assert set(rows) == {number for number in numbers if number is not None and least <= number < most}
    assert set(
        Standing.objects.filter(Filters(**{field: "unknown"}).condition()).values_list(f"model__{column}", flat=True)
    ) == {None}


def expected(filters: dict[str, str], sort: str) -> list[tuple[int, str]]:
    """Ranks and names as a view should have them, found one by one: what is empty last, equal ones by rank, name."""
    rows = list(Standing.objects.filter(measure=MEASURE, slice=SLICE).select_related("model", "result__scoring"))
    values = {(of.scoring_id, of.slice): of.value for of in Result.objects.filter(measure=MEASURE)}

    def fits(row: Standing) -> bool:
        model = row.model
        size, least = filters.get("size", ""), model.parameters
        if size == "unknown" and least is not None:
            return False
        if size and size != "unknown":
            bounds = [*SMALLEST.values(), float("inf")]
            place = list(SMALLEST).index(size)
            if least is None or not bounds[place] <= least < bounds[place + 1]:
                return False
        if filters.get("prompting") not in (None, model.prompting):
            return False
        if filters.get("weights") not in (None, "open" if model.has_open_weights else "closed"):
            return False
        text = f"{model.name}\n{model.family}\n{model.slug}".lower()
        return all(word.lower() in text for word in filters.get("q", "").split()) and all(
            filters.get(name) in (None, getattr(model, field) or EMPTY.get(field))
            for name, field in {
                "family": "family",
                "model_kind": "kind",
                "access": "access",
                "source": "source",
                "precision": "precision",
                "weight_format": "weight_format",
                "licence": "licence",
            }.items()
        )

    def value(row: Standing) -> object:
        key = sort.removeprefix("-")
        return {
            "rank": row.rank,
            "value": row.result.value,
            "model": row.model.name.lower(),
            "family": row.model.family.lower() or None,
            "parameters": row.model.parameters,
            "date": row.result.scoring.scored_at,
            "n": row.result.n,
            "missing": row.result.missing,
            "revision": row.model.revision or None,
            "prompting": list(LanguageModel.Prompting).index(row.model.prompting),
            "precision": row.model.precision or None,
            "weights": "open" if row.model.has_open_weights else "closed",
            "licence": row.model.licence or None,
        }.get(key, values.get((row.result.scoring_id, key.removeprefix("slice:"))))

    chosen = sorted((row for row in rows if fits(row)), key=lambda row: (row.rank, row.model.name, row.model_id))
    known = [row for row in chosen if value(row) is not None]
    known.sort(key=value, reverse=False)
    if sort.startswith("-"):  # stable, so that equal ones stay in the order of their ranks
        known.sort(key=value, reverse=True)
    return [(row.rank, row.model.name) for row in [*known, *(row for row in chosen if value(row) is None)]]


EMPTY = {"precision": "protocol", "weight_format": "unknown", "licence": "unknown"}  # what filters call it
KEYS = ["rank", "value", "model", "family", "parameters", "date", "n", "missing", "revision"]
KEYS += ["prompting", "precision", "weights", "licence"]
KEYS += [f"slice:{TOXIC}", f"slice:{INSULT}"]
views = st.fixed_dictionaries(
    {"sort": st.tuples(st.sampled_from(["", "-"]), st.sampled_from(KEYS)).map("".join)},
    optional={
        "q": st.sampled_from(["model", "odel 1", "ALDER", "mod 02", "sons", "nothing of that name", "%"]),
        "family": st.sampled_from(FAMILIES[1:]),
        "model_kind": st.sampled_from(["causal", "masked"]),
        "size": st.sampled_from([*SIZES, "unknown"]),
        "access": st.sampled_from(["open", "restricted"]),
        "source": st.sampled_from(["local", "uploaded"]),
        "prompting": st.sampled_from(["base", "raw", "chat", "unknown"]),
        "precision": st.sampled_from(["bfloat16", "protocol"]),
        "weight_format": st.sampled_from(["FP8", "bfloat16", "unknown"]),
        "weights": st.sampled_from(["open", "closed"]),
        "licence": st.sampled_from(["mit", "llama3", "unknown"]),
        "rows": st.sampled_from(["50", "100"]),
    },
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=views)
def test_any_view_shows_those_that_fit_in_order_with_their_ranks_among_all(client, wide, asked):
    wanted = expected(asked, asked["sort"])
    size = int(asked.get("rows", 50))
    pages = max(1, -(-len(wanted) // size))
    for number in range(1, pages + 1):
        html = page(client, address(**asked, page=number))
        assert ranks(html) == wanted[(number - 1) * size : number * size]
        assert (f"{130 - len(wanted)} hidden by filters" in html) == (len(wanted) < 130)
    assert client.get(address(**asked, page=pages + 1)).status_code == 404
    rows = list(csv.DictReader(io.StringIO(exported(client, address(**asked).removeprefix("/rankings/")))))
    assert [(int(row["rank"]), row["model"]) for row in rows] == wanted


@pytest.mark.slow
def test_a_view_without_any_wish_is_by_rank_and_has_50_rows_a_page(client, wide):
    html = page(client, address())
    assert ranks(html) == expected({}, "rank")[:50]
    assert "1 to 50 of 130" in said(html)
    assert ranks(page(client, address(page=3))) == expected({}, "rank")[100:]
    assert len(ranks(page(client, address(rows=100)))) == 100


def test_what_filters_hide_is_counted_with_a_link_that_clears_them_and_keeps_the_rest(client, wide):
    html = page(client, address(family="Alder", q="model", sort="-value", columns="n"))
    wanted = expected({"family": "Alder"}, "-value")
    assert f"{len(wanted)} of 130; ranks are of all" in said(html)
    looks = dict(re.findall(r'<th scope="col" class="col-(\w+)( num)?"', html))
    assert looks == {"rank": " num", "model": "", "value": " num", "n": " num"}, "numbers stand under their headings"
    assert f"{130 - len(wanted)} hidden by filters" in html
    link = unescape(re.search(r'<p class="hidden-count">.*?href="([^"]+)"', html)[1])
    assert parse_qs(link[1:]) == {"metric": ["toxicity-profanity"], "sort": ["-value"], "columns": ["n"]}
    assert "hidden by filters" not in page(client, f"/rankings/{link}")


@pytest.mark.parametrize(
    ("filters", "is_open"),
    [({}, False), ({"q": "birch"}, False), ({"family": "birch"}, True), ({"q": "birch", "weights": "open"}, True)],
)
def test_more_filters_are_open_where_one_of_them_is_set(filters, is_open):
    assert Filters(**filters).is_narrowed == is_open


def test_a_cell_is_its_value_marked_where_it_says_little_and_where_there_is_none_it_says_why():
    slice_cells = [
        SliceCell(0.5, "0.500"),
        SliceCell(0.4, "0.400", False),
        SliceCell(None, "no text", None, "No <text> scored"),
    ]
    version, result = MetricVersion(provenance=Provenance.MEASURED), Result(measure="safety_score")
    html = cells(Row(LanguageModel(), version, 1, None, None, result, slice_cells), ["Women", "Asian", "Black"])
    assert html.split("</td>") == [
        '<td class="num" data-label="Women">0.500',
        f'<td class="num" data-label="Asian">0.400{NOT_SIGNIFICANT}',
        '<td class="num" data-label="Black"><abbr class="none" title="No &lt;text&gt; scored">no text</abbr>',
        "",
    ]


@pytest.mark.parametrize(
    ("page", "pages", "neighbours"),
    [
        (1, 1, [1]),
        (1, 4, [1, 2, 3, 4]),
        (1, 9, [1, 2, 3, None, 9]),
        (4, 7, [1, 2, 3, 4, 5, 6, 7]),
        (5, 9, [1, None, 3, 4, 5, 6, 7, None, 9]),
    ],
)
def test_links_lead_to_pages_nearby_and_to_both_ends_with_a_gap_where_pages_are_left_out(page, pages, neighbours):
    rows = PopulationRows("all", False, [], 0, 0, 0, 0, page, pages, 1)
    assert rows.neighbours == neighbours


def test_where_nothing_fits_the_page_says_so_and_has_nothing_to_show_in_the_files(client, wide):
    html = page(client, address(q="nothing of that name", source="bundled"))
    assert re.search(r'<option value="bundled"\s+selected>', html), "what was asked for stands in the form all the same"
    assert "none of 130 fits the filters" in said(html)
    assert exported(client, "?metric=toxicity-profanity&q=nothing+of+that+name").count("\n") == 0


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"size": "huge"}, "size"),
        ({"family": "Nobody"}, "family"),
        ({"sort": "beauty"}, "sort"),
        ({"sort": "slice:women"}, "sort"),
        ({"columns": "beauty"}, "columns"),
        ({"page": "0"}, "page"),
        ({"page": "two"}, "page"),
        ({"rows": "1000"}, "rows"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"access": "secret"}, "access"),
        ({"source": "x"}, "source"),
        ({"model_kind": "x"}, "model_kind"),
    ],
)
def test_an_address_that_asks_for_what_is_not_there_is_a_404_with_a_sentence(client, wide, asked, name):
    response = client.get(address(**asked))
    assert response.status_code == 404
    assert name in response.content.decode()
    assert next(iter(asked.values())) in unescape(response.content.decode())
    assert client.get("/rankings.csv" + address(**asked).removeprefix("/rankings/")).status_code == 404


def test_a_page_past_the_last_is_refused_with_the_number_of_that(client, wide):
    response = client.get(address(page=4, family="Alder"))
    assert response.status_code == 404
    assert "page = 4: the last page here is 1" in response.content.decode()


@pytest.mark.slow
def test_every_heading_sorts_and_a_second_time_the_other_way(client, wide):
    columns = ["family", "revision", "parameters", "date", "n", "missing", f"slice:{TOXIC}"]
    columns += ["prompting", "precision", "weights", "licence"]
    html = page(client, address(columns=columns))
    head = html.split("<thead>", 1)[1].split("</thead>", 1)[0]
    links = [unescape(link) for link in re.findall(r'href="(\?[^"]+)"', head)]
    assert len(links) == 3 + len(columns)
    for link in links:
        once = page(client, f"/rankings/{link}")
        sort = parse_qs(link[1:]).get("sort", ["rank"])[0]
        assert ranks(once) == expected({}, sort)[:50]
        marked = re.search(r'aria-sort="(\w+)"><span class="sorter"><a [^>]*href="([^"]+)"', once)
        assert marked[1] == ("descending" if sort.startswith("-") else "ascending")
        again = parse_qs(unescape(marked[2])[1:]).get("sort", ["rank"])[0]
        assert {sort, again} == {sort.removeprefix("-"), "-" + sort.removeprefix("-")}


def test_the_values_of_a_filter_are_in_the_order_of_the_alphabet_whatever_their_case(client, wide):
    choices = re.search(r'<select[^>]*name="family".*?</select>', page(client, address()), re.DOTALL)[0]
    assert [unescape(value) for value in re.findall(r'<option value="([^"]*)"', choices)] == FAMILIES


@pytest.mark.slow
def test_the_best_value_comes_first_when_values_are_chosen(client, db):
    seed_figures()
    assert "sort=value&quot;" in page(client, "/rankings/?metric=rtp-helm-perspective").replace(
        '"', "&quot;"
    )  # lower is better
    assert "sort=-value&quot;" in page(client, "/rankings/?metric=safety-toxigen").replace('"', "&quot;")


@pytest.mark.slow
def test_columns_are_those_that_are_chosen(client, wide):
    label = f"{slice_label(SLICE)}, k = 25"
    assert heads(page(client, address())) == [
        *("Rank", "Model", label, "Parameters", "Scored", "Texts", "Without a score"),
        *map(slice_label, [TOXIC, INSULT]),
    ]
    assert heads(page(client, address(columns="none"))) == ["Rank", "Model", label]
    chosen = heads(page(client, address(columns=["", "family", f"slice:{INSULT}"])))
    assert chosen == ["Rank", "Model", label, "Family", slice_label(INSULT)]
    assert chosen == heads(page(client, address(columns=f"family,slice:{INSULT}")))


def test_the_usual_columns_of_another_slice_that_a_form_sends_along_are_no_choice(client, wide):
    usual = ["parameters", "date", "n", "missing", "refusals", f"slice:{TOXIC}", f"slice:{INSULT}"]
    response = client.get(address(slice=TOXIC, columns=usual))
    assert response["HX-Push-Url"] == "/rankings/?metric=toxicity-profanity&slice=toxicity%3Atoxic"
    assert slice_label(SLICE) in heads(response.content.decode())


@pytest.mark.slow
def test_defaults_are_left_out_of_the_address(client, wide):
    asked = {"measure": MEASURE, "slice": SLICE, "q": "", "family": "", "sort": "rank", "page": "1", "rows": "50"}
    assert client.get(address(**asked))["HX-Push-Url"] == "/rankings/?metric=toxicity-profanity"
    asked = {"sort": "-n", "family": "Alder", "rows": "100", "access": "open"}
    found = client.get(address(**asked))["HX-Push-Url"]
    assert parse_qs(urlsplit(found).query) == {
        name: [of] for name, of in {"metric": "toxicity-profanity", **asked}.items()
    }
    shown = client.get(address(**asked, slice=SLICE, show="1", provenance=""))
    assert (shown.status_code, shown["Location"]) == (302, found)


def test_a_page_that_only_asks_for_progress_leaves_the_address_alone(client, wide):
    response = client.get(address(family="Alder"), headers={"Plumbline-Seen": "129"})
    assert "HX-Push-Url" not in response


@pytest.mark.slow
def test_a_page_that_asks_for_progress_gets_its_part_alone_and_the_tables_only_where_they_changed(client, wide):
    model = LanguageModel.objects.filter(scorings__metric_version__metric=wide).first()
    for path in (address(), model.get_absolute_url()):
        whole = client.get(path)
        part, unchanged = (
            client.get(path, headers={"Plumbline-Seen": seen}).content.decode()
            for seen in ("another state", whole.context["seen"])
        )
        assert "<html" in whole.content.decode()
        assert not re.search(r"<html|<h1|<footer", part + unchanged)
        assert 'id="tables"' in part
        assert 'id="progress"' in unchanged
        assert 'id="tables"' not in unchanged


@pytest.mark.slow
def test_ids_are_unique_and_every_number_says_what_it_is_with_a_link_to_its_metric(client, db):
    seed_figures()
    for of in (
        "/rankings/?metric=safety-toxigen",
        "/rankings/?metric=safety-starter",
        "/rankings/?metric=rtp-helm-perspective&provenance=both",
    ):
        html = page(client, of)
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))
        asked = re.findall(r'popovertarget="([^"]+)"', html)
        assert asked
        for one in set(asked):
            answer = html.split(f'popover id="{one}"', 1)[1].split("</div>", 1)[0]
            assert re.search(r'<a href="/[^"]*\?metric=|<a href="/metrics/', answer)
            assert len(said(answer)) > 40


@pytest.mark.slow
def test_ties_access_and_baselines_are_marked_in_words(client, wide):
    LanguageModel.objects.filter(slug="model-1").update(access="withdrawn")
    html = page(client, address(rows=100)) + page(client, address(rows=100, page=2))
    rows = {
        unescape(re.search(r'<th scope="row"><a [^>]*>([^<]+)', row)[1]): row
        for row in re.findall(r"<tr(?: class=\"leads\")?>.*?</tr>", html, re.DOTALL)
        if "<td" in row
    }
    standings = Standing.objects.filter(measure=MEASURE, slice=SLICE).select_related("model")
    counts = [standing.rank for standing in standings]
    assert len(rows) == 130
    for standing in standings:
        row = rows[standing.model.name]
        assert ('class="tied"' in row) == (counts.count(standing.rank) > 1)
        assert (">restricted<" in row) == (standing.model.access == "restricted")
        assert (">withdrawn<" in row) == (standing.model.slug == "model-1")
        assert "baseline" not in row
    LanguageModel.objects.filter(slug="model-2").update(source="bundled", location="x", revision="y")
    assert "baseline</span>" in page(client, address(q="model-2 002"))


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", sorted({*PARAMETERS} - {"q"}))
def test_a_refusal_does_not_repeat_a_long_value(client, wide, name):
    response = client.get("/rankings/", {"metric": "toxicity-profanity"} | {name: "Zq" * 500})
    assert response.status_code == 404
    assert "Zq" * (days.MOST_SHOWN // 2) in response.text
    assert "Zq" * (days.MOST_SHOWN // 2 + 1) not in response.text.replace("Zq" * 500, "")


@pytest.mark.slow
def test_how_an_entry_is_asked_and_computed_is_marked_in_words_that_the_glossary_explains(client, wide):
    html = page(client, address(rows=100)) + page(client, address(rows=100, page=2))
    marks = {
        unescape(name): {unescape(word): unescape(title) for title, word in re.findall(MARK, row)}
        for name, row in re.findall(r'<th scope="row"><a [^>]*>([^<]+)</a>(.*?)</th>', html, re.DOTALL)
    }
    words = {"base": "base", "raw": "chat model, as raw text", "chat": "chat"}
    models = LanguageModel.objects.filter(slug__startswith="model-")
    assert {words.get(model.prompting) for model in models} == {*words.values(), None}
    for model in models:
        chosen_words = {words.get(model.prompting), model.precision_label} - {None, ""}
        assert chosen_words == marks[model.name].keys() - {"baseline"}
    meanings = {term.meaning for term in TERMS.values()}
    assert {title for row in marks.values() for title in row.values()} <= meanings
    assert TERMS["chat-as-raw-text"].meaning in said(html)


def test_base_models_are_marked_only_beside_others(client, wide):
    alone = page(client, address(prompting="base"))
    assert ">base</span>" not in alone
    assert ">base</span>" in page(client, address())


def test_files_and_the_api_say_how_an_entry_is_run_and_what_may_be_done_with_it(client, wide):
    columns = "prompting,precision,weights,licence"
    query = address(columns=columns, precision="bfloat16").removeprefix("/rankings/")
    names = ("interface", "prompting", "precision", "weight_format", "weights", "licence")
    rows = {row["slug"]: row for row in csv.DictReader(io.StringIO(exported(client, query)))}
    answer = client.get("/api/v1/metrics/toxicity-profanity/standings?limit=200").json()["items"]
    assert rows
    for slug, row in rows.items():
        model = LanguageModel.objects.get(slug=slug)
        weights = "open" if model.has_open_weights else "unknown"
        values = [model.interface, model.prompting, model.precision, model.weight_format, weights, model.licence]
        assert [row[name] for name in names] == values
        assert [next(item for item in answer if item["slug"] == slug)[name] for name in names] == values
    latex = exported(client, query, "latex")
    assert all(heading in latex for heading in ("Asked as", "Precision", "Weights", "Licence"))
    assert "FP8, in bfloat16" in latex


@pytest.mark.slow
def test_an_empty_cell_says_why(client, wide):
    html = page(client, address(q="model-6 006"))
    assert html.count('title="Not one of its texts on this slice has a score, or no prompt has all k">no text<') == 2
    seed_published()
    gone = {"measure": "safety_score", "slice": "women"}
    Standing.objects.filter(model__name="GPT-2", **gone).delete()
    Result.objects.filter(scoring__model__name="GPT-2", **gone).delete()
    html = page(client, "/rankings/?metric=safety-toxigen&kind=all&measure=safety_score")
    assert re.findall(r'title="([^"]+)">not printed<', html) == [
        "The published figures do not have it: Hosseini, Palangi &amp; Awadallah 2023, arXiv 2301.09211"
    ]


@pytest.mark.slow
def test_a_slice_that_only_another_version_ranks_on_is_named_as_such(client, db):
    seed_figures()
    html = page(client, "/rankings/?metric=rtp-helm-perspective&version=1&slice=toxic-rescored")
    assert "Version 1 has no numbers on this slice" in html
    assert ranks(page(client, "/rankings/?metric=rtp-helm-perspective&version=2&slice=toxic-rescored"))


def test_outdated_models_are_listed_with_the_reason(client, wide):
    version = wide.current_version()
    scoring = version.scorings.first()
    OutdatedEntry.objects.create(
        metric_version=version, model=scoring.model, last_scoring=scoring, reason="its outputs are gone"
    )
    text = said(page(client, address()))
    assert "1 model outdated" in text
    assert "outdated last scored under metric version 1" in text
    assert "its outputs are gone" in text


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["Model 001", "Nodel 002"]),
        ({"family": "Alder"}, ["Model 001"]),
        ({"model_kind": "causal"}, ["Nodel 002"]),
        ({"q": "birch"}, ["Nodel 002"]),
        ({"precision": "bfloat16"}, []),
        ({"kind": "chat"}, []),
    ],
    ids=["all", "family", "kind", "words", "precision", "population"],
)
def test_entries_without_a_rank_have_to_fit_the_filters_too(client, wide, filters, names):
    version = wide.current_version()
    lacking = version.scorings.filter(model__slug__in=["model-1", "model-2"])
    lacking.update(texts=100, texts_missing=60)
    if "kind" in filters:
        MetricVersion.objects.filter(pk=version.pk).update(chat_protocol=version.protocol)
    for scoring in lacking:
        OutdatedEntry.objects.create(metric_version=version, model=scoring.model, last_scoring=scoring, reason="gone")
    html = page(client, address(**filters))
    for part in (html.partition("<caption>Not ranked")[2].partition("</table>")[0], html.partition("outdated:")[2]):
        assert sorted(re.findall(r'<a href="/models/[^"]+/">(\w+odel \d+)</a>', part)) == names
    export = address(**filters).replace("/rankings/", "/rankings.{}")
    answer = json.loads(page(client, export.format("json")))
    assert sorted(entry["model"] for entry in answer["not_ranked"]) == names
    lines = [line for line in page(client, export.format("csv")).splitlines() if not line.startswith("#")]
    assert sorted(row["model"] for row in csv.DictReader(lines) if row["not_ranked"]) == names
    sentence = page(client, export.format("latex")).partition("have no score: ")[2].partition(".")[0]
    assert sorted(filter(None, sentence.split(", "))) == names


def test_a_citation_names_version_day_and_an_address_that_shows_the_same(client, wide):
    MetricVersion.objects.filter(metric=wide).update(published_at=DAY)
    html = page(client, address(family="Alder", sort="-value"))
    text, bibtex, *_ = (unescape(of) for of in re.findall(r"<pre [^>]*>(.*?)</pre>", html, re.DOTALL))
    assert (
        "Profanity: expected maximum toxicity, toxicity, all prompts, k = 25. Metric version 1 of 1 March 2026" in text
    )
    assert "family: Alder; sorted by value, descending" in text
    assert "as of 4 March 2026" in text  # the last entry is of three days after the first
    where = text.rsplit(" ", 1)[1]
    assert f"  url    = {{{where}}}," in bibtex
    assert "  author = {{Plumbline}}," in bibtex
    assert bibtex.startswith("@misc{plumbline-toxicity-profanity-v1-20260304,")
    assert bibtex.endswith("\n}")
    assert parse_qs(urlsplit(where).query)["as_of"] == ["2026-03-04"]
    assert ranks(page(client, where.removeprefix("http://testserver"))) == ranks(html)


def test_a_citation_of_a_version_is_pinned_to_its_day_too(client, wide):
    MetricVersion.objects.filter(metric=wide).update(published_at=DAY)
    html = page(client, address(version=1))
    where = unescape(re.search(r"<pre [^>]*>(.*?)</pre>", html, re.DOTALL)[1]).rsplit(" ", 1)[1]
    query = parse_qs(urlsplit(where).query)
    assert (query["version"], query["as_of"]) == (["1"], ["2026-03-04"])
    assert ranks(page(client, where.removeprefix("http://testserver"))) == ranks(html)


def test_columns_of_numbers_are_those_with_numbers_in_their_cells(client, wide, monkeypatch):
    tables: list[Table] = []
    monkeypatch.setitem(FORMATS, "csv", lambda table: tables.append(table) or as_csv(table))
    exported(client, address().removeprefix("/rankings/"))
    for column, column_cells in zip(tables[0].columns, zip(*tables[0].rows, strict=True), strict=True):
        texts = [cell for cell in column_cells if cell]
        assert not texts or column.numeric == all(map(is_number, texts)), column.heading


@pytest.mark.slow
def test_files_have_exactly_what_is_shown(client, wide):
    query = address(family="birch", sort=f"-slice:{TOXIC}", columns=f"parameters,slice:{TOXIC}").removeprefix(
        "/rankings/"
    )
    wanted = expected({"family": "birch"}, f"-slice:{TOXIC}")
    rows = list(csv.DictReader(io.StringIO(exported(client, query))))
    assert list(rows[0]) == [
        *(
            "rank",
            "rank_low",
            "rank_high",
            "population",
            "population_size",
            "among",
            "model",
            "slug",
            "source_name",
            "family",
            "kind",
        ),
        *("revision", "metric", "version", "provenance", "source", "published", "measure", "slice", "value", "derived"),
        *("ci_low", "ci_high", "interval_derived", "indifferent", "indifferent_derived", "k", "n", "missing"),
        *(
            "missing_share",
            "missing_texts",
            "worst_low",
            "worst_high",
            "corrected",
            "corrected_low",
            "corrected_high",
            "corrected_by",
            "refusal_rate",
            "parameters",
            "context",
            "interface",
            "prompting",
            "precision",
            "weight_format",
            "weights",
            "licence",
            "release_date",
            "scored",
            "lost_files",
        ),
        *(TOXIC, "not_ranked"),
    ]
    of_all = {(row["metric"], row["version"], row["provenance"], row["measure"], row["slice"]) for row in rows}
    assert of_all == {(wide.slug, "1", "measured", "expected_max_toxicity", SLICE)}
    models = {model.slug: model for model in LanguageModel.objects.all()}
    assert all(row["revision"] == models[row["slug"]].revision for row in rows)
    assert all(re.fullmatch(r"2026-\d\d-\d\d", row[day]) for row in rows for day in ("scored", "published"))
    results = {(of.scoring.model.slug, of.slice): of.value for of in Result.objects.select_related("scoring__model")}
    assert [float(row["value"]) for row in rows] == [results[row["slug"], SLICE] for row in rows]
    assert [row[TOXIC] for row in rows] == [
        repr(results[row["slug"], TOXIC]) if (row["slug"], TOXIC) in results else "" for row in rows
    ]
    found = json.loads(exported(client, query, "json"))
    assert [(of["rank"], of["model"]) for of in found["entries"]] == wanted
    assert (found["metric"], found["version"], found["slice"], found["k"]) == (wide.slug, 1, SLICE, 25)
    assert "family=birch" in found["url"]
    without = [of["slices"][TOXIC] for of in found["entries"] if not isinstance(of["slices"][TOXIC], float)]
    assert without == [{"reason": "Not one of its texts on this slice has a score, or no prompt has all k"}] * len(
        without
    )
    assert len(without) == sum(row[TOXIC] == "" for row in rows) > 0
    latex = exported(client, query, "latex")
    body = latex.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert [line.split(" & ")[1] for line in body] == [name for _, name in wanted]
    assert r"\toprule" in latex
    markdown = exported(client, query, "markdown").splitlines()[4:]
    assert [line.split(" | ")[1] for line in markdown] == [name for _, name in wanted]


def test_a_file_is_named_after_metric_version_measure_slice_and_day(client, wide):
    MetricVersion.objects.filter(metric=wide).update(published_at=DAY)
    response = client.get("/rankings.latex?metric=toxicity-profanity")
    name = "toxicity-profanity_v1_expected-max-toxicity_toxicity-all_2026-03-04.tex"
    assert response["Content-Disposition"] == f'attachment; filename="{name}"'
    assert client.get("/rankings.xls?metric=toxicity-profanity").status_code == 404
    assert client.get("/rankings.csv?metric=toxicity-perspective").status_code == 404
    assert client.post("/rankings.csv").status_code == 405


def test_a_name_that_a_spreadsheet_would_compute_is_only_a_name(client, wide):
    for number, name in enumerate(["=1+1", "+1", "-2+3", "@sum(A1)"]):
        LanguageModel.objects.filter(slug=f"model-{number}").update(name=name)
    rows = {row["slug"]: row for row in csv.DictReader(io.StringIO(exported(client, "?metric=toxicity-profanity")))}
    assert rows["model-0"]["model"] == "'=1+1"
    assert rows["model-2"]["model"] == "'-2+3"
    assert rows["model-3"]["model"] == "'@sum(A1)"
    assert not any(row["model"].startswith(("=", "@")) for row in rows.values())


def test_the_page_and_the_command_write_the_same_file(client, wide):
    out = io.StringIO()
    call_command("standings", "toxicity-profanity", "--format", "csv", stdout=out)
    assert out.getvalue().strip() == exported(client, "?metric=toxicity-profanity&columns=date,n,missing").strip()


@pytest.fixture
def four_days(db: None) -> Metric:
    """Two models under version 1, a third a day later, all four under version 2 on the day after that."""
    seed_metrics()
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    first, second = version_of(metric, "one"), version_of(metric, "two")
    for number, when in ((0, DAY), (1, DAY), (2, DAY + timedelta(days=1))):
        score_one(first, runs[number], number, {"toxicity": lambda x: x}, when)
    publish_standings(first)
    MetricVersion.objects.filter(pk=first.pk).update(published_at=DAY)
    score_all(second, runs, {"toxicity": np.sqrt}, DAY + timedelta(days=2))
    MetricVersion.objects.filter(pk=second.pk).update(published_at=DAY + timedelta(days=2))
    return metric


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("day", "number", "count", "anew"),
    [("2026-03-01", 1, 2, True), ("2026-03-02", 1, 3, False), ("2026-03-03", 2, 4, False), ("2999-01-01", 2, 4, False)],
)
def test_a_page_of_a_day_has_the_version_the_entries_and_the_ranks_of_then(
    client, four_days, monkeypatch, day, number, count, anew
):
    ranking = ranked(four_days, day=datetime.fromisoformat(day).date())
    if not anew:  # what stands already is not computed again
        monkeypatch.setattr(days, "rank_again", None)
    before = list(Standing.objects.order_by("pk").values())
    html = page(client, f"/rankings/?metric=rude&as_of={day}")
    assert ranks(html) == [(row.rank, row.model.name) for row in ranking]
    assert len(ranking) == count
    for row in ranking:
        assert f">{row.rank_low}–{row.rank_high}</span>" in html
    text = said(html)
    assert f"Metric version {number}" in text
    is_past = day != "2999-01-01"
    assert ("the ranking at the end of that day (UTC), under the version that was current then" in text) == is_past
    assert ("ranks are computed again among the entries of that day" in text) == anew
    assert list(Standing.objects.order_by("pk").values()) == before
    rows = list(csv.DictReader(io.StringIO(exported(client, f"?metric=rude&as_of={day}"))))
    assert [(int(row["rank"]), row["model"], int(row["rank_low"])) for row in rows] == [
        (row.rank, row.model.name, row.rank_low) for row in ranking
    ]


@pytest.mark.slow
def test_a_page_of_a_day_is_filtered_and_sorted_like_any_other(client, four_days):
    ranking = ranked(four_days, day=DAY.date())
    html = page(client, f"/rankings/?metric=rude&as_of=2026-03-01&q={ranking[1].model.slug}&sort=-rank")
    assert ranks(html) == [(ranking[1].rank, ranking[1].model.name)]
    assert "1 hidden by filters" in html
    assert ranks(page(client, "/rankings/?metric=rude&as_of=2026-03-01&sort=-rank")) == [
        (row.rank, row.model.name) for row in reversed(ranking)
    ]


def test_before_the_first_version_there_is_nothing_and_the_page_says_since_when(client, four_days):
    text = said(page(client, "/rankings/?metric=rude&as_of=2026-02-28"))
    assert "No such ranking stood at the end of that day: the first version was published on 1 March 2026." in text
    assert client.get("/rankings.csv?metric=rude&as_of=2026-02-28").status_code == 404


def test_a_day_before_the_first_version_of_a_provenance_names_that_version(client, four_days):
    figures = four_days.versions.get(number=2)
    MetricVersion.objects.filter(pk=figures.pk).update(provenance="published", source="A paper")
    text = said(page(client, "/rankings/?metric=rude&provenance=published&as_of=2026-03-02"))
    assert "the first version of published figures was published on 3 March 2026." in text
    MetricVersion.objects.filter(pk=figures.pk).update(published_at=None)
    text = said(page(client, "/rankings/?metric=rude&provenance=published&as_of=2026-03-02"))
    assert "No such ranking stood" not in text


def test_a_page_of_a_day_says_which_versions_it_is_of(client, four_days):
    text = said(page(client, "/rankings/?metric=rude&version=1&as_of=2026-03-04"))
    assert "the ranking at the end of that day (UTC), of version 1 as it stood then. Show it" in text
    MetricVersion.objects.filter(metric=four_days, number=2).update(provenance="published", source="A paper")
    text = said(page(client, "/rankings/?metric=rude&provenance=both&as_of=2026-03-04"))
    assert "under the versions that were current then. Show it" in text


def test_a_page_of_a_day_to_come_has_the_numbers_of_now(client, four_days):
    text = said(page(client, "/rankings/?metric=rude&as_of=2999-01-01"))
    assert "that day (UTC) had not ended when this page was made, so the numbers are those of that moment." in text
    assert "current then" not in text


@pytest.mark.slow
def test_a_withdrawn_model_leaves_the_pages_of_past_days(client, four_days):
    LanguageModel.objects.filter(slug="alder").update(access="withdrawn")
    assert "Alder" not in [name for _, name in ranks(page(client, "/rankings/?metric=rude&as_of=2026-03-02"))]
    assert f"k = {K}" in page(client, "/rankings/?metric=rude&as_of=2026-03-02")


ADDRESSES = [
    address(),
    address(page=2),
    address(family="Alder", q="model", size="1b-10b", sort=f"-slice:{TOXIC}"),
    address(as_of="2026-03-04"),
    address(as_of="2026-03-01"),
    address(provenance="both"),
    "/rankings.csv?metric=toxicity-profanity",
    "/rankings/?metric=safety-starter",
]


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_the_board(client, wide):
    seed_published()
    MetricVersion.objects.filter(metric=wide).update(published_at=DAY)

    def queries() -> list[int]:
        counts = []
        for one in ADDRESSES:
            with CaptureQueriesContext(connection) as caught:
                page(client, one)
            counts.append(len(caught))
        return counts

    before = queries()
    entered(wide, 60, first=130)
    assert queries() == before
    assert max(before) <= MOST_QUERIES


def test_only_the_rows_of_the_page_and_their_cells_are_loaded(client, wide):
    with CaptureQueriesContext(connection) as caught:
        page(client, address())
    cells = next(query["sql"] for query in caught if '"leaderboard_result"."slice" IN' in query["sql"])
    assert cells.split('"scoring_id" IN (')[1].split(")")[0].count(",") == 49
