"""Distributions: two samples as histograms over the same bins, their medians marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from leaderboard.charts.look import FIRST, INK, RULE, SECOND, SMALL, Chart, figure_of, trace

HEIGHT, LEAST_WIDTH = 280, 320  # pixels
LOOKS = ((SECOND, "solid"), (FIRST, "dash"))  # by colour, and by dash for those who do not tell colours


@dataclass(frozen=True, slots=True)
class DistributionSample:
    """A sample: its name, the share of it in each bin, and its median."""

    label: str
    shares: Sequence[float]
    median: float


def distributions(
    name: str,
    edges: Sequence[float],
    samples: tuple[DistributionSample, DistributionSample],
    title: str,
    alternative: str,
) -> Chart:
    """The outlines of two histograms over bins with those `edges`; title: of the axis of values."""
    traces = []
    for sample, (colour, dash) in zip(samples, LOOKS, strict=True):
        heights = [0, *(round(share, 5) for share in sample.shares)]  # the outline begins and ends on the axis
        places = [round(edge, 4) for edge in edges]
        traces.append(
            trace(
                "scatter",
                x=[places[0], *places, places[-1]],
                y=[*heights, heights[-1], 0],
                mode="lines",
                name=escape(sample.label),
                line={"shape": "hv", "color": colour, "width": 2, "dash": dash},
                hovertemplate=f"{escape(sample.label)}: %{{y:.1%}} from %{{x:.2f}} on<extra></extra>",
            )
        )
    tops = sorted(samples, key=lambda sample: sample.median)
    figure = figure_of(
        traces,
        xaxis={"title": {"text": escape(title), "font": {"size": SMALL}}, "showline": True, "linecolor": RULE},
        yaxis={"tickformat": ".0%", "showgrid": True, "gridcolor": RULE, "rangemode": "tozero"},
        margin={"l": 44, "r": 12, "t": 44, "b": 44},
        shapes=[_median(sample, look) for sample, look in zip(samples, LOOKS, strict=True)],
        annotations=[_describe_bin(tops[0], "right"), _describe_bin(tops[1], "left")],
    )
    return Chart(name, figure, HEIGHT, LEAST_WIDTH, alternative)


def _median(sample: DistributionSample, look: tuple[str, str]) -> dict[str, Any]:
    line = {"color": look[0], "width": 1.5, "dash": look[1]}
    return {"type": "line", "x0": sample.median, "x1": sample.median, "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _describe_bin(sample: DistributionSample, anchor: str) -> dict[str, Any]:
    """The name of a sample over its median: of two, which may be close, one to the left and one to the right."""
    return {
        "x": sample.median,
        "yref": "paper",
        "y": 1,
        "yanchor": "bottom",
        "xanchor": anchor,
        "xshift": 6 if anchor == "right" else -6,
        "text": f"<b>{escape(sample.label)}</b><br>median {sample.median:.2f}",
        "align": anchor,
        "showarrow": False,
        "font": {"size": SMALL, "color": INK},
    }
