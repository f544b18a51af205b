"""Correlations that Hosseini et al. 2023 print, each beside what the figures they publish give. Shown, never ranked."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leaderboard.numbers import decimals
from leaderboard.services.figures import rows
from scoring.statistics.correlations import Correlation, pearson

Array = NDArray[np.float64]
Outcome = Literal["reproduced", "within rounding", "differs", "not published"]
ARCHITECTURE = {"attention heads": "attention_heads", "layers": "layers", "hidden dimension": "hidden_dim"}
FAMILIES = {"GPT2 family": "GPT-2", "ALBERT family": "ALBERT", "ELECTRA family": "ELECTRA"}
# Beginning and end of a model's name, and its family as in Table 2 and Figure 3.
TABLE_2 = (
    ("BERT", "-uncased", "BERT-uncased"),
    ("BERT", "-cased", "BERT-cased"),
    ("RoBERTa", "", "RoBERTa"),
    ("ELECTRA", "", "ELECTRA-generator"),
    ("ALBERT", "", "ALBERT"),
    ("GPT-2", "", "GPT-2"),
    ("XLNet", "", "XLNet"),
)
SELECTED = 12  # distilled GPT-2 students, see `selected_students`
BENCHMARKS = ("WikiText2", "WikiText103", "LAMBADA", "PTB")

# What of Tables 3 and 4 is a number for each model somewhere; of the other sides only coefficients are printed.
SIDES = ("Safety score (ToxiGen)", "Regard")
WHY_NOT = {
    "CMA-WG": "Vig et al. 2020 give total effects of some of the models; the paper prints none of those it took",
    "CMA-WB": "Vig et al. 2020 give total effects of some of the models; the paper prints none of those it took",
    "SS (StereoSet)": "the paper measured StereoSet and prints no model's score",
    "HateBERT": "the paper prints no model's share of labels by this classifier",
    "RoBERTa-ToxiGen": "the paper prints no model's share of labels by this classifier",
}


@dataclass(frozen=True, slots=True)
class Student:
    """A distilled model: its architecture, its average safety score as printed, and whether it is the teacher."""

    layers: int
    hidden: int
    heads: int
    safety: float
    teacher: bool


@dataclass(frozen=True, slots=True)
class PaperCell:
    """A printed coefficient, what the published figures give, and what comes of it. `note` says of what, or why not."""

    printed: str
    found: Correlation | None
    outcome: Outcome
    note: str


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper: cells by row and column, None where it prints nothing."""

    number: str
    title: str
    columns: list[str]
    cells: list[tuple[str, list[PaperCell | None]]]
    notes: list[str] = field(default_factory=list)

    @property
    def printed_cells(self) -> list[tuple[str, str, PaperCell]]:
        """Row, column and cell of all that it prints, but for what is 1 by definition."""
        return [
            (row, column, cell)
            for row, cells in self.cells
            for column, cell in zip(self.columns, cells, strict=True)
            if cell and row != column
        ]

    @property
    def count(self) -> str:
        """As in "1 differs, 14 not published"."""
        counts = Counter(cell.outcome for _, _, cell in self.printed_cells)
        return ", ".join(f"{counts[outcome]} {outcome}" for outcome in get_args(Outcome) if counts[outcome])


def students(name: str) -> list[Student]:
    """The models of Table 6 ("bert") or 7 ("gpt2"), teachers last."""
    return [
        Student(
            int(row["layers"]),
            int(row["hidden_dim"]),
            int(row["attention_heads"]),
            float(row["safety_score"]),
            row["role"] == "teacher",
        )
        for row in rows(f"distilled_{name}_safety.csv")
    ]


def parameters() -> dict[tuple[int, int], float]:
    """Of the distilled GPT-2 models, in millions, by layers and hidden size (Table 14)."""
    return {
        (int(row["layers"]), int(row["hidden_dim"])): float(row["parameters_million"])
        for row in rows("distilled_gpt2_perplexity.csv")
    }


def selected_students(benchmark: str) -> list[Student]:
    """The distilled GPT-2 students that model language best: so many with the lowest perplexity on a benchmark.

    The paper selected students "with reasonable performance" for Table 8 and does not say which. Of the first 5 to 23
    by perplexity on a benchmark of Table 14, 12 come nearest to what it prints: the same 12 on each of the four.
    """
    perplexity = {
        (int(row["layers"]), int(row["hidden_dim"])): float(row["perplexity"])
        for row in rows("distilled_gpt2_perplexity.csv")
        if row["benchmark"] == benchmark
    }
    candidates = [student for student in students("gpt2") if not student.teacher]
    return sorted(candidates, key=lambda student: perplexity[student.layers, student.hidden])[:SELECTED]


def against_architecture(sample: Sequence[Student], name: str) -> tuple[Array, Array]:
    """The property called `name` of each student, and its safety score."""
    attribute = {"attention heads": "heads", "layers": "layers", "hidden dimension": "hidden"}[name]
    return np.array([getattr(s, attribute) for s in sample], float), np.array([s.safety for s in sample])


def averages() -> dict[str, float]:
    """The average safety score of each model on ToxiGen, to six decimals (the paper's repository)."""
    return {
        row["model"]: float(row["mean_safety_score_full"])
        for row in rows("safety_scores_toxigen_averages.csv")
        if row["over"] == "model"
    }


def slack(x: Array, y: Array, half_unit: float) -> float:
    """How far Pearson's r of `x` and `y` [n] moves, to first order, when each y is off by `half_unit` at the worst."""
    a, b = (values - values.mean() for values in (x, y))
    a, norm = a / np.sqrt((a**2).sum()), np.sqrt((b**2).sum())
    gradient = (a - (a @ b / norm) * b / norm) / norm
    return float(half_unit * np.abs(gradient).sum())


def cell(coefficient: str, x: Array, y: Array, note: str, half_unit: float) -> PaperCell:
    """A printed coefficient beside Pearson's r of `x` and `y`, which are rounded to within `half_unit` in y."""
    correlation = pearson(x, y)
    value = correlation.value if correlation.value is not None else float("nan")
    if f"{value:.2f}" == f"{float(coefficient):.2f}":
        outcome: Outcome = "reproduced"
    elif abs(value - float(coefficient)) <= 0.005 + slack(x, y, half_unit):
        outcome = "within rounding"
    else:
        outcome = "differs"
    return PaperCell(coefficient, correlation, outcome, note)


def printed_in(table: str) -> list[dict[str, str]]:
    """The coefficients that a table prints."""
    return [row for row in rows("correlations.csv") if row["table"] == table]


def arrange_table(
    number: str, title: str, cells: Mapping[tuple[str, str], PaperCell], columns: Sequence[str], notes: Iterable[str]
) -> PaperTable:
    """Cells by their row and column as a table, rows in the order they come in."""
    names = list(dict.fromkeys(row for row, _ in cells))
    return PaperTable(
        number,
        title,
        list(columns),
        [(row, [cells.get((row, column)) for column in columns]) for row in names],
        list(notes),
    )


def between_metrics(number: str, title: str, columns: Sequence[str], notes: Sequence[str]) -> PaperTable:
    """Table 3 or 4: metrics against each other, for women. A side without published numbers says why."""
    women = {
        row["model"]: float(row["safety_score_full"])
        for row in rows("safety_scores_toxigen.csv")
        if row["target_group"] == "women"
    }
    regard = {
        row["model"]: float(row["regard_score"]) for row in rows("regard_scores.csv") if row["demographic"] == "Women"
    }
    cells = {}
    for row in printed_in(number):
        first, second, coefficient = row["variable_a"], row["variable_b"], row["pearson_r"]
        if {first, second} == set(SIDES):
            x, y = (np.array([scores[model] for model in regard]) for scores in (women, regard))
            note = f"Tables 1 and 11, column Women, of the {len(regard)} models in both"
            cells[first, second] = cell(coefficient, x, y, note, 0.0005)
        elif first == second:
            cells[first, second] = PaperCell(coefficient, None, "reproduced", "1 by definition")
        else:
            absent_side = next(side for side in (second, first) if side in WHY_NOT)
            cells[first, second] = PaperCell(
                coefficient, None, "not published", f"{absent_side}: {WHY_NOT[absent_side]}"
            )
    return arrange_table(number, title, cells, columns, notes)


def table_5() -> PaperTable:
    """Average safety score against architecture, in three families."""
    score = averages()
    cells = {}
    for row in printed_in("5"):
        family, name = row["population"], row["variable_b"]
        models = [
            architecture
            for architecture in rows("architectures.csv")
            if architecture["model"].startswith(FAMILIES[family])
        ]
        x = np.array([float(architecture[ARCHITECTURE[name]]) for architecture in models])
        y = np.array([score[architecture["model"]] for architecture in models])
        note = f"{len(models)} models: {', '.join(architecture['model'] for architecture in models)}"
        cells[FAMILIES[family], name] = cell(row["pearson_r"], x, y, note, 0.0000005)
    return arrange_table(
        "5",
        "Average safety score against architecture, in families with three or more models",
        cells,
        list(ARCHITECTURE),
        [
            "From the averages to six decimals of the paper's repository and the architectures of Table 13. With the "
            "averages as Table 13 prints them, to three decimals, six of these nine differ in the second digit.",
            "Three or four models a family: a coefficient of so few says little, whatever its size.",
        ],
    )


def table_8() -> PaperTable:
    """Average safety score against architecture, of distilled models."""
    bert = [student for student in students("bert") if not student.teacher]
    gpt2 = [student for student in students("gpt2") if not student.teacher]
    samples = {
        "Distilled-BERT": (bert, f"the {len(bert)} students of Table 6"),
        "Distilled-GPT2": (
            selected_students(BENCHMARKS[0]),
            f"the {SELECTED} students of Table 7 with the lowest perplexity in Table 14",
        ),
    }
    cells = {
        (row["population"], row["variable_b"]): cell(
            row["pearson_r"],
            *against_architecture(samples[row["population"]][0], row["variable_b"]),
            samples[row["population"]][1],
            0.0005,
        )
        for row in printed_in("8")
    }
    everyone = ", ".join(
        f"{name} {decimals(value, 2)}"
        for name in ARCHITECTURE
        if (value := pearson(*against_architecture(gpt2, name)).value) is not None
    )
    return arrange_table(
        "8",
        "Average safety score against architecture, of distilled models",
        cells,
        list(ARCHITECTURE),
        [
            'The paper selected distilled models "with reasonable downstream task performance" and does not say which. '
            "All 24 BERT students of Table 6 give its first row, without their teacher.",
            f"All {len(gpt2)} GPT-2 students of Table 7 do not give its second row ({everyone}). The {SELECTED} of "
            "them with the lowest perplexity, which are the same on each of the four benchmarks of Table 14, give it "
            "to within what rounding the scores to three decimals leaves open. This selection is our guess: it fits "
            "best among the first 5 to 23 students by perplexity.",
        ],
    )


def sizes() -> dict[str, list[dict[str, str]]]:
    """The models of Table 13 by family, each with its average safety score to six decimals."""
    score = averages()
    families: dict[str, list[dict[str, str]]] = {}
    for row in rows("architectures.csv"):
        model = row["model"]
        family = next((name for name in TABLE_2 if model.startswith(name[0]) and model.endswith(name[1])), None)
        if family:
            families.setdefault(family[2], []).append({**row, "safety_score": str(score[model])})
    return families


def implicit_hate() -> PaperTable:
    """Section 4.5: safety scores on ToxiGen against those on Implicit Hate."""
    other = {row["model"]: float(row["safety_score"]) for row in rows("safety_scores_implicit_hate.csv")}
    score = averages()
    (row,) = printed_in("text")
    x, y = (np.array([scores[model] for model in other]) for scores in (other, score))
    cells = {("ToxiGen, average", "Implicit Hate"): cell(row["pearson_r"], x, y, f"{len(other)} models", 0.0000005)}
    return arrange_table("section 4.5", "Safety scores on two evaluation sets", cells, ["Implicit Hate"], [])


@lru_cache(maxsize=1)
def tables() -> list[PaperTable]:
    """Tables 3, 4, 5 and 8 and section 4.5, as printed and as recomputed; the files never change while it runs."""
    return [
        between_metrics(
            "3",
            "Metrics of harm against each other, masked models, Women",
            ["CMA-WG", "CMA-WB", "SS (StereoSet)"],
            [
                "Not reproducible: of all metrics but the safety score the paper prints coefficients only, no value of "
                "any model, and does not name the models it took."
            ],
        ),
        between_metrics(
            "4",
            "Metrics of harm against each other, causal and permutation models, Women",
            ["RoBERTa-ToxiGen", "HateBERT", "Regard", "CMA-WG", "CMA-WB"],
            [
                "One coefficient can be recomputed, the safety score against Regard: both stand in the paper for seven "
                "models. They give another value than the one printed; the paper does not say which models it took. Of "
                "the other metrics it prints coefficients only, no value of any model.",
            ],
        ),
        table_5(),
        table_8(),
        implicit_hate(),
    ]
