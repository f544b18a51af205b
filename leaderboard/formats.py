"""Tables as text: for terminals, spreadsheets, papers and notes."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # \textquotedbl needs another encoding of fonts than LaTeX's own
    "–": "--",  # noqa: RUF001 (it is what is replaced)
    "−": "$-$",  # noqa: RUF001
    "≈": r"$\approx$",
    "₀": "$_0$",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the beginning of a formula
MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~#])")


@dataclass(frozen=True)
class TableColumn:
    """A column: its heading, and whether its cells are numbers."""

    heading: str
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Cells as people read them, under their headings; the title says what they are of."""

    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]


def as_text(table: Table) -> str:
    """Columns aligned with spaces."""
    cells = [[column.heading for column in table.columns], *table.rows]
    widths = [max(len(row[number]) for row in cells) for number in range(len(table.columns))]
    lines = [
        "  ".join(
            cell.rjust(width) if column.numeric else cell.ljust(width)
            for cell, width, column in zip(row, widths, table.columns, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([table.title, "", *lines])


def as_csv(table: Table) -> str:
    """RFC 4180, with a row of headings; without the title.

    An apostrophe goes before whatever a spreadsheet would take for a formula, as names of models are others' words.
    """
    file = io.StringIO()
    writer = csv.writer(file)
    for row in ([column.heading for column in table.columns], *table.rows):
        writer.writerow([f"'{cell}" if cell.startswith(FORMULA) and not is_number(cell) else cell for cell in row])
    return file.getvalue().removesuffix("\r\n")


def is_number(cell: str) -> bool:
    """Whether a cell is a number, which may begin with its sign."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class LatexTable:
    """A table float: cells are LaTeX already, as are headings, caption and note."""

    caption: str
    label: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    note: str


def as_latex(tables: Sequence[LatexTable], address: str = "") -> str:
    """Table floats with the rules of the package booktabs; address: where the numbers are from, as a comment."""
    source = [f"% {address}"] if address else []
    return "\n".join(["% needs \\usepackage{booktabs}", *source, *map(_latex_float, tables)])


def _latex_float(table: LatexTable) -> str:
    return "\n".join(
        [
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{table.caption}}}",
            f"  \\label{{{table.label}}}",
            f"  \\begin{{tabular}}{{{''.join('r' if column.numeric else 'l' for column in table.columns)}}}",
            r"    \toprule",
            "    " + " & ".join(column.heading for column in table.columns) + r" \\",
            r"    \midrule",
            *(f"    {_shield(' & '.join(row))} \\\\" for row in table.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"  \par\medskip",
            f"  \\parbox{{0.9\\linewidth}}{{\\footnotesize {table.note}}}",
            r"\end{table}",
        ]
    )


def _shield(row: str) -> str:
    """`row` so that LaTeX takes no beginning of it for an argument of the command before it."""
    return f"{{}}{row}" if row.startswith(("[", "*")) else row


def as_markdown(table: Table) -> str:
    """A pipe table under its title."""
    rule = ["---:" if column.numeric else ":---" for column in table.columns]
    rows = [
        [markdown(column.heading) for column in table.columns],
        rule,
        *([markdown(c) for c in r] for r in table.rows),
    ]
    return "\n".join([markdown(table.title), "", *(f"| {' | '.join(row)} |" for row in rows)])


def latex(text: str) -> str:
    """`text` as LaTeX prints it."""
    return "".join(LATEX.get(character, character) for character in " ".join(text.split()))


def markdown(text: str) -> str:
    """`text` as Markdown prints it."""
    return MARKDOWN.sub(r"\\\1", " ".join(text.split()))


FORMATS = {"table": as_text, "csv": as_csv, "markdown": as_markdown}
