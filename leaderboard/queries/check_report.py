"""One control check in full: what it asked, level by level, how scores moved, and what was done about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from leaderboard.models import ControlCheck, LanguageModel, Metric, Rescoring, Work
from leaderboard.numbers import decimals
from leaderboard.services import artefacts
from scoring.artefacts import SCORE, ArtefactError
from scoring.drift import (
    BAND_LIMITS,
    Detectable,
    DriftReport,
    Finding,
    Level,
    MeasureChange,
    Movement,
    NoiseTests,
    PairedTests,
)
from scoring.metrics.formulas import MEASURES, slice_phrase

BINS = 20
MOST_FINDINGS = 8  # that are spelt out at a level; the others are counted
MOST_MOVES = 10


@dataclass(frozen=True, slots=True)
class CheckLevel:
    """A level of a check: its question, whether it fired (None: not asked), and what was found."""

    level: str
    question: str
    fired: bool | None
    answer: str
    details: list[str]


@dataclass(frozen=True, slots=True)
class Distance:
    """How an attribute moved over all texts; the tests are None where no text has both scores.

    noise, detectable: None in reports of schema 1.
    """

    movement: Movement
    tests: PairedTests | None
    noise: NoiseTests | None
    detectable: Detectable | None


@dataclass(frozen=True, slots=True)
class ReportedChange:
    """A reported measure's change, with what to call it by."""

    change: MeasureChange

    @property
    def label(self) -> str:
        """The measure, as people call it."""
        return MEASURES[self.change.measure].label

    @property
    def digits(self) -> int:
        """Decimals enough to see the margin."""
        return MEASURES[self.change.measure].digits + 1


@dataclass(frozen=True, slots=True)
class Histogram:
    """Control texts by score: `edges` [bins + 1], how many had and have one in each bin, and the medians of both."""

    edges: list[float]
    before: list[int]
    after: list[int]
    medians: tuple[float, float]

    @property
    def rows(self) -> list[tuple[float, float, int, int, int]]:
        """Each bin from, to, with both counts and their difference."""
        bins = zip(self.edges, self.edges[1:], self.before, self.after, strict=False)
        return [(low, high, old_count, new_count, new_count - old_count) for low, high, old_count, new_count in bins]


@dataclass(frozen=True, slots=True)
class PartMovement:
    """How an attribute moved among some of the texts, the flips that are material there, and what the check made of it.

    level: the highest at which something was found of the part; None where nothing was.
    """

    movement: Movement
    flips_limit: int
    level: Level | None

    @property
    def name(self) -> str:
        """Of the demographic or stratum."""
        return self.movement.demographic or self.movement.stratum or ""

    @property
    def verdict(self) -> str:
        """Of this part alone, in a word or two."""
        return {Level.MATERIAL: "matters", Level.CHANGED: "changed", None: "steady"}[self.level]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A check, with as much of its report as it left: `report` is None where there was no answer at all.

    `attribute` is the one of the scorer's that demographics, measures and the histogram are of; `problem` says why
    there is no histogram. `rescoring`: of the entries, into the version that the check opened.
    """

    check: ControlCheck
    report: DriftReport | None
    steps: list[CheckLevel]
    attribute: str
    attributes: list[str]
    distances: list[Distance]
    parts: list[PartMovement]
    changes: list[ReportedChange]
    histogram: Histogram | None
    problem: str
    impact: dict[str, Any] | None
    names: dict[str, str]
    rescoring: Rescoring | None

    @property
    def groups(self) -> list[tuple[str, list[PartMovement]]]:
        """The parts in three groups, with what each is called; without groups that are empty."""
        kinds: dict[str, list[PartMovement]] = {"Texts about": [], "Kind of text": [], "Band of scores": []}
        for part in self.parts:
            stratum = part.movement.stratum
            name = "Texts about" if stratum is None else "Band of scores" if stratum in BAND_LIMITS else "Kind of text"
            kinds[name].append(part)
        return [(name, parts) for name, parts in kinds.items() if parts]


def find_check(metric: Metric, pk: int) -> ControlCheck | None:
    """A check of `metric` that came to an end, in one query; None where there is none."""
    return (
        ControlCheck.objects.filter(metric=metric, pk=pk, state__in=[Work.State.DONE, Work.State.FAILED])
        .select_related("control_set__metric_version", "control_set__reference", "artefact", "metric")
        .first()
    )


def attributes_of_check(check: ControlCheck) -> list[str]:
    """The attributes that a check compared, that which moved most first."""
    movements = check.statistics.get("movements", [])
    whole = [row for row in movements if row["demographic"] is None and row.get("stratum") is None]
    whole.sort(key=lambda row: -(row["max_abs"] or 0.0))
    return [row["attribute"] for row in whole]


def check_report(check: ControlCheck, attribute: str) -> CheckReport:
    """The check in full, with details of one of its attributes; reads two artefacts and asks two queries."""
    report, unreadable = read_report(check)
    impact = check.statistics.get("impact")
    attributes = attributes_of_check(check) if report else []
    histogram, problem = None, unreadable
    if report:
        try:
            histogram = histogram_of(check, attribute)
            problem = "" if histogram else f"One of the two scorings has no scores of {attribute}."
        except (FileNotFoundError, ArtefactError):
            problem = "The stored scores of this check, or those it was compared with, are damaged or gone."
    movements = report.movements if report else ()
    tests = {item.attribute: item for item in report.paired_tests} if report else {}
    noise = {item.attribute: item for item in report.noise} if report else {}
    detectable = {item.attribute: item for item in report.detectable} if report else {}
    every = impact["moves"] if impact else []
    listed_models = LanguageModel.objects.listed().filter(slug__in=[item["entry"] for item in every])
    names = dict(listed_models.values_list("slug", "name"))
    moves = [item for item in every if item["entry"] in names][:MOST_MOVES]
    return CheckReport(
        check=check,
        report=report,
        steps=list(steps(check, report)) if report else [],
        attribute=attribute,
        attributes=attributes,
        distances=[
            Distance(item, tests.get(item.attribute), noise.get(item.attribute), detectable.get(item.attribute))
            for item in movements
            if item.is_overall
        ],
        parts=list(parts_of(report, attribute)) if report else [],
        changes=[ReportedChange(item) for item in report.measures if _is_of(item, attribute, attributes)]
        if report
        else [],
        histogram=histogram,
        problem=problem,
        impact=impact and impact | {"moves": moves, "more": len(impact["moves"]) - len(moves)},
        names=names,
        rescoring=Rescoring.objects.filter(to_version__opened_because=check)
        .select_related("from_version", "to_version")
        .first(),
    )


def parts_of(report: DriftReport, attribute: str) -> Iterator[PartMovement]:
    """The demographics and strata of a report, as the attribute moved in each."""
    levels: dict[tuple[str | None, str | None], Level] = {}
    for finding in report.findings:
        if finding.attribute == attribute and finding.level in (Level.CHANGED, Level.MATERIAL):
            place = (finding.demographic, finding.stratum)
            levels[place] = max(levels.get(place, Level.CHANGED), finding.level)
    for movement in report.movements:
        if movement.attribute == attribute and not movement.is_overall:
            limit = report.policy.material_flips(movement.n)
            yield PartMovement(movement, limit, levels.get((movement.demographic, movement.stratum)))


def _is_of(change: MeasureChange, attribute: str, attributes: list[str]) -> bool:
    """Whether a measure is of the attribute, or of all of them together."""
    return change.attribute == attribute or change.attribute not in attributes


def read_report(check: ControlCheck) -> tuple[DriftReport | None, str]:
    """The report that the check left, or why there is none."""
    if "movements" not in check.statistics:
        return None, "There was no answer, and so there is nothing to compare."
    try:
        return DriftReport.from_json(check.statistics), ""
    except ValueError as error:
        return None, f"This check was written by a newer version of Plumbline: {error}."


def histogram_of(check: ControlCheck, attribute: str) -> Histogram | None:
    """Scores of the control texts then and now. None where one lacks the attribute. Raises FileNotFoundError."""
    control = check.control_set
    column = SCORE + attribute
    tables = [artefacts.load(artefact) for artefact in (control.reference if control else None, check.artefact)]
    if any(column not in table.column_names for table in tables):
        return None
    old_scores, new_scores = (table[column].to_numpy(zero_copy_only=False).astype(np.float64) for table in tables)
    all_scores = np.concatenate([old_scores, new_scores])
    all_scores = all_scores[np.isfinite(all_scores)]
    if not (np.isfinite(old_scores).any() and np.isfinite(new_scores).any()):
        return None
    if all_scores.min() >= 0 and all_scores.max() <= 1:
        edges = np.linspace(0, 1, BINS + 1)
    else:  # log-perplexities
        edges = np.linspace(np.floor(10 * all_scores.min()) / 10, np.ceil(10 * all_scores.max()) / 10, BINS + 1)
    finite_scores = [values[np.isfinite(values)] for values in (old_scores, new_scores)]
    counts = [np.histogram(values, edges)[0].tolist() for values in finite_scores]
    old_median, new_median = (float(np.median(values)) for values in finite_scores)
    return Histogram(edges.tolist(), counts[0], counts[1], (old_median, new_median))


def steps(check: ControlCheck, report: DriftReport) -> Iterator[CheckLevel]:
    """The four levels, in the order they are asked."""
    libraries = changed_libraries(check)
    yield CheckLevel(
        "L0",
        "Is the scorer what it was?",
        report.fingerprint_changed,
        f"Its fingerprint changed from {report.reference_fingerprint[:12]} to {report.observed_fingerprint[:12]}."
        if report.fingerprint_changed
        else f"Its fingerprint is the same, {report.reference_fingerprint[:12]}.",
        libraries,
    )
    moved_findings = [finding for finding in report.findings if finding.level is Level.CHANGED]
    lost_findings = [finding for finding in report.findings if finding.level is Level.AVAILABILITY]
    yield CheckLevel(
        "L1",
        "Did scores move by more than noise?",
        bool(moved_findings),
        noise_in_words(report),
        in_words([*lost_findings, *moved_findings]),
    )
    material = [finding for finding in report.findings if finding.level is Level.MATERIAL]
    was_asked = report.noise_floor is None or bool(moved_findings) or bool(material)  # check rule 2 always asks
    second = {None: "", True: " A second scoring confirmed it.", False: " A second scoring did not confirm it."}
    yield CheckLevel(
        "L2",
        "Does it matter?",
        report.material if was_asked else None,
        (
            f"{len(material)} limit{' was' if len(material) == 1 else 's were'} passed." + second[report.confirmed]
            if material
            else "No limit was passed."
        )
        if was_asked
        else "No score moved beyond the noise.",
        in_words(material),
    )
    yield impact_step(check)


def noise_in_words(report: DriftReport) -> str:
    """What was compared, and beside how much noise."""
    largest = "unknown: no text has both scores" if report.max_abs is None else f"{report.max_abs:.2g}"
    if report.noise_floor is not None:
        return (
            f"The largest absolute difference is {largest}, the noise floor {report.noise_floor:.2g}; "
            f"{report.n} texts were compared."
        )
    noise = max((tests.noise for tests in report.noise), default=0.0)
    method = (
        f"The scorer has noise of its own, of SD {noise:.2g}, so each text was scored {report.scorings} times, and the "
        "medians are compared."
        if report.scorings > 1
        else "The scorer has no noise of its own, so that every difference beyond rounding is a change."
    )
    return f"{report.n} texts were compared. {method} {report.detectable_in_words}".strip()


def impact_step(check: ControlCheck) -> CheckLevel:
    """L3, which is asked where a drift was confirmed."""
    question, impact = "What would move in the ranking?", check.statistics.get("impact")
    if check.verdict != ControlCheck.Verdict.DRIFTED and not impact:
        return CheckLevel("L3", question, None, "There was no confirmed drift.", [])
    if not impact:
        return CheckLevel("L3", question, None, "It could not be estimated before the rescoring.", [])
    tau = impact["kendall_tau"]
    words = "has no value, as all are equal" if tau is None else f"is {decimals(tau, 2)}"
    answer = (
        f"Estimated on {impact['prompts']} prompts of {impact['n']} entries: {len(impact['moves'])} would change "
        f"their rank by {MEASURES[impact['measure']].label.lower()}, {slice_phrase(impact['slice'])}; "
        f"Kendall's tau of the two orders {words}."
    )
    if "leaving" in impact:
        answer += f" {impact['leaving']} would leave the range of ranks that their numbers allow."
    return CheckLevel("L3", question, bool(impact["moves"]), answer, [])


def in_words(findings: list[Finding]) -> list[str]:
    """Findings as people read them, the first few spelt out."""
    sentences = [finding.in_words for finding in findings[:MOST_FINDINGS]]
    more = len(findings) - len(sentences)
    return [*sentences, f"and {more} more"] if more else sentences


def changed_libraries(check: ControlCheck) -> list[str]:
    """What the machine runs otherwise than when the control set was made."""
    old_versions = check.control_set.environment if check.control_set else {}
    new_versions = check.environment
    return [
        f"{name}: {old_versions.get(name, 'none')} then, {new_versions.get(name, 'none')} now"
        for name in sorted({*old_versions, *new_versions})
        if old_versions.get(name) != new_versions.get(name)
    ]
