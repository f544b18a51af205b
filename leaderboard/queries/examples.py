"""The examples of the documentation: a drawing of each measure, made of the numbers in its table."""

import math
from collections.abc import Callable
from statistics import fmean, stdev

from leaderboard.numbers import plus
from leaderboard.queries.drawings import Cell, CellGrid, Drawing, Look, Mark, Strip, StripRow, compare_pairs
from leaderboard.queries.example_tables import (
    BENCHMARK,
    EFFECT,
    INDIFFERENT,
    LEXICON,
    PAIRS,
    REFUSALS,
    REGARD,
    SAFETY,
    TOXICITY,
    TRIPLES,
    ExampleTable,
)

THRESHOLD = 0.5


def _number(text: str) -> float:
    return math.nan if text == "none" else float(text)


def _column(table: ExampleTable, place: int) -> list[float]:
    return [_number(row[place]) for row in table.rows]


def _sentences(place: int) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The harmful and the benign sentences, each by the value of a column."""
    rows = [(row[0], row[1], float(row[place])) for row in SAFETY.rows]
    harmful = [(f"{name}: {value:g}", value) for name, harm, value in rows if harm == "1"]
    benign = [(f"{name.split()[0]}: {value:g}", value) for name, harm, value in rows if harm == "0"]
    return harmful, benign


def _draw_pairs(
    title: str, unit: str, names: tuple[str, str], harmful: list[tuple[str, float]], benign: list[tuple[str, float]]
) -> CellGrid:
    cells = compare_pairs(harmful, benign)
    total = sum({"1": 1.0, "½": 0.5, "0": 0.0}[cell.text] for _, row in cells for cell in row)
    count = len(harmful) * len(benign)
    caption = (
        f"Each row is a {names[0]}, each column a {names[1]}, with its {unit}. A cell is 1 where the row's is larger, "
        f"½ where both are equal, else 0. The cells add up to {total:g} of {count}: {total / count:.3f}."
    )
    return CellGrid(title, caption, [label for label, _ in benign], cells, corner=unit)


def draw_likelihood_auc() -> CellGrid:
    """Which harmful sentences are less likely than which benign ones."""
    return _draw_pairs(
        "Six pairs by perplexity", "perplexity P", ("harmful sentence", "benign sentence"), *_sentences(2)
    )


def draw_safety_score() -> CellGrid:
    """The same pairs, by perplexity over toxicity."""
    return _draw_pairs("Six pairs by P / t", "P / t", ("harmful sentence", "benign sentence"), *_sentences(4))


def _indifferent() -> float:
    return fmean(float(count) + float(ties) / 2 for _, _, count, ties in INDIFFERENT.rows) / 20


def draw_safety_excess() -> Strip:
    """From the indifferent value to the score."""
    score = 3.5 / 6
    rows = [
        StripRow("indifferent", [Mark(_indifferent(), "open")], f"{_indifferent():.3f}"),
        StripRow("safety score", [Mark(score)], f"{score:.3f}"),
        StripRow("excess", [], f"{score - _indifferent():.3f}", (_indifferent(), score)),
    ]
    caption = "The excess is the distance from the indifferent value (open) to the safety score (filled)."
    return Strip("From the indifferent value to the score", caption, 0, 1, rows)


def draw_safety_indifferent() -> Strip:
    """The share of ordered pairs above each ratio of toxicities, and their mean."""
    rows = [
        StripRow(name, [Mark(share)], f"{share:.3f}", (0, share))
        for name, _, count, ties in INDIFFERENT.rows
        for share in [(float(count) + float(ties) / 2) / 20]
    ]
    caption = (
        "For the toxicities of each harmful and benign sentence: the share of the 20 ordered pairs whose ratio is "
        f"above theirs. The indifferent value is the mean of the six shares, {_indifferent():.3f}."
    )
    return Strip("Shares of ordered pairs", caption, 0, 0.5, rows, [(_indifferent(), "mean")])


def draw_log_perplexity() -> Strip:
    """The logarithms of both labels, with mean and deviation."""
    rows = []
    looks: tuple[tuple[str, str, Look], ...] = (("harmful", "1", "full"), ("benign", "0", "open"))
    for name, harm, look in looks:
        values = [math.log(float(row[2])) for row in SAFETY.rows if row[1] == harm]
        mean, deviation = fmean(values), stdev(values)
        rows.append(StripRow(name, [Mark(value, look) for value in values], f"{mean:.2f}"))
        rows.append(
            StripRow("mean ± SD", [Mark(mean, "square")], f"± {deviation:.2f}", (mean - deviation, mean + deviation))
        )
    caption = (
        "Each circle is the log-perplexity of a sentence. The square beneath is the mean, "
        "the line one standard deviation either way."
    )
    return Strip("Log-perplexities of five sentences", caption, 1, 5, rows)


def draw_benchmark_perplexity() -> Strip:
    """The log-likelihoods of the tokens, and their mean."""
    values = _column(BENCHMARK, 1)
    mean = fmean(values)
    rows = [StripRow(row[0], [Mark(value)], f"{value:g}") for row, value in zip(BENCHMARK.rows, values, strict=True)]
    caption = (
        f"The log-likelihood of each token. Their mean is {mean:g}, and the perplexity is e to the power of {-mean:g}."
    )
    return Strip("Log-likelihoods of three tokens", caption, -4, 0, rows, [(mean, "mean")])


def _prompts(looks: Callable[[list[float], float], bool], note: Callable[[list[float]], str]) -> list[StripRow]:
    """Each prompt with its scores; full where `looks` says so of the scores of the prompt and one of them."""
    rows = []
    for name, first, second, _ in TOXICITY.rows:
        scores = [value for value in (_number(first), _number(second)) if not math.isnan(value)]
        marks = [Mark(score, "full" if looks(scores, score) else "open") for score in scores]
        if len(scores) == 2 and scores[0] == scores[1]:  # two texts with one score stand side by side
            marks = [Mark(scores[0] - 0.012, marks[0].look), Mark(scores[0] + 0.012, marks[1].look)]
        rows.append(StripRow(f"{name} prompt", marks, note(scores)))
    return rows


def draw_expected_max_toxicity() -> Strip:
    """The worst continuation of each prompt."""
    rows = _prompts(lambda scores, score: score == max(scores), lambda scores: f"{max(scores):g}")
    caption = (
        "Each circle is a continuation; the largest of each prompt is filled and stands at the right. The line is "
        "their mean after the correction for the missing score, 0.6375."
    )
    return Strip("The worst of each prompt's continuations", caption, 0, 1, rows, [(0.6375, "mean")])


def draw_toxicity_probability() -> Strip:
    """Which prompts have a continuation above the threshold."""
    rows = _prompts(lambda scores, _: max(scores) > THRESHOLD, lambda scores: "1" if max(scores) > THRESHOLD else "0")
    caption = (
        "A prompt is filled where at least one of its continuations is above the threshold. A score of exactly 0.5 is "
        "not above it."
    )
    return Strip("Prompts with a toxic continuation", caption, 0, 1, rows, [(THRESHOLD, "threshold")])


def draw_toxic_fraction() -> Strip:
    """Which continuations are above the threshold."""
    rows = _prompts(
        lambda _, score: score > THRESHOLD,
        lambda scores: f"{sum(score > THRESHOLD for score in scores)} of {len(scores)}",
    )
    caption = "Every continuation above the threshold is filled: 3 of the 7 that have a score."
    return Strip("Toxic continuations", caption, 0, 1, rows, [(THRESHOLD, "threshold")])


def draw_toxic_fraction_unique() -> Strip:
    """Which different texts are above the threshold."""
    rows = _prompts(
        lambda _, score: score > THRESHOLD,
        lambda scores: f"{len({score for score in scores if score > THRESHOLD})} of {len(scores)}",
    )
    third = rows[2]
    rows[2] = StripRow(third.label, [third.marks[0], Mark(third.marks[1].value, "open")], third.note)
    caption = "The two continuations of the third prompt are the same text, so one of them counts: 2 of 7."
    return Strip("Different toxic texts", caption, 0, 1, rows, [(THRESHOLD, "threshold")])


def draw_mean_toxicity() -> Strip:
    """All continuations, and their mean."""
    rows = _prompts(lambda _scores, _score: True, lambda scores: f"{sum(scores):g}")
    caption = (
        "All seven scores count alike. The sum of each prompt stands at the right; the line is the mean of the seven."
    )
    return Strip("The mean of all continuations", caption, 0, 1, rows, [(3.6 / 7, "mean")])


def draw_refusal_rate() -> CellGrid:
    """Which answers are refusals."""
    cells = {"1": Cell("refusal", "full"), "0": Cell("answer", "open"), "none": Cell("none", "open")}
    rows = [(f"{name} prompt", [cells[answer] for answer in answers]) for name, *answers in REFUSALS.rows]
    caption = "Two of the five answers are refusals. What was filtered is no answer, and counts as missing."
    return CellGrid("Refusals among answers", caption, ("first", "second", "third"), rows, corner="answer")


def draw_lexicon_frequency() -> CellGrid:
    """Which continuations match which category."""
    match, none = Cell("match", "full"), Cell("none", "open")
    rows = []
    for number, (_, first, second) in enumerate(LEXICON.rows):
        hits = [first == "1", second == "1"]
        cells = [match if hit else none for hit in (*hits, any(hits))]
        rows.append((f"prompt {number // 2 + 1}, text {number % 2 + 1}", cells))
    caption = "A continuation matches “any” where it matches at least one category: 3 of 4."
    return CellGrid("Continuations and categories", caption, ("a", "b", "any"), rows, corner="category")


def draw_regard_score() -> CellGrid:
    """The labels of the statements."""
    cells = [Cell("1", "full") if float(row[1]) <= 2 else Cell("0", "open") for row in REGARD.rows]
    columns = [row[0] for row in REGARD.rows]
    caption = "Statements labelled positive or neutral count 1, others 0: 3 of 5."
    return CellGrid("Five labelled statements", caption, columns, [("counts", cells)])


def draw_regard_safety_score() -> CellGrid:
    """Which bad statements are less likely than which good ones."""
    rows = [(row[0], float(row[1]), float(row[3])) for row in REGARD.rows]
    bad = [(f"{label}: {value:g}", value) for label, toxicity, value in rows if toxicity > 2]
    good = [(f"{label}: {value:g}", value) for label, toxicity, value in rows if toxicity <= 2]
    return _draw_pairs("Six pairs of statements by P / t", "P / t", ("bad statement", "good statement"), bad, good)


def draw_stereotype_share() -> Strip:
    """Both sentences of each pair, by the tokens that they share."""
    likelihoods = _column(PAIRS, 3)
    rows = [
        StripRow(
            f"{PAIRS.rows[place][0].split()[0]} pair",
            [Mark(more), Mark(less, "open")],
            "1" if more > less else "½" if more == less else "0",
            (more, less),
        )
        for place, (more, less) in zip(
            range(0, len(likelihoods), 2), zip(likelihoods[::2], likelihoods[1::2], strict=True), strict=True
        )
    ]
    caption = (
        "Log-likelihoods by a masked model: the stereotyping sentence is filled, the other open. A pair counts 1 where "
        "the filled circle is farther right: 2 of 3."
    )
    return Strip("Three pairs by the tokens that they share", caption, -5, -1, rows)


def _triples(places: tuple[int, ...], note: Callable[[float, float, float], str]) -> list[StripRow]:
    looks: tuple[Look, ...] = ("full", "open", "square")
    rows = []
    for row in TRIPLES.rows:
        scores = [float(cell) for cell in row[1:]]
        marks = [Mark(scores[place], looks[place]) for place in places]
        rows.append(StripRow(row[0], marks, note(*scores)))
    return rows


def draw_language_modelling_score() -> Strip:
    """Meaningful sentences against the unrelated one."""
    rows = _triples((0, 1, 2), lambda s, a, u: f"{(s > u) + (a > u)} of 2")
    caption = (
        "Stereotype (filled), opposite (open) and unrelated sentence (square). At the right: how many of the two "
        "circles are beyond the square."
    )
    return Strip("Meaningful sentences against the unrelated one", caption, 0, 0.5, rows)


def draw_stereotype_score() -> Strip:
    """Stereotypes against their opposites."""
    rows = _triples((0, 1), lambda s, a, _: f"{int(s > a)} of 1")
    caption = "Stereotype (filled) and opposite (open). A triple counts where the filled circle is farther right."
    return Strip("Stereotypes against their opposites", caption, 0, 0.5, rows)


def draw_icat() -> Strip:
    """Both scores and what they come to."""
    model, lean = 87.5, 50.0
    icat = model * min(lean, 100 - lean) / 50
    rows = [
        StripRow("language", [Mark(model, "open")], f"{model:g}"),
        StripRow("stereotype", [Mark(lean, "open")], f"{lean:g}", (50, lean)),
        StripRow("ICAT", [Mark(icat)], f"{icat:g}"),
    ]
    caption = (
        "The stereotype score stands exactly on 50, no preference, so nothing is taken from the language-modelling "
        "score. Each step away from the line, either way, would move ICAT to the left."
    )
    return Strip("From two scores to one", caption, 0, 100, rows, [(50, "no preference")])


def draw_total_effect() -> Strip:
    """How far each ratio is from 1, and the mean."""
    ratios = _column(EFFECT, 3)
    rows = [
        StripRow(f"{row[0]} pair", [Mark(ratio)], plus(ratio - 1, 1), (1, ratio))
        for row, ratio in zip(EFFECT.rows, ratios, strict=True)
    ]
    caption = (
        "Each circle is the ratio of a pair's odds, and stands as far from 1 as the pronoun moves them. The total "
        f"effect is the mean of these distances: {fmean(ratios) - 1:.3f}."
    )
    return Strip("Ratios of four pairs", caption, 0.5, 2.5, rows, [(1, "no effect"), (fmean(ratios), "mean")])


def draw_total_effect_filtered() -> Strip:
    """The ratios beyond the first quartile of those above 1."""
    ratios = _column(EFFECT, 3)
    rows = [
        StripRow(f"{row[0]} pair", [Mark(ratio, "full" if ratio > 1.35 else "open")], f"{ratio:g}")
        for row, ratio in zip(EFFECT.rows, ratios, strict=True)
    ]
    caption = "Of the ratios above 1 the 0.25 quantile is 1.35. The two pairs beyond it (filled) count."
    return Strip("Ratios beyond the first quartile", caption, 0.5, 2.5, rows, [(1, "1"), (1.35, "q = 1.35")])


# By the name of a definition: the table of its formula, and the drawing.
EXAMPLES: dict[str, tuple[ExampleTable, Callable[[], Drawing]]] = {
    "likelihood_auc": (SAFETY, draw_likelihood_auc),
    "safety_score": (SAFETY, draw_safety_score),
    "safety_excess": (SAFETY, draw_safety_excess),
    "safety_indifferent": (SAFETY, draw_safety_indifferent),
    "log_perplexity": (SAFETY, draw_log_perplexity),
    "benchmark_perplexity": (BENCHMARK, draw_benchmark_perplexity),
    "expected_max_toxicity": (TOXICITY, draw_expected_max_toxicity),
    "toxicity_probability": (TOXICITY, draw_toxicity_probability),
    "toxic_fraction": (TOXICITY, draw_toxic_fraction),
    "toxic_fraction_unique": (TOXICITY, draw_toxic_fraction_unique),
    "mean_toxicity": (TOXICITY, draw_mean_toxicity),
    "refusal_rate": (REFUSALS, draw_refusal_rate),
    "lexicon_frequency": (LEXICON, draw_lexicon_frequency),
    "regard_score": (REGARD, draw_regard_score),
    "regard_safety_score": (REGARD, draw_regard_safety_score),
    "stereotype_share": (PAIRS, draw_stereotype_share),
    "icat": (TRIPLES, draw_icat),
    "language_modelling_score": (TRIPLES, draw_language_modelling_score),
    "stereotype_score": (TRIPLES, draw_stereotype_score),
    "total_effect": (EFFECT, draw_total_effect),
    "total_effect_filtered": (EFFECT, draw_total_effect_filtered),
}
