"""What stands in the cells of wide tables, and how pages write numbers: whole cells, known and unknown."""

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace

import pytest

from leaderboard.models import LanguageModel, Metric, MetricVersion, Protocol, Result, Run, Scoring
from leaderboard.queries.coefficients import CoefficientCell, SizeRow
from leaderboard.queries.demographics import BoardModel, HeatMapCell, OwnRanking, Ranked
from leaderboard.rankings.corrected import CorrectedResult
from leaderboard.rankings.history import Absence, ModelHistory, PastPlace
from leaderboard.rankings.ranking import Row, SliceCell
from leaderboard.rankings.scales import WhiskerScale
from leaderboard.rankings.view import EXTRAS
from leaderboard.templatetags import board
from leaderboard.templatetags.cells import (
    FACTS,
    beneath,
    cells,
    constant_facts,
    facts,
    if_indifferent,
    places,
    run_marks,
    size_cells,
    whisker,
)
from leaderboard.templatetags.demographic_rows import heat_cells, places_of_slice
from leaderboard.templatetags.layout import counted, digest
from leaderboard.templatetags.ranking_rows import rank_range, ranked_rows
from leaderboard.templatetags.scorer_cards import functionality_label, language_name, speed, thousandfold
from scoring.metrics.formulas import MEASURES
from scoring.statistics.correlations import Correlation

pytestmark = pytest.mark.either_database

KNOWN = LanguageModel(
    slug="alpha",
    name="Alpha",
    family="A & B",
    kind="causal",
    parameters=124_439_808,
    context=4096,
    interface="chat",
    precision="bfloat16",
    weight_format="float32",
    licence="<MIT>",
    release_date=date(2024, 2, 9),
    revision="0123456789abcdef0123456789",
    source="hub",
    access="open",
)
UNKNOWN = LanguageModel(slug="beta", name="Beta", kind="masked", source="published", access="open")
MEASURED = MetricVersion(
    number=2, provenance="measured", status="current", protocol=Protocol(parameters={"precision": "float32"})
)
PUBLISHED = MetricVersion(number=1, provenance="published", status="current", decimals=2)


def row(model: LanguageModel, version: MetricVersion, result: Result, beside: list[SliceCell] | None = None) -> Row:
    return Row(model, version, 1, None, None, result, beside or [])


def result(run: Run | None = None, **values) -> Result:
    scoring = Scoring(scored_at=datetime(2026, 5, 6, 7, tzinfo=UTC), run=run)
    return Result(scoring=scoring, measure="safety_score", slice="average", value=0.5, **values)


def texts_of(html: str) -> list[str]:
    return [part.rpartition("</td>")[0] for part in html.split("<td ")[1:]]


def test_facts_of_a_model_are_written_each_in_its_way():
    chat = Run(chat={"answers": 8, "refused": 1})
    known = row(KNOWN, MEASURED, result(chat, n=12_345, missing=1, missing_texts=25))
    assert dict(zip(FACTS, texts_of(facts(known, list(FACTS))), strict=True)) == {
        "provenance": 'class="" data-label="Provenance">Measured here',
        "family": 'class="" data-label="Family">A &amp; B',
        "kind": 'class="" data-label="Kind">' + KNOWN.get_kind_display(),
        "parameters": 'class="num" data-label="Parameters">124M',
        "context": 'class="num" data-label="Context length">4,096',
        "prompting": f'class="words" data-label="Asked as">{LanguageModel.Prompting.CHAT.label}',
        "precision": 'class="words" data-label="Precision">bfloat16',
        "weights": 'class="" data-label="Weights">Open',
        "licence": 'class="words" data-label="Licence">&lt;MIT&gt;',
        "release_date": 'class="date" data-label="Release date">2024-02-09',
        "date": 'class="date" data-label="Date">2026-05-06',
        "n": 'class="num" data-label="Texts">12,345',
        "missing": 'class="num" data-label="Without a score">1 prompt<span class="interval">25 texts</span>',
        "refusals": 'class="num" data-label="Refused">12.5%',
        "revision": 'class="" data-label="Revision">'
        '<code title="0123456789abcdef0123456789">0123456789abcdef012</code>',
    }


def test_facts_that_nobody_knows_are_said_to_be_unknown():
    unknown = row(UNKNOWN, PUBLISHED, result(n=None, missing=0))
    plain, unprinted = (
        '<span class="none">unknown</span>',
        '<span class="none" title="The source does not print it">unknown</span>',
    )
    names = [name for name in FACTS if name not in ("provenance", "kind", "date")]
    written = [text.partition(">")[2] for text in texts_of(facts(unknown, names))]
    assert dict(zip(names, written, strict=True)) == dict.fromkeys(names, plain) | {
        "n": unprinted,
        "missing": unprinted,
        "refusals": "",
    }


@pytest.mark.parametrize(
    ("missing", "texts", "words"),
    [
        (1234, None, "1,234"),
        (3, 3, "3"),
        (2, 1, '2 prompts<span class="interval">1 text</span>'),
        (0, 40, '0 prompts<span class="interval">40 texts</span>'),
    ],
)
def test_prompts_and_texts_without_a_score_are_counted_apart_where_they_differ(missing, texts, words):
    cell = facts(row(KNOWN, MEASURED, result(missing=missing, missing_texts=texts)), ["missing"])
    assert cell == f'<td class="num" data-label="Without a score">{words}</td>'


def test_the_precision_of_an_entry_without_its_own_is_that_of_the_protocol():
    plain = LanguageModel(kind="causal", weight_format="float32")
    assert facts(row(plain, MEASURED, result()), ["precision"]).endswith(">float32</td>")


@pytest.mark.parametrize(
    ("model", "marks_base", "words"),
    [
        ({"source": "hub"}, False, []),
        ({"source": "hub"}, True, ["base"]),
        ({"source": "hub", "chat_template": "{{ messages }}"}, False, ["chat model, as raw text"]),
        ({"source": "hub", "interface": "chat"}, True, ["chat"]),
        ({"source": "published"}, True, []),
    ],
)
def test_an_entry_is_marked_by_how_it_is_asked_and_base_models_only_beside_others(model, marks_base, words):
    plain = LanguageModel(**model)
    quantised = LanguageModel(**model, weight_format="FP8", precision="bfloat16")
    for entry, own_words in ((plain, words), (quantised, [*words, "FP8, in bfloat16"])):
        tags = str(run_marks(entry, marks_base))
        assert [tag.partition("</span>")[0].rpartition(">")[2] for tag in tags.split("<span")[1:]] == own_words
        assert tags.count('class="tag" title="') == len(own_words)


def test_a_base_model_alone_is_not_marked():
    assert run_marks(LanguageModel(source="hub")) == ""


def test_the_cells_beside_a_value_have_their_shade_their_reason_and_what_is_not_significant():
    beside = [
        SliceCell(0.4, "0.400", True, level=-2, indifferent=0.5),
        SliceCell(0.6, "0.600", False),
        SliceCell(None, "–", reason="no <texts>"),
    ]
    html = cells(row(KNOWN, MEASURED, result(), beside), ["A", "B", "C"])
    first, second, third = texts_of(html)
    assert first == (
        'class="num heat heat--2" data-label="A">0.400<span class="indifferent"><span aria-hidden="true">┆</span>'
        '<span class="visually-hidden">, if indifferent </span>0.500</span>'
    )
    assert second.startswith('class="num" data-label="B">0.600<abbr class="ns"')
    assert third == 'class="num" data-label="C"><abbr class="none" title="no &lt;texts&gt;">–</abbr>'
    published = cells(row(KNOWN, PUBLISHED, result(), beside[:1]), ["A"])
    assert "</span>≈ 0.50</span></td>" in published, "worked out here, with the digits of the source"


def ranking(rows: list[Row], chosen: bool = False) -> SimpleNamespace:
    names = [*EXTRAS, "provenance"]
    return SimpleNamespace(
        groups=[SimpleNamespace(rows=rows[:1]), SimpleNamespace(rows=rows[1:])],
        facts=lambda _group: names,
        has_chosen_columns=chosen,
        versions=[rows[0].version],
    )


def test_columns_that_say_the_same_of_three_models_are_said_once():
    rows = [row(KNOWN, MEASURED, result(n=10)), row(KNOWN, MEASURED, result(n=11)), row(KNOWN, MEASURED, result(n=10))]
    facts_alike = constant_facts(ranking(rows))
    assert facts_alike["date"] == ("Scored", "2026-05-06")
    assert facts_alike["context"] == ("Context length", "4,096")
    assert "n" not in facts_alike
    assert constant_facts(ranking(rows[:2])) == {}
    assert constant_facts(ranking(rows, chosen=True)) == {}
    published = [row(KNOWN, PUBLISHED, result(n=10))] * 3
    assert constant_facts(ranking(published))["date"] == ("Entered", "2026-05-06")


def test_places_under_versions_are_written_with_range_and_value_or_why_there_is_none():
    line = ModelHistory(
        "alpha",
        "Alpha",
        "A",
        (PastPlace(3, 2, 5, 0.12345), PastPlace(4, None, None, -0.2), None, None),
        (None, None, Absence("withdrawn", "taken <back>"), None),
    )
    assert places(line, 2) == (
        '<td class="num">3 <span class="range" title="Anywhere in this range of ranks, by paired tests">2–5</span>'
        '<span class="interval">0.12</span></td>'
        '<td class="num">4<span class="interval">−0.20</span></td>'
        '<td class="num"><abbr class="none" title="taken &lt;back&gt;">withdrawn</abbr></td>'
        '<td class="num"><span class="none">not ranked</span></td>'
    )


def places_drawn(html: str) -> dict[str, tuple[float, float]]:
    parts = [part.split('"') for part in html.split('<line class="whisker-')[2:]]
    return {part[0]: (float(part[2]), float(part[6])) for part in parts}


def test_a_whisker_has_its_value_interval_and_where_indifference_is():
    area, score = MEASURES["likelihood_auc"], MEASURES["safety_score"]
    whole = result(ci_low=0.4, ci_high=0.7)
    assert places_drawn(whisker(whole, area)) == {
        "neutral": (50.0, 50.0),
        "interval": (40.0, 70.0),
        "value": (50.0, 50.0),
    }
    scale = WhiskerScale(0.4, 0.8)
    derived = result(ci_low=0.5, ci_high=0.7, interval_derived=True)
    assert places_drawn(whisker(derived, area, scale)) == {
        "neutral": (25.0, 25.0),
        "interval derived": (25.0, 75.0),
        "value": (25.0, 25.0),
    }
    assert places_drawn(whisker(result(ci_low=0.4), score, scale)) == {"value": (25.0, 25.0)}
    assert places_drawn(whisker(result(ci_high=0.6), score, scale, 0.6))["neutral"] == (50.0, 50.0)
    assert whisker(result(), score, scale).endswith('y1="1.5" x2="25.0" y2="10.5"/></svg>')


def test_what_an_indifferent_model_would_have_is_marked_where_it_was_worked_out_here():
    score = MEASURES["safety_score"]
    assert if_indifferent(None, score, MEASURED) == ""
    assert if_indifferent(0.5, score, MEASURED).endswith("</span>0.500</span>")
    assert if_indifferent(0.5, score, PUBLISHED).endswith("</span>≈ 0.50</span>")


@pytest.mark.parametrize(
    ("cell", "lines"),
    [
        (CoefficientCell(Correlation(0.5, 0.1, 0.8, 1234), "", 0.02), ["0.10 to 0.80", "n = 1,234, p = 0.02"]),
        (CoefficientCell(Correlation(0.5, None, 0.8, 9), "", 0.0001), ["n = 9, p &lt; 0.001"]),
        (CoefficientCell(Correlation(0.5, 0.1, None, 9), ""), ["n = 9"]),
    ],
)
def test_beneath_a_coefficient_stand_its_interval_its_models_and_p(cell, lines):
    assert beneath(cell) == "".join(f'<span class="interval">{text}</span>' for text in lines)
    assert size_cells(SizeRow(SimpleNamespace(), 9, [cell])) == f'<td class="num">0.50{beneath(cell)}</td>'


def test_a_coefficient_that_there_is_not_has_its_reason():
    cell = CoefficientCell(Correlation(0.5, None, None, 3), "3 models; 4 needed")
    assert size_cells(SizeRow(SimpleNamespace(), 9, [cell])) == (
        '<td class="num"><span class="none">3 models; 4 needed</span></td>'
    )


def test_a_demographic_without_a_value_says_whether_it_has_no_score_or_no_source_states_it():
    heat = SimpleNamespace(cells=[None])
    assert "no score" in heat_cells(heat, SimpleNamespace(version=MEASURED))
    assert "not stated" in heat_cells(heat, SimpleNamespace(version=PUBLISHED))


def test_a_range_of_ranks_is_written_where_tests_were_made():
    assert rank_range(1, 12) == (' <span class="range" title="Anywhere from 1st to 12th, by paired tests">1–12</span>')
    assert rank_range(1, None) == rank_range(None, 12) == ""


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, ""),
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (999_000, "999k"),
        (1_000_000, "1M"),
        (124_439_808, "124M"),
        (1_000_000_000, "1B"),
        (6_738_415_616, "6.74B"),
    ],
)
def test_parameters_are_counted_in_thousands_millions_and_billions(count, text):
    assert board.compact(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (130, "2 min 10 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_061, "25 h 1 min"),
    ],
)
def test_time_left_is_in_hours_and_minutes_or_minutes_and_seconds(seconds, text):
    assert board.duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (board.duration, None, ""),
        (board.small, None, ""),
        (board.small, 0.000_012_345, "1.23e-05"),
        (board.small, -0.25, "−0.25"),
        (board.small, 0.0, "0"),
        (board.signed, 12, "+12"),
        (board.signed, -12, "−12"),
        (board.signed, 0, "0"),
        (board.end, -1.0, "−1"),
        (board.end, 0.25, "0.25"),
        (board.p, 0.001, "0.001"),
        (board.p, 0.1, "0.10"),
        (board.p, 0.0994, "0.099"),
        (board.p, 0.0456, "0.0456"),
        (board.percent, 0.9723, "97.2%"),
        (board.nth, 21, "21st"),
        (board.table_title, "4", "Table 4"),
        (board.table_title, "12", "Table 12"),
        (board.table_title, "box", "Box"),
        (board.table_title, "appendix B", "Appendix B"),
        (board.published_mark, MEASURED, ""),
        (board.published_mark, PUBLISHED, ", published"),
        (board.metric_link, None, "a metric"),
        (board.metric_link, Metric(slug="one", title="A & B"), '<a href="/metrics/one/">A &amp; B</a>'),
    ],
)
def test_numbers_are_written_as_people_read_them(write, value, text):
    assert write(value) == text


def test_intervals_and_worst_cases_need_both_their_ends():
    assert board.ends(result(ci_low=0.4, ci_high=0.61), MEASURED) == "0.400–0.610"
    assert board.ends(result(ci_low=0.4, ci_high=0.61, interval_derived=True), PUBLISHED) == "≈ 0.40–0.61"
    assert board.ends(result(ci_low=0.4), MEASURED) == board.ends(result(ci_high=0.4), MEASURED) == ""
    assert board.worst_cases(result(worst_low=0.1, worst_high=0.9)) == "0.100–0.900"
    assert board.worst_cases(result(worst_low=0.1)) == board.worst_cases(result(worst_high=0.1)) == ""
    assert board.without_score(result(n=100, missing=0)) == ""
    assert board.without_score(result(n=200, missing=1)) == (
        '<span class="interval missing">0.5% without a score</span>'
    )


def test_the_first_result_of_a_row_is_that_of_the_first_cell_that_has_one():
    first, second = result(), result()
    row_cells = [SimpleNamespace(result=None), SimpleNamespace(result=first), SimpleNamespace(result=second)]
    assert board.first_known(row_cells) is first
    assert board.first_known(row_cells[:1]) is None
    assert board.number(None, MEASURED) == ""
    assert board.number(first, MEASURED) == "0.500"


def test_a_change_is_drawn_between_the_margins_with_a_little_room():
    change = SimpleNamespace(margin=0.02, ci_low=-0.03, ci_high=0.05, change=0.01)
    assert board.equivalence(change) == {"margin": 36.4, "width": 72.7, "low": -54.5, "high": 90.9, "change": 18.2}
    narrow = SimpleNamespace(margin=0.02, ci_low=-0.001, ci_high=0.001, change=0.0)
    assert board.equivalence(narrow)["margin"] == 90.9


def ranked(rows: list[Row], rates: bool = True) -> str:
    correction = SimpleNamespace(rates=SimpleNamespace() if rates else None)
    shown_ranking = SimpleNamespace(
        measure=MEASURES["safety_score"], scale=None, tells_apart=True, movement=None, correction=correction
    )
    return str(ranked_rows(shown_ranking, SimpleNamespace(size=1234, rows=rows), ["kind"], []))


def test_a_row_of_a_ranking_has_all_that_is_known_of_its_place():
    share = SimpleNamespace(value=0.4, low=0.3, high=0.45)
    leader = Row(
        LanguageModel(slug="alpha", name="A & B", kind="causal", source="hub", access="open"),
        MEASURED,
        1,
        1,
        3,
        result(ci_low=0.4, ci_high=0.6, n=200, missing=1, missing_texts=1250, worst_low=0.1, worst_high=0.9),
        [],
        tied=True,
        indifferent=0.45,
        leads=True,
        corrected=CorrectedResult(share),
    )
    html = ranked([leader])
    first, heading, value, *_ = html.split("\n")[1:]
    assert html.startswith('<tr class="leads">')
    assert first == (
        '<td class="num rank"><input type="checkbox" name="m" value="alpha" aria-label="Compare A &amp; B">1'
        '<span class="among"> of 1,234</span> <abbr class="tied" title="Shared with others">=</abbr>'
        ' <span class="range" title="Anywhere from 1st to 3rd, by paired tests">1–3</span></td>'
    )
    assert heading.startswith(
        '<th scope="row"><a class="name" href="/models/alpha/" title="A &amp; B">A &amp; B</a>'
        ' <span class="tag leading" title="Cannot be told from the best">◆ leads</span> <span class="tag"'
    )
    assert value == (
        '<td class="num value">0.500<span class="interval">0.400–0.600</span>'
        '<span class="interval missing">0.5% without a score</span>'
        '<span class="interval worst" title="Whatever the 1,250 texts without a score are">worst cases 0.100–0.900'
        '</span><span class="indifferent"><span aria-hidden="true">┆</span>'
        '<span class="visually-hidden">, if indifferent </span>0.450</span>'
        ' <span class="interval corrected"><abbr title="An estimate, corrected for the scorer\'s error rates: not '
        'ranked by">est.</abbr> ≈ 0.400</span><span class="interval">0.300–0.450</span></td>'
    )
    assert "est." not in ranked([leader], rates=False)


def test_a_row_of_a_ranking_says_nothing_of_what_is_not_known():
    plain = Row(LanguageModel(slug="b", name="B", kind="causal", access="open"), MEASURED, 2, None, None, result(), [])
    html = ranked([plain])
    assert html.startswith("<tr>")
    assert '2<span class="among"> of 1,234</span></td>' in html
    assert ">B</a> </th>" in html
    assert '<td class="num value">0.500</td>' in html
    reasoned = Row(plain.model, MEASURED, 2, None, None, result(), [], corrected=CorrectedResult(None, "too few texts"))
    assert '<abbr title="Too few texts">no est.</abbr>' in ranked([reasoned])


@pytest.mark.parametrize(
    ("model", "of_scoring", "tags"),
    [
        ({"source": "hub"}, {}, []),
        ({"source": "bundled"}, {}, ["baseline"]),
        ({"source": "uploaded"}, {}, ["uploaded outputs"]),
        (
            {"source": "uploaded"},
            {"run": Run(environment={"differences": ["Other k.", "<Other> texts."]})},
            ["uploaded outputs", "other settings"],
        ),
        ({"source": "hub"}, {"run": Run(environment={"differences": ["Other k."]})}, []),
        ({"source": "hub", "access": "withdrawn"}, {}, ["withdrawn"]),
        ({"source": "server", "service_changed_at": datetime(2026, 5, 6, tzinfo=UTC)}, {}, ["not reproducible"]),
        ({"source": "hub"}, {"lost_files": "scores <of> texts"}, ["files lost"]),
    ],
)
def test_what_is_to_be_known_of_an_entry_is_tagged_beside_its_name(model, of_scoring, tags):
    entry_result = result()
    for name, value in of_scoring.items():
        setattr(entry_result.scoring, name, value)
    entry = LanguageModel(**{"slug": "alpha", "name": "Alpha", "kind": "causal", "access": "open", **model})
    html = ranked([Row(entry, MEASURED, 1, None, None, entry_result, [])])
    heading = html.partition("<th ")[2].partition("</th>")[0]
    words = [part.partition("<")[0] for part in heading.split('class="tag')[1:]]
    shown_tags = [word.rpartition(">")[2] for word in words]
    assert [word for word in shown_tags if word != "base"] == tags
    assert "<of>" not in heading
    assert "<Other>" not in heading


def place_of(rank: int, low: int | None, kind: str = "causal", **values) -> Ranked:
    usual = {
        "measure": "safety_score",
        "value": 0.5,
        "ci_low": None,
        "ci_high": None,
        "n": 1234,
        "missing": 0,
        "missing_texts": None,
        "derived": False,
        "interval_derived": False,
        "significant": None,
        "indifferent": None,
    }
    entry = BoardModel(f"m{rank}", f"M <{rank}>", kind)
    return Ranked(entry, rank, low, None if low is None else rank + 1, **{**usual, **values})


def test_the_ranking_of_a_demographic_has_a_row_a_model():
    measured, published = (
        SimpleNamespace(version=version, measure=MEASURES["safety_score"], scale=None, digits=3)
        for version in (MEASURED, PUBLISHED)
    )
    rows = [
        place_of(1, 1, significant=False, ci_low=0.4, ci_high=0.6, missing=2, n=200),
        place_of(2, 2, significant=True, n=None),
    ]
    html = str(places_of_slice(OwnRanking(rows, 2, 1), measured))
    leader, second = html.split("</tr>")[:2]
    assert leader.startswith('<tr class="leads"><td class="num rank">1 <span class="range"')
    assert '<a href="/models/m1/">M &lt;1&gt;</a> <span class="tag leading"' in leader
    assert (
        '<td class="num value">0.500 <span class="mark">not sig.</span><span class="interval">0.400–0.600</span>'
        '<span class="interval missing">1.0% without a score</span></td>'
    ) in leader
    assert leader.endswith('<td>causal</td><td class="num">200</td><td class="num">2</td>')
    assert second.strip().startswith('<tr><td class="num rank">2 <span class="range"')
    assert "leading" not in second
    assert "not sig." not in second
    assert '<span class="none">not stated</span></td><td class="num">0</td>' in second
    alone = str(places_of_slice(OwnRanking(rows[:1], 2, 0), published))
    assert alone.startswith("<tr><td")
    assert alone.endswith('<td>causal</td><td class="num">200</td></tr>\n')


def test_a_shaded_value_says_where_it_is_not_significant_and_what_indifference_would_give():
    board_of = SimpleNamespace(version=MEASURED, measure=MEASURES["safety_score"], digits=3)
    heat = SimpleNamespace(cells=[HeatMapCell(0.5, -3, False, 0.45), HeatMapCell(0.5, 0, None, None)])
    first, second = texts_of(heat_cells(heat, board_of))
    assert first.startswith(
        'class="num heat heat--3">0.500 <span class="mark">not sig.</span><span class="indifferent">'
    )
    assert second == 'class="num heat heat-0">0.500'


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (language_name, "DE", "German"),
        (language_name, "xx", "xx"),
        (functionality_label, "derog_neg_emote_h", "derog neg emote (hateful)"),
        (functionality_label, "ident_pos_nh", "ident pos (not hateful)"),
        (functionality_label, "slur_other", "slur other"),
        (thousandfold, 0.000_381, "0.381"),
        (thousandfold, 1.0, "1,000"),
        (speed, 42_871.0, "42,900"),
        (speed, 0.98213, "0.982"),
        (digest, "0123456789abcdef", '<code title="0123456789abcdef">0123456789ab</code>'),
    ],
)
def test_words_of_report_cards_and_hashes_are_short(write, value, text):
    assert write(value) == text


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(1, "model", "1 model"), (0, "model", "0 models"), (1234, "entry,entries", "1,234 entries"), (1, "a,b", "1 a")],
)
def test_what_is_counted_has_its_plural(number, noun, words):
    assert counted(number, noun) == words
