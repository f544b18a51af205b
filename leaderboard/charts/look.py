"""The look that all charts share.

A figure is data. Colours are names of the stylesheet's tokens, as in "var(--ink)", which static/charts.js replaces by
what they are in the reader's theme; nothing here knows of light and dark. No chart says anything by colour alone, and
each comes with a text alternative and the height that its page keeps free for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

INK, QUIET, RULE, PAPER, RAISED = "var(--ink)", "var(--chart-quiet)", "var(--rule)", "var(--paper)", "var(--raised)"
FIRST, SECOND = "var(--chart-first)", "var(--chart-second)"  # blue and orange, which no colour blindness confuses
FONT = 'system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif'
SMALL = 11  # pixels
CHARACTER = 6.0  # pixels, of that font on average
LINE = 15  # pixels of a line of text
LONGEST_NAME = 28  # characters

Trace = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """A figure as `partials/chart.html` shows it. height and least_width in pixels; name: of its downloads."""

    name: str
    figure: dict[str, Any]
    height: int
    least_width: int
    alternative: str

    @property
    def data_id(self) -> str:
        """Of the element that holds the figure as JSON."""
        return f"chart-{self.name}"


def trace(kind: str, **properties: Any) -> Trace:
    """Points, lines, boxes: a trace of Plotly's, of the type `kind`.

    Plain data: Plotly's classes check every property, which takes longer than all the rest of a page does. The tests
    have every figure checked by them.
    """
    return {"type": kind, **properties}


def figure_of(traces: Sequence[Trace], **layout: Any) -> dict[str, Any]:
    """A figure with the look that all charts share: no frame, no zoom, the page's font and colours."""
    axis = {"fixedrange": True, "showgrid": False, "zeroline": False, "showline": False, "tickfont": {"size": SMALL}}
    return {
        "data": list(traces),
        "layout": {
            "font": {"family": FONT, "size": SMALL, "color": INK},
            "paper_bgcolor": PAPER,
            "plot_bgcolor": PAPER,
            "hoverlabel": {"bgcolor": RAISED, "bordercolor": QUIET, "font": {"color": INK, "family": FONT}},
            "hovermode": "closest",
            "dragmode": False,
            "showlegend": False,
            **layout,
            **{name: axis | options for name, options in layout.items() if name.startswith(("xaxis", "yaxis"))},
        },
    }


def short(name: str) -> str:
    """As much of a name as there is room for, with nothing in it that Plotly would read as a tag."""
    return escape(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…")
