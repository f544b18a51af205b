"""Reading the charts of a page: what they hand to Plotly, and what they draw."""

import json
import re
from html import unescape
from typing import Any
from urllib.parse import urlsplit

Figure = dict[str, Any]


def list_charts(html: str) -> list[str]:
    """The names of the charts on a page."""
    return re.findall(r'data-chart="([^"]*)"', html)


def read_chart(client, html: str, place: int = 0) -> Figure:
    """What a chart of the page hands to Plotly, from where the page has it."""
    path = urlsplit(unescape(re.search(r'<link rel="canonical" href="([^"]*)"', html)[1])).path
    query = unescape(re.findall(r'data-explore="([^"]*)"', html)[place])
    response = client.get(path + query)
    assert response.status_code == 200, query
    return json.loads(response.content)


def traces(figure: Figure, kind: str) -> list[Figure]:
    """The traces of one kind: points, lines, band, names."""
    return [trace for trace in figure["data"] if trace["meta"] == kind]


def points(figure: Figure, axis: str = "x") -> list[tuple[float, float]]:
    """The points drawn on an axis."""
    return [
        place
        for trace in traces(figure, "points")
        if trace["xaxis"] == axis
        for place in zip(trace["x"], trace["y"], strict=True)
    ]


def stretches(figure: Figure, dash: str = "solid") -> list[list[tuple[float, float]]]:
    """The lines of one dash, each as its places."""
    found: list[list[tuple[float, float]]] = []
    for trace in traces(figure, "lines"):
        if trace["line"]["dash"] != dash:
            continue
        part: list[tuple[float, float]] = []
        for x, y in zip(trace["x"], trace["y"], strict=True):
            if x is None:
                found.append(part)
                part = []
            else:
                part.append((x, y))
    return found
