"""Verification: what is published follows from what is stored.

Of measured versions every artefact is hashed, those of control sets and checks too, every Result recomputed from the
artefacts, and every Standing from the Results. What a scorer said of texts is hashed only: to say it again is a
rescoring. Files that are deliberately not kept here are counted, and are no difference. Of a version whose formula this
code has changed since, the measures that it has left as they were are recomputed, and the others are named. Figures
from papers are held against the files they were entered from.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from django.db import transaction

from leaderboard.models import (
    Artefact,
    Calibration,
    ControlCheck,
    ControlSet,
    Metric,
    MetricVersion,
    Result,
    Scoring,
    Standing,
    Work,
)
from leaderboard.services import artefacts
from leaderboard.services.figures import Figure
from leaderboard.services.publish import influences, ranked_measures, standings
from leaderboard.services.published import PUBLICATIONS
from leaderboard.services.recollect import CannotRecollect, recollect
from leaderboard.services.score import gather_inputs
from scoring import reproduction
from scoring.artefacts import ArtefactError
from scoring.reproduction import Recomputation, describe_left_out, recompute

ARTEFACTS_OF_A_SET = ("artefact", "prompt_scores")
Progress = Callable[[int, int], None]  # entries done, and in all
ABSENT = "whose files are deliberately not kept here: the board was imported without them"
RANKED = ("rank", "value", "result_id")  # of a standing
RANGED = ("rank_low", "rank_high")


@dataclass(frozen=True)
class Difference:
    """A published number that does not follow from the stored files, or a damaged file."""

    version: str
    entry: str  # slug of the model; empty where it is of the version as a whole
    what: str

    def __str__(self) -> str:
        return f"{self.version}{f', {self.entry}' if self.entry else ''}: {self.what}"


@dataclass
class Verification:
    """What was verified, and the differences. results: those that were recomputed."""

    versions: int = 0
    entries: int = 0
    results: int = 0
    standings: int = 0
    artefacts: int = 0
    recollected: int = 0  # texts that were taken through their models again
    absent: int = 0  # files that are deliberately not kept here
    differences: list[Difference] = field(default_factory=list)
    not_recomputed: list[str] = field(default_factory=list)  # what of, and why


@dataclass(frozen=True)
class Published:
    """A version as it stood at one moment."""

    version: MetricVersion
    scorings: list[Scoring]
    results: dict[int, list[Result]]  # by scoring
    standings: list[Standing]


def verify(
    metric: Metric | None = None, progress: Progress = lambda _count, _total: None, sample_size: int = 0
) -> Verification:
    """Verify all published versions of `metric`, or of every metric.

    sample_size: random texts of each run that its model is asked about again, where it is at hand.
    """
    versions = MetricVersion.objects.filter(published_at__isnull=False)
    versions = versions.filter(metric=metric) if metric else versions
    published_versions = list(
        versions.select_related("metric", "prompt_scores", *sets()).order_by("metric__position", "number")
    )
    total = Scoring.objects.filter(metric_version__in=published_versions, state=Work.State.DONE).count()
    return Verifier(progress, total, sample_size).all(published_versions)


def sets() -> list[str]:
    """What belongs to a version's evaluation set, for select_related."""
    return [f"protocol__evaluation_set__{name}" for name in ARTEFACTS_OF_A_SET]


class Verifier:
    """One verification: hashes each artefact once, and keeps the texts of one evaluation set at a time."""

    def __init__(self, progress: Progress, total: int, sample_size: int) -> None:
        self.found = Verification()
        self._sample_size = sample_size
        self._runs: set[int] = set()  # whose texts were taken through the model again
        self._progress, self._total = progress, total
        self._intact: dict[int, str] = {}  # by artefact: what is wrong with it, empty where nothing is
        self._texts: tuple[int, pa.Table] | None = None
        self._absent: dict[int, bool] = {}

    def all(self, versions: Iterable[MetricVersion]) -> Verification:
        """Verify `versions`."""
        for version in versions:
            published_rows = snapshot(version)
            self.found.versions += 1
            if version.measured:
                self._verify_measured(published_rows)
            else:
                self._verify_figures(published_rows)
            self._verify_ranks(published_rows)
        return self.found

    def _note(self, version: MetricVersion, scoring: Scoring | None, problems: Iterable[str]) -> None:
        entry = scoring.model.slug if scoring else ""
        self.found.differences += [Difference(str(version), entry, sentence) for sentence in problems]

    def _step(self, result_count: int) -> None:
        self.found.entries += 1
        self.found.results += result_count
        self._progress(self.found.entries, self._total)

    def _verify_measured(self, published_rows: Published) -> None:
        version = published_rows.version
        texts = version.protocol.evaluation_set
        shared_files = [texts.artefact, texts.prompt_scores, version.prompt_scores]
        damages = list(filter(None, map(self._damage, shared_files)))
        self._note(version, None, damages)
        self._note(version, None, filter(None, map(self._damage, of_controls(version))))
        formula = version.metric.formula
        left_out: set[str] = set()
        refusal = ""
        without_files = 0
        for scoring in published_rows.scorings:
            results = published_rows.results.get(scoring.pk, [])
            own_files = [scoring.run.artefact if scoring.run else None, scoring.artefact, scoring.replicates]
            wrong = list(filter(None, map(self._damage, own_files)))
            entry = Recomputation(wrong, 0, frozenset())
            if any(list(map(self._is_absent, [*shared_files, *own_files]))):
                without_files += 1
            elif not wrong and not damages:
                entry = self._recompute(scoring, results)
                self._note(version, scoring, self._recollect(scoring))
            self._note(version, scoring, entry.differences)
            self._step(entry.compared)
            left_out |= entry.left_out
            refusal = refusal or entry.refusal
        note = describe_left_out(formula, version.formula_version, left_out, refusal)
        self.found.not_recomputed += [f"{version}: {note}; their files were hashed"] if note else []
        if without_files:
            self.found.not_recomputed.append(f"{version}: {without_files} entries, {ABSENT}")

    def _recompute(self, scoring: Scoring, results: list[Result]) -> Recomputation:
        """Compute one entry again whose artefacts are whole."""
        nothing = frozenset[str]()
        if scoring.run is None or scoring.run.artefact is None or scoring.artefact is None:
            return Recomputation(["has no stored outputs or scores: nothing can be recomputed"], 0, nothing)
        version = scoring.metric_version
        try:
            texts, outputs = self._load_texts(version), artefacts.load(scoring.run.artefact)
            values = artefacts.load(scoring.artefact)
            replicates = artefacts.load(scoring.replicates) if scoring.replicates else None
            return recompute(
                version.metric.formula,
                version.formula_version,
                gather_inputs(scoring, texts, outputs, values),
                replicates,
                {(result.measure, result.slice): numbers_of(result) for result in results},
            )
        except (artefacts.ArtefactLost, ArtefactError, ValueError, KeyError) as error:
            return Recomputation([f"cannot be recomputed: {error}"], 0, nothing)

    def _recollect(self, scoring: Scoring) -> list[str]:
        """What differs where some texts of the entry's run are taken through the model again; each run once."""
        run = scoring.run
        if not self._sample_size or run is None or run.pk in self._runs:
            return []
        self._runs.add(run.pk)
        try:
            count, differences = recollect(run, self._sample_size)
        except CannotRecollect as error:
            self.found.not_recomputed.append(f"{run}: no text was taken through the model again: {error}")
            return []
        self.found.recollected += count
        return differences

    def _load_texts(self, version: MetricVersion) -> pa.Table:
        artefact = version.protocol.evaluation_set.artefact
        if artefact is None:
            raise ArtefactError("the evaluation set has no texts here")
        if self._texts is None or self._texts[0] != artefact.pk:
            self._texts = artefact.pk, artefacts.load(artefact)
        return self._texts[1]

    def _damage(self, artefact: Artefact | None) -> str:
        """What is wrong with a stored file; empty where nothing is, or none is meant to be there."""
        if artefact is None:
            return ""
        if self._is_absent(artefact):
            return ""
        if artefact.pk not in self._intact:
            self.found.artefacts += 1
            self._intact[artefact.pk] = damage(artefact)
        return self._intact[artefact.pk]

    def _is_absent(self, artefact: Artefact | None) -> bool:
        """Whether the file is deliberately not kept here."""
        if artefact is None or artefact.state != Artefact.State.ABSENT:
            return False
        if artefact.pk not in self._absent:
            self._absent[artefact.pk] = not artefacts.is_stored(artefact)
            self.found.absent += self._absent[artefact.pk]
        return self._absent[artefact.pk]

    def _verify_figures(self, published_rows: Published) -> None:
        """Compare figures from a paper with the file that they were entered from."""
        version = published_rows.version
        publication = next(
            (
                candidate
                for candidate in PUBLICATIONS
                if (candidate.metric, candidate.source) == (version.metric.slug, version.source)
            ),
            None,
        )
        if publication is None:
            self.found.not_recomputed.append(f"{version}: {version.source} is no source that comes with this code")
            return
        figures: dict[str, list[Figure]] = {}
        for figure in publication.figures():
            figures.setdefault(publication.slug(figure.model), []).append(figure)
        if publication.decimals != version.decimals:
            self._note(version, None, [f"decimals are {version.decimals}, those of the source {publication.decimals}"])
        for scoring in published_rows.scorings:
            results = published_rows.results.get(scoring.pk, [])
            self._note(version, scoring, figure_differences(results, figures.pop(scoring.model.slug, [])))
            self._step(len(results))
        self._note(version, None, [f"{slug}: the source has it, and it is not entered" for slug in figures])

    def _verify_ranks(self, published_rows: Published) -> None:
        """Hold the standings against those that follow from the results.

        Of a version of another formula only on measures that this code defines, and so ranks, as that did.
        """
        version = published_rows.version
        keys = set(ranked_measures(version))
        if version.measured:
            keys &= version.metric.formula.measures_as_of(version.formula_version)
        stored_standings = [standing for standing in published_rows.standings if standing.measure in keys]
        other = {standing.measure for standing in published_rows.standings} - keys
        if other:
            self.found.not_recomputed.append(f"{version}: ranks on {', '.join(sorted(other))}, for the same reason")
        fields = RANKED if version.ranges_due else (*RANKED, *RANGED)
        if version.ranges_due:
            self.found.not_recomputed.append(f"{version}: ranges of ranks, which the next watch makes anew")
        self.found.standings += len(stored_standings)
        ranked_models = {standing.model_id for standing in stored_standings}
        # Who was withdrawn or hidden after the last publication stays on it until the next.
        absent_models = {scoring.model_id for scoring in published_rows.scorings if scoring.model.is_off_rankings}
        scorings = [
            scoring
            for scoring in published_rows.scorings
            if scoring.model_id in ranked_models or scoring.model_id not in absent_models
        ]
        results = [r for scoring in scorings for r in published_rows.results.get(scoring.pk, []) if r.measure in keys]
        try:
            moves = influences(version, scorings, keys) if version.measured and scorings and keys else {}
            recomputed_standings = list(standings(version, scorings, results, moves))
        except artefacts.ArtefactLost as error:
            if self._is_absent(error.artefact):
                self.found.not_recomputed.append(f"{version}: ranks, {ABSENT}")
            else:
                self._note(version, None, [f"ranks cannot be recomputed: {error}"])
            return
        except (ArtefactError, ValueError) as error:
            self._note(version, None, [f"ranks cannot be recomputed: {error}"])
            return
        self._note(
            version,
            None,
            standing_differences(
                stored_standings,
                recomputed_standings,
                fields,
                {
                    **{standing.model_id: standing.model.slug for standing in stored_standings},
                    **{scoring.model_id: scoring.model.slug for scoring in scorings},
                },
            ),
        )


def snapshot(version: MetricVersion) -> Published:
    """The rows of a version, read in one transaction, so that what is published meanwhile is no difference."""
    with transaction.atomic():
        scorings = list(
            version.scorings.filter(state=Work.State.DONE)
            .select_related(
                "model",
                "artefact",
                "replicates",
                "run__artefact",
                "run__model",
                "run__protocol__evaluation_set__artefact",
            )
            .order_by("model__name", "pk")
        )
        results: dict[int, list[Result]] = {}
        for result in Result.objects.filter(scoring__metric_version=version, scoring__state=Work.State.DONE):
            results.setdefault(result.scoring_id, []).append(result)
        standing_rows = list(version.standings.select_related("model"))
    for scoring in scorings:
        scoring.metric_version = version  # with its evaluation set, which is the same for all
    return Published(version, scorings, results, standing_rows)


def of_controls(version: MetricVersion) -> Iterator[Artefact | None]:
    """The files that the watch over the version's scorer is made of, and its scores of labelled texts."""
    for control_set in ControlSet.objects.filter(metric_version=version).select_related("items", "reference"):
        yield control_set.items
        yield control_set.reference
    checks = ControlCheck.objects.filter(control_set__metric_version=version, artefact__isnull=False)
    yield from (check.artefact for check in checks.select_related("artefact"))
    calibrations = Calibration.objects.filter(metric_version=version, artefact__isnull=False)
    yield from (calibration.artefact for calibration in calibrations.select_related("artefact"))


def damage(artefact: Artefact) -> str:
    """What is wrong with a stored file, read now; empty where its bytes are those of its name. Raises StorageAway."""
    try:
        artefacts.verify_stored(artefact, reread=True)
    except artefacts.ArtefactLost as error:
        return str(error)
    return ""


def numbers_of(result: Result) -> dict[str, Any]:
    """A Result by the names that `scoring.reproduction` knows."""
    return {name: getattr(result, name) for name in reproduction.FIELDS}


def figure_differences(results: list[Result], figures: list[Figure]) -> Iterator[str]:
    """Say where results are not what the source prints."""
    source_figures = {(row.measure, row.slice): (row.value, row.n, row.rank) for row in figures if not row.derived}
    entered_numbers = {
        (row.measure, row.slice): (row.value, row.n, row.published_rank) for row in results if not row.derived
    }
    for place in sorted(source_figures.keys() | entered_numbers.keys()):
        own_numbers, source_numbers = entered_numbers.get(place), source_figures.get(place)
        if own_numbers != source_numbers:
            yield f"{' of '.join(place)}: entered as {own_numbers}, the source has {source_numbers} (value, n, rank)"
    source_ends, own_ends = (
        {(row.measure, row.slice): (row.ci_low, row.ci_high) for row in group if row.interval_derived}
        for group in (figures, results)
    )
    for place in sorted(source_ends.keys() | own_ends.keys()):
        pairs = zip(own_ends.get(place, (None, None)), source_ends.get(place, (None, None)), strict=True)
        if not all(reproduction.same(own, source) for own, source in pairs):
            yield f"{' of '.join(place)}: interval {own_ends.get(place)}, from counts {source_ends.get(place)} follows"
    source_values = {(row.measure, row.slice): row.value for row in figures if row.derived}
    own_values = {(row.measure, row.slice): row.value for row in results if row.derived}
    for place in sorted(source_values.keys() | own_values.keys()):
        if not reproduction.same(own_values.get(place), source_values.get(place)):
            name = " of ".join(place)
            own_value, source_value = own_values.get(place), source_values.get(place)
            yield f"{name}: stored as derived {own_value}, from the source {source_value} follows"


def standing_differences(
    stored_standings: Iterable[Standing],
    expected_standings: Iterable[Standing],
    fields: Sequence[str],
    slugs: Mapping[int, str],
) -> Iterator[str]:
    """Say where standings are not those that follow, by these `fields`. slugs: of their models, by key."""
    names: dict[tuple[Any, ...], str] = {}

    def by_place(rows: Iterable[Standing]) -> dict[tuple[Any, ...], dict[str, Any]]:
        places: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in rows:
            place = (row.measure, row.slice, row.population, row.model_id)
            names[place] = f"rank of {slugs[row.model_id]} on {row.measure} of {row.slice}, population {row.population}"
            places[place] = {name: getattr(row, name) for name in fields}
        return places

    stored_rows, expected_rows = by_place(stored_standings), by_place(expected_standings)
    for place in sorted(stored_rows.keys() | expected_rows.keys(), key=str):
        if place not in expected_rows:
            yield f"{names[place]}: is published, and does not follow from the results"
        elif place not in stored_rows:
            yield f"{names[place]}: follows from the results, and is not published"
        elif stored_rows[place] != expected_rows[place]:
            other_fields = [name for name in fields if stored_rows[place][name] != expected_rows[place][name]]
            stored_text, expected_text = (
                ", ".join(f"{name} {side[place][name]}" for name in other_fields)
                for side in (stored_rows, expected_rows)
            )
            yield f"{names[place]}: is published with {stored_text}; {expected_text} follows"
