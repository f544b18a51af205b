"""The documentation: it says what the code does, names what there is, and its examples come out."""

import functools
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings as board
from django.core.management import get_commands
from django.urls import resolve
from django.utils.html import escape

from leaderboard.numbers import MINUS
from leaderboard.queries.docs import (
    APP,
    METHODS,
    SETTINGS_FILE,
    chapters,
    commands,
    find_definition,
    glossary,
    settings_parts,
)
from leaderboard.queries.drawings import CellGrid
from leaderboard.services.seed import seed_metrics
from scoring.drift import Policy, Reference, alpha_of_check, compare, equivalence_margin, toxicity_measures
from scoring.drift.comparison import mcnemar_p
from scoring.drift.noise import BEYOND, REPLICATES, ROUNDING, SCORINGS
from scoring.drift.opening import BLIND_SHIFT
from scoring.language_models import tokenizer_rules
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.lexicon_frequency import measure_lexicon_frequency
from scoring.metrics.regard import Statements, measure_regard, toxicity_of_labels
from scoring.metrics.safety import Texts, measure_safety
from scoring.metrics.sentence_pairs import measure_pairs
from scoring.metrics.sentence_triples import measure_triples
from scoring.metrics.total_effect import measure_effects
from scoring.metrics.toxicity import measure_refusals, measure_toxicity
from scoring.scorers import example
from scoring.self_test import LIMITS
from scoring.statistics.area_bounds import conservative_interval
from scoring.statistics.auc import holm
from scoring.statistics.jackknife import leave_one_out, share_intervals
from scoring.statistics.proportions import wilson_interval
from scoring.statistics.ranks import ranks
from tests import hostile_hub
from tests.declared import harms, regard_labels
from tests.leaderboard.test_history import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

DEFINITIONS = [definition for chapter in chapters() for definition in chapter.definitions]
MEASURES = tuple(f"/docs/metrics/{definition.name}/" for definition in DEFINITIONS)
METHOD_PAGES = tuple(f"/docs/methods/{name}/" for name in METHODS)
GUIDES = (
    "/docs/operating/",
    "/docs/metrics/",
    "/docs/glossary/",
    "/docs/extending/",
    "/docs/changes/",
    "/docs/threats/",
    "/docs/papers/",
)
PAGES = ("/docs/", *GUIDES, "/docs/metrics/safety_score/", "/docs/methods/drift/")
# Places on the one page that measures and methods once shared: links to them still lead somewhere.
OLD_ANCHORS = (
    *("reading", "perplexity", "self-test", "intervals", "ranks", "agreement", "drift", "approximate-safety"),
    *("delong", "delong-p", "mann-whitney", "jackknife", "bootstrap", "wilson", "holm"),
    *("noise-floor", "changed", "material", "detectable", "described"),
)
Numbers = dict[str, Any]
ROOT = Path(board.BASE_DIR)


@pytest.fixture(scope="module")
def operating() -> str:
    """The source of the operating guide with its table of troubles."""
    return "".join((ROOT / "templates/docs" / name).read_text() for name in ("operating.html", "troubles.html"))


@pytest.fixture
def metrics(client) -> str:
    """The pages of all measures and methods, one after another."""
    return "".join(page(client, address) for address in ("/docs/metrics/", *MEASURES, *METHOD_PAGES))


def rows(html: str, table: str) -> list[list[str]]:
    """The body of the table of that id, as text."""
    body = html.split(f'id="{table}"', 1)[1].split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    found = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [[said(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in found]


def numbers(html: str, anchor: str) -> list[float]:
    """The numbers in the element of that id."""
    element = html.split(f'id="{anchor}">', 1)[1].split("<")[0].replace(MINUS, "-")
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", element)]


def worked(html: str) -> dict[str, str]:
    """Every number that an example of the page comes to."""
    return dict(re.findall(r'<data class="worked" value="([^"]+)">([^<]+)</data>', html))


@pytest.mark.parametrize("address", PAGES)
def test_every_page_is_there_for_everybody_and_kept(client, address, django_assert_max_num_queries):
    with django_assert_max_num_queries(3):
        response = client.get(address)
    assert response.status_code == 200
    assert response["ETag"]
    assert client.get(address, headers={"If-None-Match": response["ETag"]}).status_code == 304
    assert response.content.count(b"<h1") == 1


@pytest.mark.parametrize("address", [*PAGES, *MEASURES, *METHOD_PAGES])
def test_anchors_are_unique_and_every_link_within_the_documentation_has_its_place(client, address):
    html = page(client, address)
    anchors = re.findall(r' id="([^"]+)"', html)
    assert len(anchors) == len(set(anchors))
    main = html.split("<main", 1)[1].split("</main>", 1)[0]
    for link in re.findall(r'href="([^"]*#[^"]+)"', main):
        path, _, anchor = link.partition("#")
        assert f'id="{anchor}"' in (page(client, path) if path else html), link


@pytest.mark.slow
def test_the_contents_list_every_section(client):
    for address in (*GUIDES, *MEASURES, *METHOD_PAGES):
        html = page(client, address)
        contents = re.findall(r'href="#([^"]+)"', html.split('class="toc"', 1)[1].split("</nav>", 1)[0])
        assert contents == re.findall(r'<h2 id="([^"]+)"', html)


def test_the_documentation_is_found_from_every_page_and_from_about(client):
    seed_metrics()
    assert 'href="/docs/"' in page(client, "/rankings/").split("</header>", 1)[0]
    assert 'href="/docs/metrics/"' in page(client, "/about/").split("<main", 1)[1]


def test_every_command_of_the_board_is_documented_with_what_it_takes(client):
    table = {row[0]: row[1] for row in rows(page(client, "/docs/operating/"), "command-table")}
    assert set(table) == {name for name, app in get_commands().items() if app == APP}
    by_name = {command.name: command for command in commands()}
    for name, words in table.items():
        assert said(by_name[name].words.replace("`", "")) in re.sub(r" (?=[:,.;])", "", words)
    typed = [argument.typed for argument in by_name["add_metric"].arguments]
    assert typed[0] == "slug"
    assert "--scorer SCORER" in typed
    assert "--settings" not in " ".join(typed)
    assert [argument.optional for argument in by_name["add_metric"].arguments][:3] == [False, True, False]


def test_every_command_that_is_named_exists(client):
    for address in PAGES:
        named = set(re.findall(r"manage\.py ([a-z_]+)", said(page(client, address))))
        assert named <= set(get_commands())


def test_every_setting_is_documented_and_every_one_named_exists(client, operating):
    listed = set(re.findall(r"^#([A-Z][A-Z0-9_]+)=", SETTINGS_FILE.read_text(), re.MULTILINE))
    assert {name for part in settings_parts() for setting in part.settings for name, _ in setting.values} == listed
    html = page(client, "/docs/operating/")
    assert set(re.findall(r'id="setting-([A-Z0-9_]+)"', html)) == listed
    named = set(re.findall(r"<code>([A-Z]+(?:_[A-Z]+)+)(?:=[a-z]+)?</code>", operating))
    assert len(named) > 20
    assert named <= listed


def test_a_setting_has_its_default_and_the_words_above_it():
    found = {
        name: (default, of.words) for part in settings_parts() for of in part.settings for name, default in of.values
    }
    assert found["SUBMISSIONS_A_DAY"] == ("20", found["SUBMISSIONS_AT_ONCE"][1])
    assert found["LEASE_SECONDS"][0] == "60"
    assert "silent" in found["LEASE_SECONDS"][1]


def test_every_trouble_quotes_a_message_of_the_code(operating):
    sources = [path.read_text() for folder in ("leaderboard", "scoring") for path in (ROOT / folder).rglob("*.py")]
    quoted = [unescape(of) for of in re.findall(r'data-said="([^"]+)"', operating)]
    assert len(quoted) > 12
    for message in quoted:
        assert any(message in source for source in sources), message


def test_every_formula_is_listed_with_a_page_for_each_of_its_measures(client, metrics):
    assert len(chapters()) == len(FORMULAS)
    for chapter in chapters():
        keys = [measure.key for definition in chapter.definitions for measure in definition.measures]
        assert keys == list(chapter.formula.measures)
        assert f'<h2 id="{chapter.anchor}"' in page(client, "/docs/metrics/")
    assert metrics.count("<math") == metrics.count("alttext=") > 25


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.name)
def test_the_page_of_a_measure_defines_it_and_works_through_a_drawn_example(client, definition):
    html = page(client, definition.address)
    text = said(html)
    for sentence in (*definition.formula.in_words, *definition.formula.limits):
        assert sentence in text
    for measure in definition.measures:
        assert f'id="{measure.key}"' in html
        for words in (measure.explanation, measure.formula, measure.citation):
            assert words in text
    for term in ("Better", "Source", "Missing", "Interval"):
        assert f">{term}" in html
    drawing = definition.example.drawing
    svg = html.split('<figure class="drawing">', 1)[1].split("</figure>", 1)[0]
    assert f'<title id="drawing-title">{escape(drawing.title)}</title>' in svg
    assert said(drawing.caption) in said(svg)
    assert svg.count("<circle") + svg.count("<rect") + svg.count('class="span"') >= 3
    assert "style=" not in svg
    assert '<data class="worked"' in html


def test_a_measure_that_another_page_explains_leads_there(client):
    response = client.get("/docs/metrics/expected_max_toxicity_sd/")
    assert response.status_code == 302
    assert response["Location"] == "/docs/metrics/expected_max_toxicity/#expected_max_toxicity_sd"
    assert client.get("/docs/metrics/unheard_of/").status_code == 404
    assert client.get("/docs/methods/unheard_of/").status_code == 404


def test_addresses_of_the_former_single_page_still_lead_to_their_subject(client):
    html = page(client, "/docs/metrics/")
    keys = [key for formula in FORMULAS.values() for key in formula.measures]
    for anchor in (*OLD_ANCHORS, *keys, *(f"formula-{name}" for name in FORMULAS)):
        assert f'id="{anchor}"' in html, anchor


def test_the_parts_of_a_method_are_those_of_its_page(client):
    for method in METHODS.values():
        headings = re.findall(r'<h2 id="([^"]+)">(.*?) <a', page(client, f"/docs/methods/{method.name}/"))
        assert [(anchor, unescape(title)) for anchor, title in headings] == list(method.parts)


@pytest.mark.slow
def test_the_page_of_a_metric_leads_to_its_definitions(client):
    seed_metrics()
    for slug in ("safety-starter", "toxicity-profanity", "lexicon-starter", "regard"):
        links = re.findall(r'href="(/docs/metrics/[^"]+)"', page(client, f"/metrics/{slug}/"))
        assert links
        assert all(client.get(link, follow=True).status_code == 200 for link in links)


def test_the_glossary_gives_each_word_one_meaning_and_leads_on(client):
    html = page(client, "/docs/glossary/")
    entries = [entry for group in glossary() for entry in group.entries]
    assert len(entries) > 50
    assert len({entry.name for entry in entries}) == len({entry.meaning for entry in entries}) == len(entries)
    for entry in entries:
        assert f'id="{entry.key}"' in html
        assert said(entry.meaning) in said(html)
        path, _, anchor = entry.address.partition("#")
        assert not path or resolve(path)
        assert not anchor or f'id="{anchor}"' in page(client, path)


def test_a_word_of_the_glossary_is_found_by_the_search(client):
    seed_metrics()
    assert client.get("/search/?q=control+set")["Location"] == "/docs/glossary/#control-set"
    assert 'href="/docs/glossary/#control-set"' in page(client, "/search/?q=frozen+texts")


def grid_share(drawing: CellGrid) -> float:
    """What the cells of a grid come to."""
    values = [{"1": 1.0, "½": 0.5, "0": 0.0}[cell.text] for _, cells in drawing.rows for cell in cells]
    return sum(values) / len(values)


@pytest.mark.parametrize("name", ["likelihood_auc", "safety_score", "regard_safety_score", "regard_score"])
def test_the_cells_of_a_drawing_come_to_the_value_of_the_measure(client, name):
    definition = find_definition(name)
    shown = worked(page(client, definition.address))
    assert f"{grid_share(definition.example.drawing):.3f}" == shown[name]


def test_the_marks_of_a_drawing_stand_where_their_values_are(client):
    strip = find_definition("expected_max_toxicity").example.drawing
    assert [[mark.value for mark in row.marks if mark.look == "full"] for row in strip.rows[:2]] == [[0.7], [0.5]]
    assert strip.place(strip.low) < strip.place(0.5) < strip.place(strip.high) < strip.width
    assert strip.place(0.5) == pytest.approx((strip.left + strip.right) / 2)
    assert (
        f"{strip.lines[0][0]:.4f}"
        == worked(page(client, "/docs/metrics/expected_max_toxicity/"))["expected_max_toxicity"]
    )


def of_perplexity(html: str) -> Numbers:
    log_perplexity = -np.mean(numbers(html, "example-perplexity"))
    return {"log_perplexity": log_perplexity, "perplexity": math.exp(log_perplexity)}


def of_self_test(html: str) -> Numbers:
    engine, plain = (numbers(html, f"example-self-test-{side}")[0] for side in ("engine", "plain"))
    assert abs(engine - plain) < LIMITS["float32"]
    return {"self_test_difference": abs(engine - plain)}


def of_safety(html: str) -> Numbers:
    table = np.array([row[1:] for row in rows(html, "example-safety")], dtype=np.float64)
    harmful, perplexity, toxicity = table[:, 0] == 1, table[:, 1], table[:, 2]
    assert table[:, 3] == pytest.approx(perplexity / toxicity)
    everyone = np.ones(len(table), dtype=bool)
    texts = Texts([*"abcde"], harmful, toxicity, {"all": everyone}, harmful.astype(np.int64))
    found = {of.measure: of for of in measure_safety(texts, np.log(perplexity))}
    auc = found["likelihood_auc"]
    pairs = np.array([row[2:] for row in rows(html, "example-indifferent")], dtype=np.float64)
    assert (pairs @ [1, 0.5]).sum() / (len(pairs) * 20) == pytest.approx(found["safety_indifferent"].value)
    bounds = {"likelihood_auc ci_low": auc.ci_low, "likelihood_auc ci_high": auc.ci_high}
    keys = ("safety_score", "likelihood_auc", "safety_indifferent", "safety_excess")
    log_values = {
        f"log_perplexity_{name}{end}": float(summary(np.log(perplexity[harmful == is_harmful])))
        for name, is_harmful in (("harmful", True), ("benign", False))
        for end, summary in (("", np.mean), ("_sd", functools.partial(np.std, ddof=1)))
    }
    return {key: found[key].value for key in keys} | bounds | log_values


def of_benchmark(html: str) -> Numbers:
    likelihoods = np.array([row[1] for row in rows(html, "example-benchmark")], dtype=np.float64)
    return {"benchmark_perplexity": math.exp(-likelihoods.mean())}


def of_toxicity(html: str) -> Numbers:
    table = [
        [math.nan if cell == "none" else float(cell) for cell in row[1:]] for row in rows(html, "example-toxicity")
    ]
    scores, largest = np.array(table)[:, :2], np.array(table)[:, 2]
    assert np.nanmax(scores, axis=1) == pytest.approx(largest)
    identities = np.array([[0, 1], [0, 1], [0, 0], [0, 1]])
    found = {of.measure: of for of in measure_toxicity(scores[:, :, None], harms(["toxicity"]), identities)}
    worst = {
        f"{name} {end}": getattr(found[name], end)
        for name in ("expected_max_toxicity", "toxic_fraction")
        for end in ("worst_low", "worst_high")
    }
    return {name: of.value for name, of in found.items()} | worst


def of_refusals(html: str) -> Numbers:
    table = rows(html, "example-refusals")
    answers = np.array([[math.nan if cell == "none" else float(cell) for cell in row[1:]] for row in table])
    return {of.measure: of.value for of in measure_refusals(answers, harms(["toxicity"]))}


def of_lexicon(html: str) -> Numbers:
    matches = np.array([row[1:] for row in rows(html, "example-lexicon")], dtype=np.float64).reshape(2, 2, 2)
    return {of.slice: of.value for of in measure_lexicon_frequency(matches, ["a", "b"])}


def of_regard(html: str) -> Numbers:
    table = rows(html, "example-regard")
    toxicity = toxicity_of_labels(np.eye(len(table)), regard_labels(row[0] for row in table))
    perplexity = np.array([row[2] for row in table], dtype=np.float64)
    assert [float(row[1]) for row in table] == list(toxicity)
    assert [float(row[3]) for row in table] == pytest.approx(perplexity / toxicity)
    statements = Statements([*"abcde"], ["one"] * 5, [*"vwxyz"], toxicity)
    return {of.measure: of.value for of in measure_regard(statements, np.log(perplexity)) if of.slice == "one"}


def of_pairs(html: str) -> Numbers:
    table = rows(html, "example-pairs")
    shares = {}
    for name, column in (("masked", 3), ("causal", 4)):
        totals = np.array([row[column] for row in table], dtype=np.float64)
        for row, total in zip(table, totals, strict=True):
            words, values = re.sub(r"\[.*?\]", lambda cut: "* " * len(cut[0].split()), row[1]).split(), row[2].split()
            counted = [
                float(value) for word, value in zip(words, values, strict=True) if name == "causal" or word != "*"
            ]
            assert total == sum(counted)
        differing = totals[::2] - totals[1::2]
        shares[f"stereotype_share {name}"] = measure_pairs(differing, {"one": np.ones(3, dtype=bool)})[-1].value
    return shares


def of_triples(html: str) -> Numbers:
    table = rows(html, "example-triples")
    scores = np.array([row[1:] for row in table], dtype=np.float64)
    return {of.measure: of.value for of in measure_triples(scores, [row[0] for row in table], {})}


def of_effect(html: str) -> Numbers:
    table = np.array([row[1:] for row in rows(html, "example-effect")], dtype=np.float64)
    assert table[:, 1] / table[:, 0] == pytest.approx(table[:, 2])
    return {of.measure: of.value for of in measure_effects({"one": table[:, 2]})}


def of_jackknife(html: str) -> Numbers:
    toxic = np.array(numbers(html, "example-jackknife"))
    rows = np.column_stack([toxic, np.full(len(toxic), 4.0)])
    share = rows[:, :1].sum(axis=0) / rows[:, 1].sum()
    left_out = leave_one_out(rows, lambda sums: sums[..., :1] / sums[..., 1:])
    (low,), (high,) = share_intervals(share, left_out, np.array([float(len(toxic))]), np.array([4 * len(toxic)]))
    error = np.sqrt((len(toxic) - 1) / len(toxic) * ((left_out - share) ** 2).sum())
    return {"jackknife error": error, "jackknife low": low, "jackknife high": high}


def of_intervals(html: str) -> Numbers:
    low, high = wilson_interval(*numbers(html, "example-wilson"))
    adjusted = holm(np.array(numbers(html, "example-holm")))
    least, most = conservative_interval(*numbers(html, "example-conservative"))
    bounds = {"wilson low": low, "wilson high": high, "conservative low": least, "conservative high": most}
    return bounds | {f"holm {place}": p for place, p in enumerate(adjusted)}


def of_drift(html: str) -> Numbers:
    policy = Policy()
    up, down = map(int, numbers(html, "example-mcnemar"))
    table = rows(html, "example-noise")
    opening, now = (
        np.array([row[column].split() for row in table], dtype=np.float64).T[:, :, None] for column in (1, 3)
    )
    reference = Reference(opening)
    assert reference.centre[:, 0].tolist() == [float(row[2]) for row in table]
    assert reference.variance == pytest.approx(0.0004)
    report = compare(reference, now, ["a"], [()] * 4, toxicity_measures(harms(["a"])), ("", ""), policy=policy)
    shift, error = report.movements[0].mean_change, report.movements[0].error
    return {
        "shift": shift,
        "shift error": error,
        "shift ratio": shift / error,
        "flips": policy.material_flips(int(numbers(html, "example-flips-n")[0])),
        "margin": equivalence_margin(np.array(numbers(html, "example-margin"))),
        "mcnemar": mcnemar_p(up, down),
        **{f"alpha {check}": alpha_of_check(policy.alpha, check) for check in (1, 2)},
    }


EXAMPLES = (
    *(of_perplexity, of_self_test, of_safety, of_benchmark, of_toxicity, of_refusals, of_lexicon, of_regard, of_pairs),
    *(of_triples, of_effect, of_jackknife, of_intervals, of_drift),
)


@pytest.mark.slow_cases
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_comes_out_to_the_digits_that_the_page_prints(metrics, example):
    shown = worked(metrics)
    for name, value in example(metrics).items():
        digits = len(shown[name].partition(".")[2])
        assert shown[name] == f"{value:.{digits}f}", name


def test_every_number_that_is_worked_out_is_one_of_an_example(metrics):
    assert set(worked(metrics)) == {name for example in EXAMPLES for name in example(metrics)}


def test_the_example_of_ranks_comes_out(metrics):
    table = np.array([row[1:] for row in rows(metrics, "example-ranks")], dtype=np.float64)
    ranges = ranks(table[:, 0], np.diag(table[:, 1]), "higher")
    assert [[rank.rank, rank.low, rank.high] for rank in ranges] == table[:, 2:].tolist()


def test_the_limits_of_drift_are_those_of_the_policy(client):
    drift = said(page(client, "/docs/methods/drift/"))
    policy = Policy()
    for words in (
        f"crosses the threshold θ = {policy.threshold:g}",
        f"{policy.least_flips} or more, and {policy.flip_share:.0%} of the texts",
        f"Above {policy.mean_difference:g}",
        f"The {policy.confidence:.0%} interval",
        f"α = {policy.alpha:g}",
        f"scored {REPLICATES} times",
        f"scores each text {SCORINGS} times",
        f"no more than {ROUNDING:.5f}",
        f"more than {BEYOND:g} standard deviations",
        f"a mean shift of {BLIND_SHIFT * policy.mean_difference:g} (twice",
    ):
        assert words in drift


@pytest.mark.slow
def test_the_listing_is_the_file_that_runs(client):
    html = page(client, "/docs/extending/")
    listing = unescape(html.split("<pre><code>", 1)[1].split("</code></pre>", 1)[0])
    assert listing == Path(example.__file__).read_text()


def test_the_threats_list_every_part_of_a_tokenizer_that_is_reviewed(client):
    html = page(client, "/docs/threats/")
    parts = tokenizer_rules.NORMALIZERS | tokenizer_rules.PRE_TOKENIZERS
    assert [part for part in sorted(parts) if f"<code>{part}</code>" not in html] == []


def test_every_test_that_the_threats_name_exists(client):
    table = rows(page(client, "/docs/threats/"), "threat-table")
    assert len(table) >= 15
    for threat, _, tests in table:
        cited = re.findall(r"(tests/[a-z_/]+\.py)(?:::(test_\w+))?(?: \((\w+)\))?", tests)
        assert cited, threat
        for path, name, group in cited:
            assert f"\ndef {name}(" in (ROOT / path).read_text() if name else (ROOT / path).is_file(), (path, name)
            assert group in ("", *hostile_hub.GROUPS)
