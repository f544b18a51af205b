"""Correlations that a paper prints, beside what its published figures give."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from leaderboard.charts import Chart, ScatterPanel, Series, scatter_chart
from leaderboard.services.hosseini import Student, parameters, sizes, students, tables
from leaderboard.views.chart_files import CHART_FILE, chart_file
from leaderboard.views.keeping import keep_page
from scoring.metrics.safety import SAFETY_SCORE

SAFETY = "Average safety score"
# What Table 13 has of a model: its name, and where the axis is marked.
PROPERTIES = {
    "attention_heads": ("Attention heads", [12, 16, 25, 64]),
    "layers": ("Layers", [12, 24, 36, 48]),
    "hidden_dim": ("Hidden size", [256, 768, 1600, 4096]),
}


@require_safe
@keep_page(reads=CHART_FILE)
def agreement_published(request: HttpRequest) -> HttpResponse:
    """Tables 3, 4, 5 and 8 of Hosseini et al. 2023 recomputed, and the figures on architecture."""
    paper_tables = tables()
    bert, gpt2 = students("bert"), students("gpt2")
    by_size, of_students = sizes_chart(), students_chart(bert, gpt2)
    context = {
        "tables": paper_tables,
        "amiss": [
            (table, row, column, cell)
            for table in paper_tables
            for row, column, cell in table.printed_cells
            if not_same(cell)
        ],
        "sizes": sizes(),
        "sizes_chart": by_size,
        "grids": [("6", "Distilled BERT", grid(bert)), ("7", "Distilled GPT-2", grid(gpt2))],
        "students_chart": of_students,
        "measure": SAFETY_SCORE,
    }
    return chart_file(request, [by_size, of_students]) or render(request, "agreement_published.html", context)


def not_same(cell: object) -> bool:
    """Whether the published figures do not give the printed digits."""
    return getattr(cell, "outcome", "") != "reproduced"


def grid(students: list[Student]) -> tuple[list[int], list[tuple[int, list[Student | None]]]]:
    """Students by hidden size (rows) and layers (columns), as the paper prints them."""
    layers = sorted({student.layers for student in students})
    by_size = {(student.hidden, student.layers): student for student in students}
    widths = sorted({student.hidden for student in students})
    return layers, [(width, [by_size.get((width, depth)) for depth in layers]) for width in widths]


def sizes_chart() -> Chart:
    """Figure 3: average safety score by family, against what Table 13 says of the models' size."""
    families = sizes()
    panels = []
    for name, (label, ticks) in PROPERTIES.items():
        series = []
        for family, models in families.items():
            rows = sorted(models, key=lambda row: (float(row[name]), float(row["hidden_dim"])))
            x, y = ([float(row[key]) for row in rows] for key in (name, "safety_score"))
            captions = [
                f"{row['model']}: {row[name]} {label.lower()}, {float(row['safety_score']):.3f}" for row in rows
            ]
            series.append(Series(family, x, y, captions, joined=True))
        panels.append(ScatterPanel(label, series, logarithmic=True, ticks=ticks))
    alternative = (
        "Average safety score of 19 models of seven families against attention heads, layers and hidden size. In most "
        "families it falls as models grow. The table under it has the same numbers."
    )
    return scatter_chart("hosseini-sizes", panels, SAFETY, alternative, (0, 1))


def students_chart(bert: list[Student], gpt2: list[Student]) -> Chart:
    """Tables 6 and 7 as panels: a line a depth, against width; and the GPT-2 students against their parameters."""
    millions = parameters()

    def series(students: list[Student], by_size: bool) -> list[Series]:
        lines = []
        for depth in sorted({student.layers for student in students if not student.teacher}):
            row = sorted((s for s in students if s.layers == depth and not s.teacher), key=lambda s: s.hidden)
            x = [millions[s.layers, s.hidden] if by_size else float(s.hidden) for s in row]
            captions = [f"{s.layers} layers, hidden size {s.hidden}: {s.safety:.3f}" for s in row]
            lines.append(Series(f"{depth} layers", x, [s.safety for s in row], captions, joined=True))
        teachers = [s for s in students if s.teacher]
        x = [millions[s.layers, s.hidden] if by_size else float(s.hidden) for s in teachers]
        captions = [f"Teacher, {s.layers} layers, hidden size {s.hidden}: {s.safety:.3f}" for s in teachers]
        return [*lines, Series("teacher", x, [s.safety for s in teachers], captions)]

    widths = [128, 256, 512, 768]
    panels = [
        ScatterPanel("Distilled BERT: hidden size", series(bert, False), ticks=[*widths, 1024]),
        ScatterPanel("Distilled GPT-2: hidden size", series(gpt2, False), ticks=widths),
        ScatterPanel("Distilled GPT-2: parameters, millions", series(gpt2, True)),
    ]
    alternative = (
        "Average safety score of 24 distilled BERT and 23 distilled GPT-2 models with their teachers, a line a number "
        "of layers. Of BERT the wider students score lower; of GPT-2 no such order shows. The tables under it have the "
        "same numbers."
    )
    return scatter_chart("hosseini-students", panels, SAFETY, alternative, (0, 1))
