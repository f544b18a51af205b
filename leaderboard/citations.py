"""How to cite the board, a ranking as it is shown, and one result: in a sentence and in BibTeX.

The year is that of the numbers that are cited, so a citation says for ever what it says now.
"""

import re
from dataclasses import dataclass
from datetime import date
from urllib.parse import urljoin

from leaderboard.formats import latex
from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance
from leaderboard.queries.profiles import Profile
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.ranking import Ranking
from leaderboard.rankings.versions import current_versions, with_versions
from leaderboard.rankings.view import View
from leaderboard.references import SourcePaper, list_papers
from scoring.metrics.formulas import MEASURES, slice_label, slice_phrase

TITLE = "Plumbline: a living leaderboard of representational harm and toxicity in language models"


@dataclass(frozen=True, slots=True)
class Citation:
    """The same citation as text and as BibTeX; references: the papers that the numbers rest on, to be cited with it."""

    text: str
    bibtex: str
    references: tuple[SourcePaper, ...] = ()

    @property
    def papers(self) -> str:
        """The references as BibTeX."""
        return "\n\n".join(paper.bibtex for paper in self.references)


def bibtex(key: str, title: str, year: str, note: str, address: str) -> str:
    """An entry for what stands at `address`; year and note may be empty."""
    fields = {
        "author": "{Plumbline}",
        "title": f"{{{latex(title)}}}",
        "year": year,
        "note": latex(note),
        "url": address,
    }
    lines = [f"  {name:<6} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{{re.sub(r'[^a-z0-9]+', '-', key.lower())},", *lines, "}"])


def cite_board(address: str, metric: Metric | None) -> Citation:
    """Cite the board at `address` as of its last publication; with a metric, cite the version that readers see.

    One query.
    """
    if metric:
        version = next(iter(current_versions(with_versions(metric), Provenance.values)), None)
    else:
        version = MetricVersion.objects.filter(published_at__isnull=False).order_by("-published_at").first()
    key, year, note = "plumbline", "", ""
    if version and version.published_at:
        year = f"{version.published_at:%Y}"
        key += f"-{year}"
        if metric:
            note = f"{metric.title}, metric version {version.number}, published {version.published_at:%-d %B %Y}"
            key += f"-{metric.slug}-v{version.number}"
            address = f"{urljoin(address, metric.ranking_url)}&version={version.number}"
    text = ". ".join(filter(None, (TITLE, note, year, address)))
    references = list_papers([version]) if metric and version else []
    return Citation(text, bibtex(key, TITLE, year, note, address), tuple(references))


def cite_ranking(ranking: Ranking, view: View, day: date, address: str) -> Citation:
    """Cite a page of a ranking at `address`; `day`: of the last change of its numbers."""
    title = f"{ranking.metric.title}: {ranking.measure.label.lower()}, {slice_phrase(ranking.slice)}"
    title += f", k = {ranking.k}" if ranking.k else ""
    note = "; ".join([*map(describe_numbers, ranking.versions), *describe_selection(view), f"as of {day:%-d %B %Y}"])
    key = "-".join(
        ["plumbline", ranking.metric.slug, *(f"v{version.number}" for version in ranking.versions), f"{day:%Y%m%d}"]
    )
    text = f"Plumbline ({day.year}). {title}. {note[:1].upper()}{note[1:]}. {address}"
    entry = bibtex(key, title, str(day.year), note, address)
    return Citation(text, entry, tuple(list_papers(ranking.versions)))


def cite_result(model: LanguageModel, profile: Profile, address: str) -> Citation | None:
    """Cite the metric's first measure on the overall slice; None if the profile has no such number."""
    result = profile.headline
    if result is None:
        return None
    version, measure = profile.version, MEASURES[result.measure]
    texts = version.protocol.evaluation_set
    digits = digits_of(version, measure.key)
    value = f"{result.value:.{digits}f}"
    if result.derived:
        value += " (derived here from figures of the source, which does not print it)"
    if result.ci_low is not None and result.ci_high is not None:
        value += f" (95% interval {result.ci_low:.{digits}f} to {result.ci_high:.{digits}f}"
        value += ", worked out here from counts of texts)" if result.interval_derived else ")"
    revision = f", revision {model.revision}" if model.revision else ""
    scored_at = profile.scoring.scored_at
    date_words = f", {'scored' if version.measured else 'entered'} {scored_at:%-d %B %Y}" if scored_at else ""
    note = (
        f"{measure.label} of {model.name}{revision}: {value}, {slice_phrase(profile.main)}; "
        f"{describe_numbers(version)}{date_words}; evaluation set {texts.title}, version {texts.version}"
    )
    title = f"{version.metric.title}: {model.name}"
    year = f"{scored_at:%Y}" if scored_at else ""
    key = f"plumbline-{model.slug}-{version.metric.slug}-v{version.number}"
    text = f"Plumbline{f' ({year})' if year else ''}. {version.metric.title}. {note}. {address}"
    return Citation(text, bibtex(key, title, year, note, address), tuple(list_papers([version])))


def describe_numbers(version: MetricVersion) -> str:
    """Describe what fixes the numbers of a version."""
    if not version.measured:
        return f"metric version {version.number}, figures published in {version.source.rstrip('.')}"
    words = f"metric version {version.number} of {version.published_at:%-d %B %Y}"
    if not version.asked_scorer:
        return f"{words}, measured here"
    return f"{words}, measured here with scorer {version.scorer} (fingerprint {version.scorer_fingerprint[:12]})"


def describe_selection(view: View) -> list[str]:
    """List the filters of a view, and its order if that is not by rank."""
    phrases = [f"{name.replace('_', ' ')}: {value}" for name, value in view.filters.active.items()]
    if view.order.key != "rank" or view.order.descending:
        order_name = slice_label(view.order.slice) if view.order.slice else view.order.key
        phrases.append(f"sorted by {order_name.lower()}, {'descending' if view.order.descending else 'ascending'}")
    return phrases
