"""Distributions: two samples as histograms over the same bins, their medians marked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leaderboard.charts.figure import Axis, Chart, Dash, Ink, Key, Line, Mark, Panel
from leaderboard.charts.ticks import mark_numbers

HEIGHT = 220  # pixels
LOOKS: tuple[tuple[Ink, Dash], ...] = ((Ink.SECOND, ""), (Ink.FIRST, "dash"))  # dashes for who sees no colours


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
    most = max(share for sample in samples for share in sample.shares)
    marks: list[Mark] = []
    for sample, look in zip(samples, LOOKS, strict=True):
        marks += _outline(edges, sample, look, most)
    x = Axis(edges[0], edges[-1], mark_numbers(edges[0], edges[-1]), title, grid=False)
    y = Axis(0.0, 1.05 * most, mark_numbers(0.0, min(1.0, 1.05 * most), percent=True), "Share of the texts")
    legend = tuple(
        Key(f"{sample.label}, median {sample.median:.2f}", ink, dash=dash)
        for sample, (ink, dash) in zip(samples, LOOKS, strict=True)
    )
    return Chart(name, alternative, (Panel(x, y, tuple(marks), HEIGHT),), legend)


def _outline(edges: Sequence[float], sample: DistributionSample, look: tuple[Ink, Dash], most: float) -> Iterator[Line]:
    """From the axis up, along the tops of the bins and down again; and the median as a thin line."""
    ink, dash = look
    x = [edge for edge in edges for _ in range(2)]
    y = [0.0, *(share for share in sample.shares for _ in range(2)), 0.0]
    yield Line(x, y, ink, 2, dash, sample.label)
    yield Line([sample.median] * 2, [0.0, 1.05 * most], ink, 1.25, dash, f"{sample.label}: median {sample.median:.2f}")
