"""The pages that a search can lead to: models, metrics, measures, scorers, demographics, words, documents and papers.

Every entry has a title, other names, words that lead to it, and the address of its page.
"""

import re
import unicodedata
from dataclasses import dataclass
from enum import Enum

from django.urls import reverse

from leaderboard.glossary import TERMS
from leaderboard.models import LanguageModel, Metric, ModelIdentity, ranked_now
from leaderboard.queries.docs import measure_address
from leaderboard.queries.one_demographic import list_demographics
from leaderboard.queries.papers import papers
from leaderboard.rankings.versions import metrics_with_versions
from scoring.metrics.formulas import slice_label

WORDS = re.compile(r"[a-z0-9]+")


class EntryKind(Enum):
    """What an entry is of, in the order of the results, with the title of their list."""

    METRIC = "Metrics"
    MODEL = "Models"
    SCORER = "Scorers"
    DEMOGRAPHIC = "Demographics"
    MEASURE = "Measures"
    TERM = "Words"
    DOCUMENT = "Documents"
    PAPER = "Papers"


@dataclass(frozen=True, slots=True)
class SearchEntry:
    """A page that a search can lead to. names: what it is called beside its title; words: what else it is found by."""

    kind: EntryKind
    title: str
    note: str
    address: str
    words: str = ""
    names: tuple[str, ...] = ()


def split_words(text: str) -> list[str]:
    """The words of a text without case and accents: `GPT-2` is `gpt 2`."""
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return WORDS.findall("".join(letters).casefold())


def list_entries() -> list[SearchEntry]:
    """Every entry, in a constant number of queries."""
    metrics = metrics_with_versions()
    return [
        *metric_entries(metrics),
        *model_entries(),
        *scorer_entries(metrics),
        *demographic_entries(metrics),
        *measure_entries(metrics),
        *term_entries(),
        *document_entries(),
        *paper_entries(),
    ]


def metric_entries(metrics: list[Metric]) -> list[SearchEntry]:
    """Each metric leads to its ranking, or to what it is where nothing is ranked."""
    return [
        SearchEntry(
            EntryKind.METRIC,
            metric.title,
            metric.summary,
            f"{reverse('rankings')}?metric={metric.slug}" if metric.versions.all() else metric.get_absolute_url(),
            f"{metric.slug} {metric.formula.title}",
        )
        for metric in metrics
    ]


def model_entries() -> list[SearchEntry]:
    """Each model of which an entry may be shown, and each such entry that is of no other model."""
    sources: dict[int, set[str]] = {}
    rows = list(LanguageModel.objects.filter(ranked_now()).order_by("name", "pk"))
    for row in rows:
        if row.identity_id:
            sources.setdefault(row.identity_id, set()).update((row.source_name, row.slug, row.location))
    identities = [
        SearchEntry(
            EntryKind.MODEL,
            identity.name,
            ", ".join(filter(None, (identity.family, identity.organisation))),
            identity.get_absolute_url(),
            identity.slug,
            tuple(filter(None, (*identity.aliases, identity.hub_id, *sorted(sources[identity.pk])))),
        )
        for identity in ModelIdentity.objects.filter(pk__in=sources)
    ]
    return identities + [
        SearchEntry(
            EntryKind.MODEL,
            model.name,
            ", ".join(filter(None, (model.family, model.get_kind_display().lower(), model.get_source_display()))),
            model.get_absolute_url(),
            f"{model.slug} {model.location}",
        )
        for model in rows
        if not model.identity_id
    ]


def scorer_entries(metrics: list[Metric]) -> list[SearchEntry]:
    """Each scorer that a metric asks leads to its page."""
    first_metrics: dict[str, Metric] = {}
    for metric in metrics:
        if metric.asked_scorer:
            first_metrics.setdefault(metric.asked_scorer, metric)
    return [
        SearchEntry(
            EntryKind.SCORER,
            scorer.replace("lexicon:", "Lexicon ").capitalize(),
            f"How right the scorer of {metric.title} is, and whether it still gives the scores it gave",
            reverse("scorer", args=[scorer]),
            scorer,
        )
        for scorer, metric in first_metrics.items()
    ]


def demographic_entries(metrics: list[Metric]) -> list[SearchEntry]:
    """Each demographic leads to its page; in one query."""
    return [
        SearchEntry(
            EntryKind.DEMOGRAPHIC,
            slice_label(name),
            "Which models stand first and last on it, by every metric that has it",
            reverse("demographic", args=[name]),
            "demographic group",
            (name,),
        )
        for name in list_demographics(metrics)
    ]


def measure_entries(metrics: list[Metric]) -> list[SearchEntry]:
    """Each measure leads to its definition."""
    formulas = {metric.formula.name: metric.formula for metric in metrics}.values()
    measures = {measure.key: measure for formula in formulas for measure in formula.ranked}.values()
    return [
        SearchEntry(
            EntryKind.MEASURE,
            measure.label,
            measure.explanation,
            measure_address(measure.key),
            measure.key,
        )
        for measure in measures
    ]


def term_entries() -> list[SearchEntry]:
    """Each word of the glossary leads to its meaning."""
    return [
        SearchEntry(EntryKind.TERM, term.name, term.meaning, f"{reverse('docs_glossary')}#{term.key}", term.also)
        for term in TERMS.values()
    ]


def document_entries() -> list[SearchEntry]:
    """The pages that explain the board."""
    return [
        SearchEntry(EntryKind.DOCUMENT, title, note, reverse(name), words) for title, note, name, words in DOCUMENTS
    ]


def paper_entries() -> list[SearchEntry]:
    """The papers whose figures are here."""
    return [
        SearchEntry(EntryKind.PAPER, paper.title, paper.authors, f"{reverse('published')}#{paper.key}", paper.key)
        for paper in papers()
    ]


DOCUMENTS = (
    (
        "How the numbers are computed",
        "Every formula: measures, intervals, ranks, drift",
        "docs_metrics",
        "metrics statistics",
    ),
    ("Glossary", "What the words of this board mean", "docs_glossary", "terms words definitions"),
    ("Operating a board", "Commands, settings, alerts, backups", "docs_operating", "operate deploy admin"),
    ("Adding to a board", "Scorers and metrics of your own", "docs_extending", "extend scorer language"),
    ("Ten changes, step by step", "How to change the code of a board", "docs_changes", "develop contribute formula"),
    (
        "Models that can enter",
        "Which types of models are scored here",
        "docs_model_types",
        "architecture families types",
    ),
    ("The papers, table by table", "What each paper prints, and what this board gives", "docs_papers", "reproduction"),
    ("Threats and protections", "Who could attack a board, and what stops them", "docs_threats", "security"),
    ("Drift", "Can the scorers be trusted today?", "drift", "control set check stable"),
    ("History", "How ranks moved between versions", "history", "rank changes rescoring"),
    ("Demographics", "Who is harmed? Models by demographic", "demographics", "groups heat map"),
    ("Compare models", "Do models differ, and is it significant?", "compare", "difference test"),
    ("Agreement", "Do metrics agree?", "agreement", "correlation spearman pearson"),
    ("Ranks and scorers", "Do ranks depend on the scorer?", "scorer_ranks", "sensitivity robust Kendall's W bump"),
    ("Submit a model", "By hub id, by outputs, or by results of another tool", "submit", "upload enter"),
    ("About", "Purpose, citation, licences, limits", "about", "cite licence contact"),
    ("API", "Everything for programs", "api_guide", "json openapi token"),
)
