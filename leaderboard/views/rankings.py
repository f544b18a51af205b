"""Who stands where, now?"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from urllib.parse import urlencode

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.citations import Citation, cite_ranking
from leaderboard.models import LanguageModel, Metric, Provenance, Rescoring, Run, Scoring, Standing, Work, is_listed
from leaderboard.queries.scenarios import base_part, scenario_views
from leaderboard.queries.scorer_ranks import count_scorers
from leaderboard.queries.scorer_state import scorer_state
from leaderboard.rankings.days import MOST_SHOWN
from leaderboard.rankings.exports import CONTENT_TYPES, file_name, write
from leaderboard.rankings.populations import apart_populations
from leaderboard.rankings.ranking import Ranking
from leaderboard.rankings.rows import read_rankings
from leaderboard.rankings.selection import BOTH, usual_columns
from leaderboard.rankings.sheets import sheet_of
from leaderboard.rankings.slices import ranked_measures
from leaderboard.rankings.versions import (
    NoRanking,
    current_versions,
    has_history,
    metrics_with_versions,
    published_versions,
)
from leaderboard.rankings.view import AS_PROTOCOL, CONTEXTS, EXTRAS, ROWS, SIZES, SLICE, UNKNOWN, WEIGHTS, Filters
from leaderboard.rankings.words import explanations, order_in_words
from leaderboard.services.scorers import problem_with
from leaderboard.views.clients import require_client
from leaderboard.views.frames import frame_of, oembed_address
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import families
from leaderboard.views.polling import SEEN, STILL, describe_polling, render_polled
from leaderboard.views.ranking_address import PARAMETERS, WITHIN_KIND, RankingChoice, parse
from scoring.metrics.formulas import MEASURES, slice_label, slice_parts
from scoring.metrics.measures import slice_of
from scoring.scorers import ScorerUnavailable

SHOWN_OF_WORK = ("state", "reason", "done", "total", "seconds", "model__name", "model__slug")


@dataclass(frozen=True)
class Field:
    """A filter: its values with their labels, and the one that is chosen."""

    name: str
    label: str
    choices: list[tuple[str, str]]
    value: str = ""

    def with_its_value(self) -> "Field":
        """The same, with the chosen value among the others even where no model here has it."""
        if not self.value or self.value in dict(self.choices):
            return self
        return replace(self, choices=[*self.choices, (self.value, self.value)])


@dataclass(frozen=True)
class ColumnOption:
    """A column that can be shown or not."""

    name: str
    label: str
    chosen: bool


@dataclass(frozen=True)
class Scenario:
    """One of the three views of Pozzobon et al. 2023 of the same outputs."""

    label: str
    note: str
    address: str
    chosen: bool


@dataclass(frozen=True)
class Shown:
    """A ranking of the page with its words, and the ways to take it away."""

    ranking: Ranking
    citation: Citation
    downloads: list[tuple[str, str]]
    frame: str  # the HTML that shows it in other pages
    alone: dict[str, str]  # by population, the address of a view of that table alone
    value_label: str
    date_label: str
    explanations: list[tuple[str, str]]
    scorers: int  # that have judged the same texts

    @property
    def is_of_pre_training(self) -> bool:
        """Whether it ranks chat entries by likelihoods, which are of raw text."""
        rows = [row for group in self.ranking.groups for row in group.rows]
        return not self.ranking.metric.protocol.outputs.sampled and any(row.model.is_chat for row in rows)

    @property
    def column_words(self) -> list[tuple[str, str]]:
        """What each column means, by its label."""
        labels = {**EXTRAS, "value": self.value_label, "slice": "The columns after these"}
        return [(labels.get(key, key.capitalize()), sentence) for key, sentence in self.explanations]


@require_safe
@keep_page(shows_progress=True, reads=(*PARAMETERS, "show"))
def rankings(request: HttpRequest) -> HttpResponse:
    """The ranking page. Without `provenance` published figures follow in a table of their own."""
    metrics = metrics_with_versions()
    choice = parse(request, metrics)
    if "show" in request.GET:  # the form of a browser without script names all its fields
        return redirect(request.path + choice.here)
    is_current = choice.as_of is None
    scorer = scorer_state(choice.metric) if is_current else None
    works = work_under_way(choice.metric, scorer.rescoring) if scorer else []
    is_moving = any(work.state in (Work.State.QUEUED, Work.State.RUNNING) for work in works)
    poll = describe_polling(request, is_moving or bool(scorer and scorer.rescoring)) if is_current else STILL
    require_client(request)
    tables, problem = read_tables(choice) if poll["fresh"] else ([], "")
    require_client(request)
    context = {
        "families": families([metric for metric in metrics if metric.versions.all()]),
        "unfilled": [metric for metric in metrics if not metric.versions.all()],
        "choice": choice,
        "measures": choice.metric.formula.ranked,
        "provenances": [*Provenance.choices, (BOTH, "Both in one ranking")],
        "kinds": population_choices(choice),
        "versions": published_versions(choice.metric),
        "problem": None if only_published(choice.metric) else scorer_problem(choice.metric),
        "scenarios": scenarios(choice),
        "reading": f"reading/{choice.metric.formula_name}.html",
        "tables": [
            present_ranking(request, choice, table, count_scorers(metrics, table.versions[0])) for table in tables
        ],
        "why_empty": problem,
        "measure_label": MEASURES[choice.measure].label,
        "other_numbers": "" if tables or problem else find_other_numbers(choice),
        "with_numbers": [] if tables or problem else list_other_measures(choice),
        "narrowing": list_filters(choice, tables),
        "columns": columns(choice),
        "row_choices": ROWS,
        "now": choice.address(as_of=""),
        "order_said": order_in_words(choice.view.order),
        "works": works,
        "scorer": scorer,
        "has_history": has_history(choice.metric),
        "oembed": oembed_address(request, choice.here),
        **poll,
    }
    response = render_polled(request, "rankings.html", context)
    if SEEN not in request.headers:  # what polls is no view of its own
        response["HX-Push-Url"] = request.path + choice.here
    return response


def scorer_problem(metric: Metric) -> ScorerUnavailable | None:
    """Why the metric's scorer cannot be had here; `in_use` saves asking whether it is retired."""
    return problem_with(metric.scorer, {} if vars(metric).get("in_use") else None)


@require_safe
@keep_page(reads=PARAMETERS)
def export(request: HttpRequest, name: str) -> HttpResponse:
    """The first ranking that the page of the same address shows, whole, in the format called `name`."""
    choice = parse(request, metrics_with_versions())
    whole = replace(choice, view=replace(choice.view, rows=None, page=1), rankings=choice.rankings[:1])
    tables, problem = read_tables(whole)
    if not tables:
        raise Http404(problem or "There is nothing to export: this view has no numbers yet")
    sheet = sheet_of(tables[0])
    address = request.build_absolute_uri(reverse("rankings") + choice.address(**choice.of_ranking(tables[0].selection)))
    response = HttpResponse(write(sheet, name, address), content_type=CONTENT_TYPES[name])
    file = file_name(sheet, name, day_of(choice, tables[0]))
    response["Content-Disposition"] = f'attachment; filename="{file}"'
    return response


def read_tables(choice: RankingChoice) -> tuple[list[Ranking], str]:
    """The rankings; or why there are none. Raises Http404 where a page or a family does not exist."""
    try:
        tables = read_rankings(choice.rankings, choice.view)
    except NoRanking as error:
        return [], str(error)
    last = max((table.pages for table in tables), default=1)
    if choice.view.page > last:
        raise Http404(f"page = {choice.view.page}: the last page here is {last}")
    refuse_absent(choice.view.filters, tables)
    return tables, "" if tables or choice.as_of is None else before_all(choice)


def refuse_absent(filters: Filters, tables: list[Ranking]) -> None:
    """Raise Http404 where a filter names what no model of the board has."""
    for name, plural in (("family", "families"), ("weight_format", "weight_formats"), ("licence", "licences")):
        value = getattr(filters, name)
        if not value or (value == UNKNOWN and name != "family"):
            continue
        is_present = any(value in getattr(table.choices, plural) for table in tables)
        if not is_present and not LanguageModel.objects.listed().filter(**{name: value}).exists():
            raise Http404(f"{name} = {value[:MOST_SHOWN]!r} does not exist here")


def before_all(choice: RankingChoice) -> str:
    """Why nothing stood on the day asked for; "" where nothing of the provenance asked for ever did."""
    versions = published_versions(choice.metric)
    if not versions:
        return "This metric has no published version yet."
    provenances = [choice.provenance] if choice.provenance in Provenance.values else Provenance.values
    candidates = [choice.version] if choice.version else versions
    first = next((version for version in candidates if version.provenance in provenances), None)
    if first is None:
        return ""
    ordinal, day = "that" if choice.version else "the first", f"{first.published_at:%-d %B %Y}"
    numbers = {"measured": " of measured numbers", "published": " of published figures"}
    words = f"{ordinal} version{numbers.get(choice.provenance, '')}"
    return f"No such ranking stood at the end of that day: {words} was published on {day}."


def list_other_measures(choice: RankingChoice) -> list[tuple[str, str]]:
    """The measures that have numbers where the chosen one has none: label and address of each."""
    anywhere = dict.fromkeys(("slice", "version", "as_of", "provenance", "sort", "columns"), "")
    return [
        (measure.label, choice.address(measure=measure.key, **anywhere))
        for measure in ranked_measures(choice.metric)
        if measure.key != choice.measure
    ]


def find_other_numbers(choice: RankingChoice) -> str:
    """The query of the numbers that the metric has where it has none of the provenance asked for; "" elsewhere."""
    provenances = {version.provenance for version in current_versions(choice.metric, Provenance.values)}
    if choice.provenance not in Provenance.values or choice.provenance in provenances or not provenances:
        return ""
    return choice.address(provenance="", version="")


def population_choices(choice: RankingChoice) -> list[tuple[str, str]]:
    """Among whom to rank, where the page ranks some models apart: value and label of each."""
    versions = [version for selection in choice.rankings for version in selection.versions]
    populations = [*dict.fromkeys(name for version in versions for name in apart_populations([version]))]
    by_kind = choice.metric.formula.by_kind
    if not populations and by_kind:
        populations = list(LanguageModel.Kind.values)
    if not populations:
        return []
    usual, everyone = (
        ("Models of the same kind", "All kinds") if by_kind else ("Raw text and chat apart", "All together")
    )
    labels = [(name, Standing.Population(name).label) for name in populations]
    return [(WITHIN_KIND, usual), (Standing.Population.ALL.value, everyone), *labels]


def present_ranking(request: HttpRequest, choice: RankingChoice, ranking: Ranking, scorers: int) -> Shown:
    """A ranking with its citation and downloads, all of it alone, and pinned to its day.

    scorers: how many have judged the same texts.
    """
    alone = choice.of_ranking(ranking.selection)
    day = day_of(choice, ranking)
    # A number alone would not pin the numbers: entries still join or leave its version.
    pinned_query = choice.address(**alone, as_of=day.isoformat(), page=choice.asked["page"])
    is_divided = bool(apart_populations(ranking.versions))
    return Shown(
        ranking=ranking,
        citation=cite_ranking(
            ranking, choice.view, day, request.build_absolute_uri(reverse("rankings") + pinned_query)
        ),
        downloads=[
            (label, reverse("export", args=[name]) + choice.address(**alone))
            for name, label in (("csv", "CSV"), ("json", "JSON"), ("latex", "LaTeX"), ("markdown", "Markdown"))
        ],
        frame=frame_of(request, choice.address(**alone, page=choice.asked["page"]), ranking),
        alone={
            group.population: choice.address(**alone, **({"kind": group.population} if is_divided else {}))
            for group in ranking.groups
        },
        value_label=slice_label(ranking.slice) + (f", k = {ranking.k}" if ranking.k else ""),
        date_label="Scored" if ranking.versions[0].measured else "Entered",
        explanations=explanations(ranking),
        scorers=scorers,
    )


def day_of(choice: RankingChoice, ranking: Ranking) -> date:
    """The day that the numbers of a ranking are of: the one asked for, or that of the last change."""
    newest = ranking.newest or datetime(1970, 1, 1, tzinfo=UTC)
    return choice.as_of or newest.date()


def list_filters(choice: RankingChoice, tables: list[Ranking]) -> list[Field]:
    """The filters, each with what there is to choose from."""
    filters = choice.view.filters

    def chosen_from(name: str) -> list[str]:
        """What the tables' models have, sorted."""
        values = set().union(*(getattr(table.choices, name) for table in tables))
        return sorted(map(str, values - {""}), key=str.lower)

    def same(values: Iterable[str]) -> list[tuple[str, str]]:
        """Values that are their own labels."""
        return [(value, value) for value in values]

    kinds, accesses, sources = (chosen_from(name) for name in ("kinds", "accesses", "sources"))
    years = chosen_from("years")[::-1]
    fields = [
        Field("family", "Family", same(chosen_from("families"))),
        Field("model_kind", "Kind of model", [option for option in LanguageModel.Kind.choices if option[0] in kinds]),
        Field("size", "Parameters", [*((key, band.label) for key, band in SIZES.items()), (UNKNOWN, "Unknown")]),
        Field(
            "context", "Context length", [*((key, band.label) for key, band in CONTEXTS.items()), (UNKNOWN, "Unknown")]
        ),
        Field("prompting", "Asked as", LanguageModel.Prompting.choices),
        Field("precision", "Precision", [(AS_PROTOCOL, "As the protocol says"), *same(chosen_from("precisions"))]),
        Field("weight_format", "Weights stored as", [*same(chosen_from("weight_formats")), (UNKNOWN, "Unknown")]),
        Field("weights", "Weights", list(WEIGHTS.items())),
        Field("licence", "Licence", [*same(chosen_from("licences")), (UNKNOWN, "Unknown")]),
        Field("released", "Released in", [*same(years), (UNKNOWN, "Unknown")]),
        Field("access", "Access", [option for option in LanguageModel.Access.choices if option[0] in accesses]),
        Field("source", "Source", [option for option in LanguageModel.Source.choices if option[0] in sources]),
        Field("without", "Miniatures", [(LanguageModel.Source.BUNDLED.value, "Left out")]),
    ]
    return [replace(field, value=getattr(filters, field.name)).with_its_value() for field in fields]


def columns(choice: RankingChoice) -> list[ColumnOption]:
    """The columns that can be shown beside the value."""
    selection = choice.view.columns
    usual = usual_columns(choice.metric, choice.slice, choice.slices)
    extras = [(name, label) for name, label in EXTRAS.items() if name != "refusals" or choice.metric.has_chat_protocol]
    labels = [*extras, *((SLICE + name, slice_label(name)) for name in choice.slices if name != choice.slice)]
    return [ColumnOption(name, label, name in (usual if selection is None else selection)) for name, label in labels]


def only_published(metric: Metric) -> bool:
    """Whether all it shows is figures of papers, for which nobody needs its scorer."""
    versions = published_versions(metric)
    return bool(versions) and not any(version.measured for version in versions)


def scenarios(choice: RankingChoice) -> list[Scenario]:
    """Which version's scores of the continuations are shown, and whose scores of the prompts split them.

    Versions of one provenance only: that of the chosen version, else of the last. Nothing where the prompts are not
    split by published scores, or nothing is ranked yet.
    """
    attribute, part = slice_parts(choice.slice)
    versions = published_versions(choice.metric)
    base = base_part(part)

    def name_slice(part: str) -> str:
        return slice_of(attribute, part) if attribute else part

    if not versions or name_slice(base) not in choice.slices:
        return []
    shown_version = choice.version or versions[-1]
    return [
        Scenario(
            view.label,
            view.note,
            "?"
            + urlencode(
                {
                    "metric": choice.metric.slug,
                    "measure": choice.measure,
                    "slice": name_slice(base + view.suffix),
                    "version": view.version.number,
                }
            ),
            choice.version is not None and view.version == shown_version and part == base + view.suffix,
        )
        for view in scenario_views([version for version in versions if version.provenance == shown_version.provenance])
        if name_slice(base + view.suffix) in choice.slices
    ]


def work_under_way(metric: Metric, rescoring: Rescoring | None) -> list[Run | Scoring]:
    """What evaluations that are waiting, running or failed are at: the model's outputs, then their scores.

    Entries that wait for a rescoring to score what was collected are left out: it says how many are done.
    """
    unfinished_scorings = (
        Scoring.objects.filter(is_listed("model__"), metric_version__metric=metric, run__isnull=False)
        .exclude(state__in=[Work.State.DONE, Work.State.CANCELLED])
        .select_related("model", "run__model", "run__protocol__evaluation_set")
        .only(*SHOWN_OF_WORK, *(f"run__{name}" for name in SHOWN_OF_WORK), "run__protocol__evaluation_set__title")
    )
    if rescoring:
        is_waiting = Q(state__in=[Work.State.QUEUED, Work.State.RUNNING], run__state=Work.State.DONE)
        unfinished_scorings = unfinished_scorings.exclude(is_waiting, metric_version=rescoring.to_version)
    return [
        scoring if scoring.run.state == Work.State.DONE else scoring.run
        for scoring in unfinished_scorings
        if scoring.run
    ]
