"""Samples: none before they are asked for, then a few that the scores choose, always the same."""

import re

import pyarrow as pa
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import EvaluationSet, LanguageModel
from leaderboard.services import artefacts
from leaderboard.services.publish import publish_standings
from scoring.artefacts import SCHEMAS
from tests.leaderboard.conftest import CAUSAL
from tests.leaderboard.living import lost
from tests.leaderboard.stored import metric_of, runs_on, score_all, true_scores, version_of
from tests.leaderboard.test_demographics import page, said
from tests.leaderboard.test_profiles import own

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

ADDRESS = "/models/alder/samples/"
LIKELY = f"/models/{CAUSAL}/samples/?metric=safety-starter"


@pytest.fixture
def scored(db: None):
    """Four models' continuations of twelve prompts, scored; the first one's scoring."""
    metric = metric_of("stored", "profanity")
    attributes = {"toxicity": lambda true: true, "insult": lambda true: 1 - true}
    return score_all(version_of(metric, "one"), runs_on(metric), attributes)[0]


def shown(html: str) -> list[tuple[float, int, str]]:
    """Score, place and text of each sample, in their order."""
    items = re.findall(r"<li>\s*<p class=\"meta\">(.*?)</p>\s*(<details.*?</details>)", html, re.S)
    found = []
    for head, covered in items:
        value, place = re.search(r"([0-9.]+)</strong>, place ([0-9,]+) of", head).groups()
        found.append((float(value), int(place.replace(",", "")), said(covered.split("</summary>")[1])))
    return found


def test_nothing_is_shown_before_it_is_asked_for(client, scored):
    outputs = [text for text in artefacts.load(scored.run.artefact)["text"].to_pylist() if text]
    prompts = artefacts.load(scored.metric_version.protocol.evaluation_set.artefact)["text"].to_pylist()
    for address in (ADDRESS, "/models/alder/"):
        html = page(client, address)
        assert not any(text in html for text in [*outputs, *prompts])
    html = page(client, ADDRESS)
    assert "Before you look" in html
    assert "?show=yes" in html
    notice = EvaluationSet.objects.get(pk=scored.metric_version.protocol.evaluation_set.pk).notice
    assert notice
    assert " ".join(notice.split()) in said(html)


def test_every_text_is_covered_and_search_engines_are_kept_out(client, scored):
    response = client.get(f"{ADDRESS}?show=yes")
    html = response.content.decode()
    assert len(shown(html)) == 10
    assert html.count('<details class="covered">') == 10
    assert "<details open" not in html
    uncovered = re.sub(r"<details.*?</details>", "", html, flags=re.S)
    assert "Alder on" not in uncovered
    assert "opening" not in uncovered
    assert response["X-Robots-Tag"] == "noindex, nofollow"
    assert '<meta name="robots" content="noindex, nofollow">' in html
    for part in (r"<title>(.*?)</title>", r'name="description" content="(.*?)"'):
        assert "Alder on" not in re.search(part, html)[1]


@pytest.mark.slow_cases
@pytest.mark.parametrize("attribute", ["toxicity", "insult"])
@pytest.mark.parametrize("order", ["highest", "lowest"])
def test_samples_are_the_texts_with_the_most_extreme_scores_with_their_prompts(client, scored, attribute, order):
    true = true_scores(0).astype(float)
    values = true if attribute == "toxicity" else 1 - true
    rows = sorted(range(len(values)), key=lambda row: -values[row] if order == "highest" else values[row])
    texts = artefacts.load(scored.run.artefact).to_pylist()
    found = []
    for number in (1, 2, 3, 4):
        found += shown(page(client, f"{ADDRESS}?show=yes&attribute={attribute}&order={order}&page={number}"))
    assert len(found) == len(rows) == 36
    for place, (row, (value, said_place, text)) in enumerate(zip(rows, found, strict=True), 1):
        assert said_place == place
        assert value == pytest.approx(values[row], abs=0.00006)
        prompt = texts[row]["prompt_id"].removeprefix("p")
        assert text == f"Prompt opening {prompt} Continuation {texts[row]['text']}"


def test_a_spread_goes_from_the_highest_to_the_lowest(client, scored):
    html = page(client, f"{ADDRESS}?show=yes&order=spread")
    assert shown(html)[0][1] == 1
    last = shown(page(client, f"{ADDRESS}?show=yes&order=spread&page=4"))[-1]
    assert last[1] == 36


def test_the_same_address_shows_the_same_texts(client, scored):
    address = f"{ADDRESS}?show=yes&order=spread"
    assert page(client, address) == page(client, address)


def test_finish_and_place_are_said_and_texts_are_escaped(client, scored):
    head = said(page(client, f"{ADDRESS}?show=yes"))
    assert "place 1 of 36" in head
    assert "ended by the model" in head
    assert "4 tokens" in head


def test_what_was_done_to_an_answer_of_a_chat_is_said(client, scored):
    rows = artefacts.load(scored.run.artefact).to_pylist()
    changes = {"refused": True, "reasoned": True, "echoed": True}
    answers = pa.Table.from_pylist([row | changes for row in rows], SCHEMAS["answers"])
    scored.run.artefact = artefacts.store(answers, "answers")
    scored.run.save()
    head = said(page(client, f"{ADDRESS}?show=yes"))
    assert "a refusal; its reasoning is left out; the prompt that it repeated is left out" in head


@pytest.mark.slow
def test_harmful_sentences_are_shown_with_their_likelihoods_the_likeliest_first(client, board, models):
    scoring = own(board, models[CAUSAL])
    rows = {row["id"]: row for row in artefacts.load(board.protocol.evaluation_set.artefact).to_pylist()}
    values = [
        (row["log_perplexity"], rows[row["id"]]["text"])
        for row in artefacts.load(scoring.artefact).to_pylist()
        if rows[row["id"]]["harmful"]
    ]
    assert not any(text in page(client, LIKELY) for _, text in values)
    for order, expected in (("lowest", sorted(values)), ("highest", sorted(values, reverse=True))):
        found = shown(page(client, f"{LIKELY}&show=yes&order={order}"))
        assert [value for value, _, _ in found] == pytest.approx([of for of, _ in expected[:10]], abs=0.0006)
        assert [text for _, _, text in found] == [" ".join(text.split()) for _, text in expected[:10]]


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    "query", ["metric=x", "show=x", "order=x", "attribute=x", "show=yes&page=5", "show=yes&page=x"]
)
def test_an_address_that_names_nothing_is_a_404(client, scored, query):
    assert client.get(f"{ADDRESS}?{query}").status_code == 404


@pytest.mark.slow
def test_files_that_are_gone_are_said_and_nothing_fails(client, scored):
    for artefact in (scored.artefact, scored.run.artefact, scored.metric_version.protocol.evaluation_set.artefact):
        with lost(artefact):
            html = page(client, f"{ADDRESS}?show=yes")
        assert "damaged or gone" in html
        assert "<blockquote>" not in html


@pytest.mark.slow
def test_scores_of_other_outputs_are_not_put_beside_these(client, scored):
    other = artefacts.load(scored.run.artefact)
    scored.run.artefact = artefacts.store(other.take(list(range(other.num_rows))[::-1]), "continuations")
    scored.run.save()
    assert "of other texts than the stored outputs" in page(client, f"{ADDRESS}?show=yes")


def test_texts_of_a_withdrawn_model_are_shown_to_nobody(client, scored):
    LanguageModel.objects.filter(slug="alder").update(access="withdrawn")
    publish_standings(scored.metric_version)
    html = page(client, f"{ADDRESS}?show=yes")
    assert "withdrawn: its texts are not shown" in html
    assert "Alder on" not in html


def test_models_without_texts_say_why(client, board):
    assert "published figures, whose texts" in said(page(client, "/models/hosseini-2023-gpt-2/samples/?show=yes"))
    LanguageModel.objects.create(slug="new", name="New", kind="causal", source="uploaded")
    assert "they come with its first evaluation" in said(page(client, "/models/new/samples/"))
    assert client.get("/models/nobody/samples/").status_code == 404
    assert client.post("/models/new/samples/").status_code == 405


@pytest.mark.slow
def test_queries_do_not_grow_with_what_is_stored(client, scored):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            page(client, f"{ADDRESS}?show=yes")
        return len(caught)

    before = queries()
    score_all(version_of(scored.metric_version.metric, "two"), runs_of(scored), {"toxicity": lambda true: true})
    assert queries() == before <= 12


def runs_of(scoring):
    """The runs of all entries of the scoring's version, by model."""
    entries = scoring.metric_version.scorings.select_related("run").order_by("model__slug")
    return [of.run for of in entries]
