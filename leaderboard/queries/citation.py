"""How to cite the board, or a metric of it: in a sentence and in BibTeX."""

from dataclasses import dataclass

from leaderboard.formats import latex
from leaderboard.models import Metric, MetricVersion

TITLE = "Plumbline: a living leaderboard of representational harm and toxicity in language models"


@dataclass(frozen=True, slots=True)
class Citation:
    """The same citation as text and as BibTeX."""

    text: str
    bibtex: str


def citation(address: str, metric: Metric | None) -> Citation:
    """Of the board at `address`, as its last publication left it; of a metric, with the version that readers see.

    One query. The year is that of the publication that is cited, so the citation says what it says for ever.
    """
    published = MetricVersion.objects.filter(published_at__isnull=False)
    if metric:
        published = published.filter(metric=metric, status=MetricVersion.Status.CURRENT).order_by("provenance")
    else:
        published = published.order_by("-published_at")
    version = published.first()
    of, key, year, note = "", "plumbline", "", ""
    if version and version.published_at:
        year = f"{version.published_at:%Y}"
        key += year
        if metric:
            note = f"{metric.title}, metric version {version.number}, published {version.published_at:%-d %B %Y}"
            of, key = f" {note}.", f"{key}-{metric.slug}-{version.number}"
            address = f"{address.rstrip('/')}{metric.ranking_url}&version={version.number}"
    fields = [("title", f"{{{TITLE}}}"), ("year", year), ("note", latex(note)), ("howpublished", f"\\url{{{address}}}")]
    lines = [f"  {name} = {{{value}}}," for name, value in fields if value]
    text = f"{TITLE}.{of} {year + '. ' if year else ''}{address}"
    return Citation(text, "\n".join([f"@misc{{{key},", *lines, "}"]))
