"""A rank is read with its population, and is the same number wherever a reader or a program meets it."""

import csv
import io
import json
import re

import pytest
from django.core.management import call_command
from django.test import Client

from leaderboard.models import LanguageModel, Metric, Standing
from leaderboard.rankings.places import places_of
from leaderboard.rankings.populations import leading_count, population_in_words
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL
from tests.leaderboard.test_history import table
from tests.leaderboard.test_profiles import again, own
from tests.leaderboard.test_rankings import page, ranks, said

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

STARTER = "safety-starter"
RANK = r"(\d+) of (\d+ (?:causal |masked |permutation )?models?(?: of all kinds)?)"
Asked = tuple[Client, LanguageModel, str]  # a reader, of which model, in which metric


def words_in(text: str) -> set[str]:
    """Every rank with its population in a text."""
    return {" of ".join(found) for found in re.findall(RANK, text)}


def in_ranking(client: Client, model: LanguageModel, address: str) -> set[str]:
    """The rank of the table's row, of the population that its caption names."""
    html = page(client, address)
    found = set()
    for part in html.split("<table")[1:]:
        caption = said(part.split("<caption>")[1].split("</caption>")[0])
        title, size = re.match(r"([A-Za-z ]*models)[A-Za-z ]* (\d+)", caption).groups()
        kind = title.removesuffix("odels").lower().removesuffix("m")
        plural = "" if size == "1" else "s"
        found |= {f"{rank} of {size} {kind}model{plural}" for rank, name in ranks(part) if name == model.name}
    return found


def on_the_ranking_page(client: Client, model: LanguageModel, metric: str) -> set[str]:
    return in_ranking(client, model, f"/rankings/?metric={metric}&provenance=measured")


def embedded(client: Client, model: LanguageModel, metric: str) -> set[str]:
    return in_ranking(client, model, f"/embed/?metric={metric}&provenance=measured")


def in_csv(client: Client, model: LanguageModel, metric: str) -> set[str]:
    rows = csv.DictReader(io.StringIO(client.get(f"/rankings.csv?metric={metric}").content.decode("utf-8-sig")))
    return {words_of(row) for row in rows if row["slug"] == model.slug}


def words_of(row: dict) -> str:
    return f"{row['rank']} of {population_in_words(int(row['population_size']), row['population'], by_kind=True)}"


def in_json(client: Client, model: LanguageModel, metric: str) -> set[str]:
    entries = client.get(f"/rankings.json?metric={metric}").json()["entries"]
    return {words_of(row) for row in entries if row["slug"] == model.slug}


def in_markdown(client: Client, model: LanguageModel, metric: str) -> set[str]:
    lines = client.get(f"/rankings.markdown?metric={metric}").content.decode().splitlines()
    heads, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    found = [dict(zip([head.replace("\\", "") for head in heads], row, strict=True)) for row in rows[1:]]
    return {f"{row['rank']} of {row['among']}" for row in found if row["model"].replace("\\", "") == model.name}


def on_the_terminal(client: Client, model: LanguageModel, metric: str) -> set[str]:
    file = io.StringIO()
    call_command("standings", metric, format="csv", stdout=file)
    return {words_of(row) for row in csv.DictReader(io.StringIO(file.getvalue())) if row["slug"] == model.slug}


def in_the_api(client: Client, model: LanguageModel, metric: str) -> set[str]:
    items = client.get(f"/api/v1/metrics/{metric}/standings?limit=1000").json()["items"]
    return {words_of(row) for row in items if row["slug"] == model.slug}


def in_rank_changes(client: Client, model: LanguageModel, metric: str) -> set[str]:
    found = client.get(f"/api/v1/metrics/{metric}/rank-changes?population={model.kind}").json()
    row = next(row for row in found["items"] if row["model"] == model.name)
    size = found["to"]["population_size"]
    return {f"{row['to_board_rank']} of {population_in_words(size, found['population'], by_kind=True)}"}


def on_a_badge(client: Client, model: LanguageModel, metric: str) -> set[str]:
    return words_in(client.get(f"/badges/{model.slug}/{metric}.svg").content.decode())


def on_its_own_page(client: Client, model: LanguageModel, metric: str) -> set[str]:
    html = page(client, f"/models/{model.slug}/")
    return words_in(said(html.split(f'id="profile-{metric}-')[1].split("</section>")[0]))


def in_compare(client: Client, model: LanguageModel, metric: str) -> set[str]:
    html = page(client, f"/compare/?metric={metric}&" + "&".join(f"m={of}" for of in (CAUSAL, OTHER_CAUSAL, MASKED)))
    row = next(row for row in table(html, "Table of values") if row[0] == model.name)
    return words_in(re.sub(r" \d+–\d+", "", " | ".join(row)))


def found_by_compare(client: Client, model: LanguageModel, metric: str) -> set[str]:
    html = page(client, f"/compare/?metric={metric}&q={model.name}")
    chips = html.split('aria-labelledby="offered"')[1].split("</ul>")[0]
    return words_in(said(next(chip for chip in chips.split("<li>") if f"Add {model.name}" in chip)))


def in_the_history(client: Client, model: LanguageModel, metric: str) -> set[str]:
    html = page(client, f"/history/?metric={metric}&kind={model.kind}")
    rank = next(row for row in table(html, "Table of changes") if row[0] == model.name)[2]
    numbers = next(row for row in table(html, "Table of ranks under each version") if row[0] == model.name)[-1]
    size = re.search(r"Rank of (\d+), v2", html)[1]
    found = {f"{rank} of {size} {model.kind} model{'' if size == '1' else 's'}"}
    drawn = words_in(" ".join(re.findall(rf"{model.name}: rank [^\"]*", html)))
    assert numbers.startswith(rank)
    return found | drawn


def among_demographics(client: Client, model: LanguageModel, metric: str) -> set[str]:
    html = page(client, f"/demographics/?metric={metric}&kind={model.kind}&demographic=average")
    part = html.split('aria-label="Ranking of Average"')[1]
    size = re.search(r"Rank of (\d+)", part)[1]
    return {
        f"{rank} of {size} {model.kind} model{'' if size == '1' else 's'}"
        for rank, name in ranks(part)
        if name == model.name
    }


def as_submissions_and_letters_say(client: Client, model: LanguageModel, metric: str) -> set[str]:
    version = Metric.objects.get(slug=metric).current_version()
    return {places_of(model, [version])[version.pk].words}


EVERYWHERE = (
    on_the_ranking_page,
    embedded,
    in_csv,
    in_json,
    in_markdown,
    on_the_terminal,
    in_the_api,
    in_rank_changes,
    on_a_badge,
    on_its_own_page,
    in_compare,
    found_by_compare,
    in_the_history,
    among_demographics,
    as_submissions_and_letters_say,
)


@pytest.fixture(scope="module")
def _two_versions(lasting_board: None, django_db_blocker) -> None:
    with django_db_blocker.unblock():
        board = Metric.objects.get(slug=STARTER)
        again(own(board, LanguageModel.objects.get(name=CAUSAL)))


@pytest.mark.usefixtures("_two_versions")
@pytest.mark.parametrize("name", [CAUSAL, MASKED])
@pytest.mark.parametrize("place", EVERYWHERE, ids=lambda place: place.__name__)
def test_a_model_has_one_rank_of_one_population_everywhere(client, board, place, name):
    model = LanguageModel.objects.get(name=name)
    ranked = Standing.objects.filter(
        metric_version=board.current_version(), measure=board.measure, slice="average", population=model.kind
    )
    count = {CAUSAL: 2, MASKED: 1}[name]
    expected = f"{ranked.get(model=model).rank} of {count} {model.kind} model{'s' if count > 1 else ''}"
    assert ranked.count() == count
    assert place(client, model, STARTER) == {expected}


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("the ranking", "/rankings/?metric=safety-toxigen&provenance=published&kind=all"),
        ("its download", "/rankings.json?metric=safety-toxigen&provenance=published&kind=all"),
        ("the API", "/api/v1/metrics/safety-toxigen/standings?population=all&limit=1000"),
    ],
)
def test_a_rank_among_all_kinds_says_that_it_is(client, board, place, address):
    if place == "the ranking":
        assert "Models of all kinds 24" in said(page(client, address))
        return
    answer = json.loads(client.get(address).content)
    rows = answer.get("entries") or answer["items"]
    assert {(row["population"], row["population_size"]) for row in rows} == {("all", 24)}
    assert population_in_words(24, "all", by_kind=True) == "24 models of all kinds"
    assert population_in_words(37, "all", by_kind=False) == "37 models"


@pytest.mark.slow
def test_nobody_leads_who_is_alone_nor_where_all_are_alike(client, board):
    assert [leading_count(first, count) for first, count in ((1, 1), (3, 3), (2, 3), (0, 5))] == [0, 0, 2, 0]
    alone = page(client, f"/rankings/?metric={STARTER}&provenance=measured&kind=masked")
    assert ranks(alone) == [(1, MASKED)]
    assert "leads" not in alone
    assert "leading group" not in said(alone)
    assert "none can be told from the best" not in said(alone)
    standings = Standing.objects.filter(metric_version=board.current_version(), measure=board.measure)
    standings.filter(population="causal").update(rank_low=1, rank_high=2)
    alike = page(client, f"/rankings/?metric={STARTER}&provenance=measured&kind=causal")
    assert "none can be told from the best" in said(alike)
    assert "leads" not in alike
    assert "leading group" not in said(page(client, "/compare/?metric=safety-starter"))
    standings.filter(population="causal", rank=2).update(rank_low=2)
    first, *_ = ranks(apart := page(client, f"/rankings/?metric={STARTER}&provenance=measured&kind=causal"))
    assert apart.count("◆ leads") == 1
    assert "leading group of 1" in said(apart)
    offers = said(page(client, "/compare/?metric=safety-starter"))
    assert f"{first[1]} rank 1 of 2 causal models, leading group" in offers
