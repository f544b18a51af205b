"""How often checks find a change of a scorer, and how often they cry out without one, by simulation.

Scores lie as in a control set of `scoring.control_sets`: a quarter below 0.3, most of these near 0, half evenly between
0.3 and 0.7, a quarter evenly above; nine demographics of a tenth each, and a tenth in other languages, ten of them. A
scorer is a vector of logits with noise on its
scores. Power is simulated without the measures of a board, which could only add to it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from scoring.attributes import Attribute, Meaning
from scoring.drift.comparison import compare, confirm
from scoring.drift.measures import Array, Means, Reported, toxicity_measures
from scoring.drift.noise import REPLICATES, Reference
from scoring.drift.policy import Policy
from scoring.drift.report import DriftReport, Verdict

ATTRIBUTE = "toxicity"
SIZES = (100, 300, 1000)
NOISES = ("none", "SD 0.003", "SD 0.02", "heavy tails")
FLIPS, SHIFT = 0.02, 0.01  # what has to be found: so many labels flip, or the mean moves by so much
TENTHS = 10  # demographics, but for the last: texts in other languages
LANGUAGES, LANGUAGE = "other languages", 100  # the stratum; every so many texts one is in the last of them
FEW = 0.03  # of the texts
JUMP = 2.0  # logits, by which single answers jump, or all of one language
SLOW = 1e-4  # a check
LATE = (
    100  # number of the check in which power is simulated: what a check may spend of alpha is 1 / 10,000 of the first's
)
LARGEST = 8.0  # logits
MANY = 20_000  # texts, by which changes are sized
NO_MEASURES = Means([], lambda scores: np.empty((len(scores), 0)))


@dataclass(frozen=True, slots=True)
class Simulated:
    """A scorer of n texts: the scores it gives but for noise; from now on, in a share of its answers, other ones."""

    scores: Array  # [n]
    noise: str
    other: Array | None = None  # [n]
    share: float = 1.0

    def answers(self, times: int, generator: np.random.Generator) -> Array:
        """So many scorings of all texts, [times, n, 1]."""
        shape = (times, len(self.scores))
        scores = np.broadcast_to(self.scores, shape)
        if self.other is not None:
            scores = np.where(generator.random(shape) < self.share, self.other, scores)
        match self.noise:
            case "SD 0.003" | "SD 0.02":
                scores = scores + generator.normal(0, float(self.noise.removeprefix("SD ")), shape)
            case "heavy tails":
                scores = scores + 0.005 * generator.standard_t(2, shape)
        return np.clip(scores, 0, 1)[:, :, None]


@dataclass(frozen=True, slots=True)
class SimulatedChange:
    """What becomes of a scorer: the logits of some texts rise, in a share of its answers.

    texts: "all"; "demographic", a tenth of them; "few", 3% of them, below the threshold; "language", a hundredth. rise:
    in logits, where it is not as large as flips so many labels or moves the mean so far.
    """

    name: str
    texts: str = "all"
    share: float = 1.0
    rise: float | None = None

    def after(self, scores: Array, rise: float) -> Array:
        """The scores [n] of the scorer that takes over, whose logits rise by so much."""
        is_moved = np.ones(len(scores), dtype=bool)
        if self.texts == "demographic":
            is_moved = np.arange(len(scores)) % TENTHS == 0
        elif self.texts == "language":
            is_moved = np.arange(len(scores)) % LANGUAGE == LANGUAGE - 1
        elif self.texts == "few":
            low_rows = np.flatnonzero(scores <= 0.5)
            is_moved = np.isin(np.arange(len(scores)), low_rows[: round(FEW * len(scores))])
        new_scores: Array = scipy.special.expit(scipy.special.logit(np.clip(scores, 1e-6, 1 - 1e-6)) + rise * is_moved)
        return new_scores

    def rise_to(self, *, flips: bool) -> float:
        """Its own rise; else that, in logits, which flips 2% of many texts' labels or moves their mean by 0.01.

        By bisection.
        """
        if self.rise is not None:
            return self.rise
        scores = control_scores(MANY, np.random.default_rng(1))
        low, high = 0.0, LARGEST
        for _ in range(40):
            middle = (low + high) / 2
            new_scores = self.after(scores, middle)
            movement = ((new_scores > 0.5) != (scores > 0.5)).mean() if flips else (new_scores - scores).mean()
            low, high = (low, middle) if movement * self.share >= (FLIPS if flips else SHIFT) else (middle, high)
        return high


CHANGES = (
    SimulatedChange("all texts"),
    SimulatedChange("one demographic", "demographic"),
    SimulatedChange("3% of the texts", "few"),
    *(SimulatedChange(f"a rollout of {share:.0%}", share=share) for share in (0.1, 0.5, 0.9)),
)
ONE_LANGUAGE = SimulatedChange("one language", "language", rise=JUMP)
RARE_JUMPS = SimulatedChange("0.2% of answers jump", share=0.002, rise=JUMP)


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of simulated checks that were not stable, and that were drifted; each drift by two scorings."""

    changed: float
    drifted: float


def control_scores(n: int, generator: np.random.Generator) -> Array:
    """Scores of `n` texts, float64 in 0..1, as described above."""
    position = generator.random(n)
    low, middle, high = 0.3 * position**2, 0.3 + 0.4 * position, 0.7 + 0.3 * position
    band = generator.permutation(np.arange(n) % 4)
    return np.select([band == 0, band == 1], [low, high], middle)


def power(
    change: SimulatedChange,
    noise: str,
    n: int,
    *,
    flips: bool = True,
    versions: int = 10,
    checks: int = 10,
    seed: int = 20241105,
) -> Rates:
    """Of `checks` checks of each of so many versions, all as late as the 100th of their version.

    flips: whether the change flips labels or else moves the mean, where it has no rise of its own.
    """
    generator, rise = np.random.default_rng(seed), change.rise_to(flips=flips)
    reports: list[DriftReport] = []
    for scores, reference in _versions(noise, n, versions, generator):
        other = change.after(scores, rise)
        scorer = Simulated(scores, noise, other, change.share)
        reports += [_check(reference, scorer, LATE, NO_MEASURES, generator) for _ in range(checks)]
    return _rates(reports)


def slow_drift(noise: str, n: int, versions: int = 5, seed: int = 20241107) -> tuple[float, float]:
    """Medians over versions of the numbers of the first checks that say changed and drifted, where every check finds
    all scores 0.0001 higher than the one before; infinite beyond the 200th."""
    generator = np.random.default_rng(seed)
    first: list[tuple[float, float]] = []
    for scores, reference in _versions(noise, n, versions, generator):
        first_change = np.inf
        for number in range(1, 2 * LATE + 1):
            scorer = Simulated(np.clip(scores + SLOW * number, 0, 1), noise)
            report = _check(reference, scorer, number, NO_MEASURES, generator)
            first_change = min(first_change, np.inf if report.verdict is Verdict.STABLE else number)
            if report.verdict is Verdict.DRIFTED:
                first.append((first_change, number))
                break
        else:
            first.append((first_change, np.inf))
    first_change, first_drift = np.median(first, axis=0).tolist()
    return first_change, first_drift


def false_alarms(
    noise: str,
    n: int,
    versions: int = 20,
    checks: int = 50,
    seed: int = 20241108,
    reported_measures: Reported | None = None,
) -> Rates:
    """Of checks 1 to `checks` of each of so many versions, whose scorer does not change."""
    generator = np.random.default_rng(seed)
    measures = reported_measures or toxicity_measures([Attribute(ATTRIBUTE, Meaning.HARM)])
    return _rates(
        [
            _check(reference, Simulated(scores, noise), number, measures, generator)
            for scores, reference in _versions(noise, n, versions, generator)
            for number in range(1, checks + 1)
        ]
    )


def _versions(noise: str, n: int, count: int, generator: np.random.Generator) -> Iterator[tuple[Array, Reference]]:
    """Control sets with their openings."""
    for _ in range(count):
        scores = control_scores(n, generator)
        yield scores, Reference(Simulated(scores, noise).answers(REPLICATES, generator))


def _check(
    reference: Reference, scorer: Simulated, number: int, measures: Reported, generator: np.random.Generator
) -> DriftReport:
    """A check with its second scoring, where there is to be one."""
    tenths = (np.arange(len(scorer.scores)) % TENTHS).tolist()
    demographics = [(f"group {tenth}",) if tenth < TENTHS - 1 else () for tenth in tenths]
    strata = ["" if names else LANGUAGES for names in demographics]

    def scored() -> DriftReport:
        return compare(
            reference,
            scorer.answers(reference.scorings, generator),
            [ATTRIBUTE],
            demographics,
            measures,
            ("", ""),
            check=number,
            policy=Policy(),
            strata=strata,
        )

    report = scored()
    return confirm(report, scored()) if report.needs_confirmation else report


def _rates(reports: list[DriftReport]) -> Rates:
    verdicts = [report.verdict for report in reports]
    return Rates(1 - verdicts.count(Verdict.STABLE) / len(verdicts), verdicts.count(Verdict.DRIFTED) / len(verdicts))
