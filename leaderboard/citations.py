"""How to cite the board, a ranking as it is shown, and one result: in a sentence and in BibTeX.

The year is that of the numbers that are cited, so a citation says for ever what it says now.
"""

import re
from dataclasses import dataclass
from datetime import date

from leaderboard.formats import latex
from leaderboard.models import LanguageModel, Metric, MetricVersion
from leaderboard.queries.profiles import Profile
from leaderboard.queries.ranking_view import View
from leaderboard.queries.rankings import Ranking
from scoring.metrics.formulas import MEASURES, slice_label

TITLE = "Plumbline: a living leaderboard of representational harm and toxicity in language models"


@dataclass(frozen=True, slots=True)
class Citation:
    """The same citation as text and as BibTeX."""

    text: str
    bibtex: str


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
    """Of the board at `address`, as its last publication left it; of a metric, with the version that readers see.

    One query.
    """
    published = MetricVersion.objects.filter(published_at__isnull=False)
    if metric:
        published = published.filter(metric=metric, status=MetricVersion.Status.CURRENT).order_by("provenance")
    else:
        published = published.order_by("-published_at")
    version = published.first()
    key, year, note = "plumbline", "", ""
    if version and version.published_at:
        year = f"{version.published_at:%Y}"
        key += f"-{year}"
        if metric:
            note = f"{metric.title}, metric version {version.number}, published {version.published_at:%-d %B %Y}"
            key += f"-{metric.slug}-v{version.number}"
            address = f"{address.rstrip('/')}{metric.ranking_url}&version={version.number}"
    text = ". ".join(filter(None, (TITLE, note, year, address)))
    return Citation(text, bibtex(key, TITLE, year, note, address))


def cite_ranking(ranking: Ranking, view: View, day: date, address: str) -> Citation:
    """Of a page of a ranking; `day` is when its numbers were last changed, `address` where it is to be seen."""
    title = f"{ranking.metric.title}: {ranking.measure.label.lower()}, {slice_label(ranking.slice).lower()}"
    title += f", k = {ranking.k}" if ranking.k else ""
    note = "; ".join([*map(numbers_of, ranking.versions), *narrowed(view), f"as of {day:%-d %B %Y}"])
    key = "-".join(["plumbline", ranking.metric.slug, *(f"v{of.number}" for of in ranking.versions), f"{day:%Y%m%d}"])
    text = f"Plumbline ({day.year}). {title}. {note[:1].upper()}{note[1:]}. {address}"
    return Citation(text, bibtex(key, title, str(day.year), note, address))


def cite_result(model: LanguageModel, profile: Profile, address: str) -> Citation | None:
    """Of the metric's first measure on the overall slice; None where the profile has no such number."""
    result = profile.headline
    if result is None:
        return None
    version, measure = profile.version, MEASURES[result.measure]
    texts = version.protocol.evaluation_set
    digits = measure.digits if version.decimals is None else version.decimals
    value = f"{result.value:.{digits}f}"
    if result.derived:
        value += " (derived here from figures of the source, which does not print it)"
    if result.ci_low is not None and result.ci_high is not None:
        value += f" (95% interval {result.ci_low:.{digits}f} to {result.ci_high:.{digits}f})"
    revision = f", revision {model.revision}" if model.revision else ""
    when = profile.scoring.scored_at
    dated = f", {'scored' if version.measured else 'entered'} {when:%-d %B %Y}" if when else ""
    note = (
        f"{measure.label} of {model.name}{revision}: {value}, {slice_label(profile.main).lower()}; "
        f"{numbers_of(version)}{dated}; evaluation set {texts.title}, version {texts.version}"
    )
    title = f"{version.metric.title}: {model.name}"
    year = f"{when:%Y}" if when else ""
    key = f"plumbline-{model.slug}-{version.metric.slug}-v{version.number}"
    text = f"Plumbline{f' ({year})' if year else ''}. {version.metric.title}. {note}. {address}"
    return Citation(text, bibtex(key, title, year, note, address))


def numbers_of(version: MetricVersion) -> str:
    """What fixes the numbers of a version."""
    if not version.measured:
        return f"metric version {version.number}, figures published in {version.source.rstrip('.')}"
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
