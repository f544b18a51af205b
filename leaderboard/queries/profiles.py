"""Everything about one model: each metric's newest numbers in full, and what became of it over versions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db.models import Exists, OuterRef, Q, QuerySet

from leaderboard.models import (
    Artefact,
    AuditEvent,
    LanguageModel,
    MetricVersion,
    OutdatedEntry,
    Provenance,
    Result,
    Scoring,
    Standing,
    Work,
    course_fields,
)
from leaderboard.rankings.digits import digits_of
from leaderboard.rankings.intervals import explain_intervals
from leaderboard.rankings.places import Place, places_of
from leaderboard.services.access import VERBS
from scoring.metrics.formulas import slices_in_order
from scoring.metrics.measures import Measure


@dataclass(frozen=True, slots=True)
class ProfileStep:
    """A version with the model's numbers under it; place: None where these are not ranked."""

    version: MetricVersion
    scoring: Scoring
    place: Place | None


@dataclass(frozen=True, slots=True)
class ArtefactLink:
    """A file behind the numbers; present: whether it is where it should be."""

    label: str
    artefact: Artefact
    present: bool


@dataclass(frozen=True, slots=True)
class ProfileCell:
    """A measure on a slice: its result, None where there is none, and what the model would have if it were indifferent.

    indifferent: where that is a value of the model's own; None for a fixed one, which the measure has.
    """

    measure: Measure
    result: Result | None
    indifferent: float | None


@dataclass(frozen=True, slots=True)
class Profile:
    """A metric's numbers of one provenance: one scoring in full, a row a slice and a column a measure; and its history.

    steps: the versions, oldest first.
    """

    scoring: Scoring
    measures: list[Measure]
    rows: list[tuple[str, list[ProfileCell]]]
    steps: list[ProfileStep]
    downloads: list[ArtefactLink] = field(default_factory=list)

    @property
    def version(self) -> MetricVersion:
        """The version that is shown in full."""
        return self.scoring.metric_version

    @property
    def key(self) -> str:
        """Tells the profiles of a page apart."""
        return f"{self.version.metric.slug}-{self.version.provenance}"

    @property
    def main(self) -> str:
        """The overall slice."""
        return self.rows[0][0] if self.rows else ""

    @property
    def headline(self) -> Result | None:
        """The value of the metric's first measure on the overall slice."""
        first = self.rows[0][1] if self.rows else []
        return next((cell.result for cell in first if cell.measure.key == self.version.first_measure), None)

    @property
    def derived(self) -> bool:
        """Whether any value was worked out here from what its source prints."""
        return any(cell.result.derived for _, cells in self.rows for cell in cells if cell.result)

    @property
    def interval_note(self) -> str:
        """Why published values have intervals from counts or none; empty for measured ones."""
        results = [cell.result for _, cells in self.rows for cell in cells if cell.result]
        return explain_intervals(self.version, self.main, results)

    @property
    def ticked(self) -> bool:
        """Whether ticks of indifferent values are drawn."""
        cells_drawn = (
            cell for _, cells in self.rows for cell in cells if cell.measure.key in self.drawn and cell.result
        )
        return any(cell.indifferent is not None or cell.measure.neutral is not None for cell in cells_drawn)

    @property
    def digits(self) -> int:
        """Decimals of the values of the metric's first measure: as printed, else those of the measure."""
        return digits_of(self.version, self.version.first_measure)

    @property
    def drawn(self) -> set[str]:
        """The measures that are drawn as whiskers: those of demographics, else the metric's first one."""
        formula = self.version.metric.formula
        return {measure.key for measure in formula.ranked} if formula.by_kind else {self.version.first_measure}

    @property
    def place(self) -> Place | None:
        """Where the model stands under the version shown."""
        return next((step.place for step in self.steps if step.version == self.version), None)

    @property
    def newest(self) -> bool:
        """Whether what is shown is the newest there is."""
        return self.steps[-1].version == self.version


def profiles(model: LanguageModel, slug: str = "", number: int | None = None) -> list[Profile]:
    """The model's profiles, in a constant number of queries: of each metric and provenance the newest version.

    Of the metric `slug` version `number` instead, where that is given.
    """
    scorings = list(scorings_of(model))
    groups: dict[tuple[int, str], list[Scoring]] = {}
    for scoring in scorings:
        scoring.model = model
        version = scoring.metric_version
        groups.setdefault((version.metric_id, version.provenance), []).append(scoring)
    shown_scorings = {key: _choose_scoring(group, slug, number) for key, group in groups.items()}
    results: dict[int, list[Result]] = {}
    for result in Result.objects.filter(scoring__in=list(shown_scorings.values())).order_by():
        results.setdefault(result.scoring_id, []).append(result)
    places = places_of(model, [scoring.metric_version for scoring in scorings])
    return [
        _profile(shown_scorings[key], results.get(shown_scorings[key].pk, []), group, places)
        for key, group in groups.items()
    ]


def scorings_of(model: LanguageModel) -> QuerySet[Scoring]:
    """The model's numbers under published versions, by metric and version: what readers may see."""
    return (
        Scoring.objects.filter(model=model, state=Work.State.DONE, metric_version__published_at__isnull=False)
        .select_related(
            "metric_version__metric", "metric_version__protocol__evaluation_set__artefact", "run__artefact", "artefact"
        )
        .select_related("replicates")
        .defer(*course_fields(), *course_fields("run__"))
        .annotate(ranked=Exists(Standing.objects.filter(result__scoring=OuterRef("pk"))))
        .order_by("metric_version__metric__position", "metric_version__metric__slug", "metric_version__number")
    )


def _choose_scoring(group: Sequence[Scoring], slug: str, number: int | None) -> Scoring:
    matches = (s for s in group if s.metric_version.metric.slug == slug and s.metric_version.number == number)
    return next(matches, group[-1])


def _profile(scoring: Scoring, results: list[Result], group: Sequence[Scoring], places: dict[int, Place]) -> Profile:
    cells = {(result.slice, result.measure): result for result in results}
    measure_keys = {result.measure for result in results}
    measures = [group for group in scoring.metric_version.metric.formula.measures.values() if group.key in measure_keys]

    def cell_of(measure: Measure, name: str) -> ProfileCell:
        indifferent = cells.get((name, measure.indifferent_key))
        return ProfileCell(measure, cells.get((name, measure.key)), indifferent.value if indifferent else None)

    rows = [
        (name, [cell_of(measure, name) for measure in measures])
        for name in slices_in_order((result.slice for result in results), scoring.metric_version.declared)
    ]
    steps = [ProfileStep(one.metric_version, one, places.get(one.metric_version_id)) for one in group]
    is_shown = scoring.ranked or bool(scoring.why_unranked)  # type: ignore[attr-defined]
    return Profile(scoring, measures, rows, steps, downloads(scoring, is_shown))


def downloads(scoring: Scoring, is_shown: bool) -> list[ArtefactLink]:
    """The files of a scoring that may be downloaded, as `manifest.entries` has it.

    Those of entries that are ranked, or shown as not ranked (`is_shown`), but for withdrawn and hidden models.
    """
    if not is_shown or scoring.model.is_off_rankings or scoring.metric_version.provenance != Provenance.MEASURED:
        return []
    outputs = scoring.run.artefact if scoring.run else None
    files = (("Outputs of the model", outputs), ("Values of each text", scoring.artefact))
    files_present = [
        (label, artefact) for label, artefact in (*files, ("Bootstrap replicates", scoring.replicates)) if artefact
    ]
    return [ArtefactLink(label, artefact, artefact.state == artefact.State.WHOLE) for label, artefact in files_present]


def list_outdated(model: LanguageModel) -> list[OutdatedEntry]:
    """The current versions under which the model could not be scored, with the reasons, in one query."""
    entries = OutdatedEntry.objects.filter(model=model, metric_version__status=MetricVersion.Status.CURRENT)
    entries = entries.select_related("metric_version__metric", "last_scoring__metric_version")
    return list(entries.defer(*course_fields("last_scoring__")))


def other_revisions(model: LanguageModel) -> list[LanguageModel]:
    """Other entries of the same model, or else of the same name; the newest first, in one query.

    Without those of `newer_and_older`.
    """
    same = Q(identity=model.identity_id) if model.identity_id else Q(name=model.name)
    same |= Q(pk__in=LanguageModel.objects.lineage(model))  # run in another way, under a name of its own
    others = LanguageModel.objects.listed().filter(same).exclude(pk__in=LanguageModel.objects.revisions(model))
    return list(others.order_by("-created_at", "-pk"))


def newer_and_older(model: LanguageModel) -> tuple[list[LanguageModel], list[LanguageModel]]:
    """The other revisions of the model that were entered after it and before it, the newest first, in one query."""
    others = LanguageModel.objects.listed().revisions(model).exclude(pk=model.pk).order_by("-created_at", "-pk")
    newer: list[LanguageModel] = []
    older: list[LanguageModel] = []
    for other in others:
        (newer if (other.created_at, other.pk) > (model.created_at, model.pk) else older).append(other)
    return newer, older


def why_not_open(model: LanguageModel) -> str:
    """What the audit trail gives as the reason for a model's being restricted or withdrawn; "" where it gives none."""
    if model.access == LanguageModel.Access.OPEN:
        return ""
    events = AuditEvent.objects.filter(subject=f"model {model.slug}", verb__in=VERBS.values())
    details = events.values_list("detail", flat=True)
    return next((str(detail["reason"]) for detail in details if detail.get("reason")), "")
