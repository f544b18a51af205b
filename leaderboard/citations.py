"""How to cite a ranking as it is shown."""

from dataclasses import dataclass
from datetime import date

from leaderboard.formats import latex
from leaderboard.queries.ranking_view import View
from leaderboard.queries.rankings import Ranking
from scoring.metrics.formulas import slice_label


@dataclass(frozen=True)
class Citation:
    """The same, in plain words and for BibTeX."""

    text: str
    bibtex: str


def cite(ranking: Ranking, view: View, day: date, address: str) -> Citation:
    """Of a page of a ranking; `day` is when its numbers were last changed, `address` where it is to be seen."""
    title = f"{ranking.metric.title}: {ranking.measure.label.lower()}, {slice_label(ranking.slice).lower()}"
    title += f", k = {ranking.k}" if ranking.k else ""
    note = "; ".join([*map(numbers_of, ranking.versions), *narrowed(view)])
    text = f"Plumbline ({day.year}). {title}. {note[:1].upper()}{note[1:]}. As of {day:%-d %B %Y}. {address}"
    key = "-".join(["plumbline", ranking.metric.slug, *(f"v{of.number}" for of in ranking.versions), f"{day:%Y%m%d}"])
    fields = {
        "author": "{Plumbline}",
        "title": f"{{{latex(title)}}}",
        "year": str(day.year),
        "month": str(day.month),
        "note": latex(f"{note}; as of {day.isoformat()}"),
        "url": address,
    }
    lines = [f"  {name:<6} = {{{value}}}," for name, value in fields.items()]
    return Citation(text, "\n".join([f"@misc{{{key},", *lines, "}"]))


def numbers_of(version) -> str:
    """What fixes the numbers of a version."""
    if not version.measured:
        return f"metric version {version.number}, figures published in {version.source}"
    published = f"metric version {version.number} of {version.published_at:%-d %B %Y}"
    if not version.metric.formula.asks_scorer:
        return f"{published}, measured here"
    return f"{published}, measured here with scorer {version.scorer} (fingerprint {version.scorer_fingerprint[:12]})"


def narrowed(view: View) -> list[str]:
    """What the view leaves out, and its order, where it is not by rank."""
    found = [f"{name.replace('_', ' ')}: {value}" for name, value in view.filters.active.items()]
    if view.order.key != "rank" or view.order.descending:
        by = slice_label(view.order.slice) if view.order.slice else view.order.key
        found.append(f"sorted by {by.lower()}, {'descending' if view.order.descending else 'ascending'}")
    return found
