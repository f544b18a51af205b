"""What a check found: plain values that a page can show and JSON can hold."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from scoring.drift.policy import Policy

SCHEMA_VERSION = 2
TABLES = ("findings", "movements", "paired_tests", "measures", "noise", "detectable")
_IN_WORDS = 3  # findings that are spelt out; the others are counted


class Verdict(StrEnum):
    """What a check says of the scorer. `unavailable` says nothing of it: nothing may be published under it."""

    STABLE = "stable"
    CHANGED = "changed"
    DRIFTED = "drifted"
    UNAVAILABLE = "unavailable"


class Level(StrEnum):
    """L0 identity, L1 changed, L2 material; `availability` where texts have lost their scores."""

    AVAILABILITY = "availability"
    IDENTITY = "L0"
    CHANGED = "L1"
    MATERIAL = "L2"


class Rule(StrEnum):
    """Which comparison found something."""

    LOST_SCORES = "lost_scores"
    FINGERPRINT = "fingerprint"
    TERMS = "terms"
    ATTRIBUTES = "attributes"
    SHIFT = "shift"
    BEYOND_NOISE = "beyond_noise"
    DISTRIBUTION = "distribution"
    GAINED_SCORES = "gained_scores"
    LABEL_FLIPS = "label_flips"
    MEAN_SHIFT = "mean_shift"
    EQUIVALENCE = "equivalence"
    NOISE_FLOOR = "noise_floor"  # of check rule 1, as is the next: in reports of old checks only
    MEAN_DIFFERENCE = "mean_difference"


LEVELS = {
    Rule.LOST_SCORES: Level.AVAILABILITY,
    Rule.FINGERPRINT: Level.IDENTITY,
    Rule.SHIFT: Level.CHANGED,
    Rule.BEYOND_NOISE: Level.CHANGED,
    Rule.DISTRIBUTION: Level.CHANGED,
    Rule.NOISE_FLOOR: Level.CHANGED,
    Rule.GAINED_SCORES: Level.CHANGED,
    Rule.TERMS: Level.MATERIAL,
    Rule.ATTRIBUTES: Level.MATERIAL,
    Rule.LABEL_FLIPS: Level.MATERIAL,
    Rule.MEAN_SHIFT: Level.MATERIAL,
    Rule.MEAN_DIFFERENCE: Level.MATERIAL,
    Rule.EQUIVALENCE: Level.MATERIAL,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that fired: `value` went past `limit`. None of attribute, demographic, measure, stratum: it is not of one.

    Of equivalence, `value` is the end of the interval that is farthest out, and `limit` the margin. `p_adjusted` is
    there where the rule had to be significant.
    """

    rule: Rule
    value: float | None = None
    limit: float | None = None
    attribute: str | None = None
    demographic: str | None = None
    measure: str | None = None
    p_adjusted: float | None = None
    stratum: str | None = None

    @property
    def level(self) -> Level:
        """The level at which the rule stands."""
        return LEVELS[self.rule]

    @property
    def in_words(self) -> str:
        """The finding for people, without a full stop."""
        value, limit = (0.0 if number is None else number for number in (self.value, self.limit))
        place = f" of {self.attribute}" if self.attribute else ""
        place += "".join(f", {name}" for name in (self.demographic, self.stratum) if name is not None)
        match self.rule:
            case Rule.LOST_SCORES:
                return f"texts that had a score and have none now: {value:.0f}"
            case Rule.FINGERPRINT:
                return "the scorer's fingerprint changed"
            case Rule.TERMS:
                return "the terms of the lexicon changed"
            case Rule.ATTRIBUTES:
                return f"attributes that the scorer gives only then or only now: {value:.0f}"
            case Rule.SHIFT:
                return f"mean shift{place}: {value:+.2g}, more than noise explains"
            case Rule.BEYOND_NOISE:
                return f"texts beyond their own noise{place}: {value:.0f}, where noise explains {limit:.2g}"
            case Rule.DISTRIBUTION:
                return f"distribution of changes{place}: {value:.2g} from that of the replicates"
            case Rule.MEAN_SHIFT:
                return f"mean shift{place}: {value:+.2g}, beyond {limit:g}"
            case Rule.NOISE_FLOOR:
                return f"the largest difference{place}: {value:.2g}, above the noise floor of {limit:.2g}"
            case Rule.GAINED_SCORES:
                return f"texts that had no score and have one now: {value:.0f}"
            case Rule.LABEL_FLIPS:
                return f"label flips{place}: {value:.0f}, where {limit:.0f} are material"
            case Rule.MEAN_DIFFERENCE:
                return f"mean absolute difference{place}: {value:.2g}, above {limit:g}"
            case Rule.EQUIVALENCE:
                measure = (self.measure or "").replace("_", " ")
                return f"{measure}{place}: may have changed by {value:+.2g}, more than {limit:.2g}"


@dataclass(frozen=True, slots=True)
class Movement:
    """How the scores of an attribute moved, over all texts or those of one demographic or stratum (a band of scores).

    `n` texts have both scores; with none of them the differences are None, as flips are where there is no threshold.
    `mean_change`: over all texts that of the mean of all scorings, else that of medians, in which differences within
    rounding count as none; `error` is the standard error that replicate variation gives it, 0 without noise.
    `flips_up`: labels that were below the threshold or at it, and are above; `far_flips` are flips, either way, of
    texts that moved farther than noise moves one in 10,000. p values are Holm-adjusted. Reports of schema 1 have
    neither error, far flips nor p.
    """

    attribute: str
    demographic: str | None
    n: int
    max_abs: float | None
    mean_abs: float | None
    mean_change: float | None
    flips_up: int | None
    flips_down: int | None
    stratum: str | None = None
    error: float | None = None
    p_adjusted: float | None = None
    far_flips: int | None = None
    flips_p: float | None = None

    @property
    def flips(self) -> int:
        """Labels that changed, in either direction; 0 where there are no labels."""
        return (self.flips_up or 0) + (self.flips_down or 0)

    @property
    def is_overall(self) -> bool:
        """Whether it is over all texts."""
        return self.demographic is None and self.stratum is None

    @property
    def counted_flips(self) -> int:
        """The flips that count: those beyond noise; of schema 1, all."""
        return self.flips if self.far_flips is None else self.far_flips


@dataclass(frozen=True, slots=True)
class NoiseTests:
    """An attribute's changes beside replicate variation.

    `beyond`: texts of which a scoring lies beyond their own noise; `expected`: as many as replicates show. `distance`:
    of Kolmogorov and Smirnov, between the changes of one scoring and those of replicates, each in standard deviations
    of its text; None without noise. p values are Holm-adjusted.
    """

    attribute: str
    noise: float
    beyond: int
    expected: float
    beyond_p: float
    distance: float | None
    distance_p: float | None


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest changes of an attribute that this check finds in 99% of cases.

    `shift` of all texts' mean is called changed, `material_shift` material, in two scorings; `demographic_shift`, of
    the demographic that is known worst, is material, None where there is none. `flips` of labels are material, None
    where there are no labels or no number of them would do.
    """

    attribute: str
    shift: float
    material_shift: float
    demographic_shift: float | None
    flips: int | None


@dataclass(frozen=True, slots=True)
class PairedTests:
    """An attribute over all texts: two-sided p values of paired tests, and as description two unpaired distances.

    `mcnemar_p` is exact, None without labels; `wilcoxon_p` is of signed ranks, 1 where nothing moved. `ks` with its p,
    and `wasserstein`, compare the two distributions as if their texts were different ones, and decide nothing.
    """

    attribute: str
    mcnemar_p: float | None
    wilcoxon_p: float
    ks: float
    ks_p: float
    wasserstein: float


@dataclass(frozen=True, slots=True)
class MeasureChange:
    """A reported measure on the control set as if it were an entry: before, after, interval of the change, margin.

    Of texts that moved beyond their noise; the others count as they were. `p_adjusted`: that noise moves as many, by
    Holm over every measure of every slice; in a demographic also that its texts did not move alike. None in reports of
    schema 1, where over all texts the interval alone decides.
    """

    measure: str
    attribute: str
    demographic: str | None
    before: float
    after: float
    change: float
    ci_low: float
    ci_high: float
    margin: float
    p_adjusted: float | None

    @property
    def equivalent(self) -> bool:
        """Whether the interval lies within the margin."""
        return -self.margin <= self.ci_low and self.ci_high <= self.margin


@dataclass(frozen=True, slots=True)
class DriftReport:
    """One check. `compare` makes it and says `changed` where L2 fired; only `confirm` makes that `drifted`.

    `n` texts, of which `lost` and `gained` are those that had a score of some attribute and have none, and the reverse.
    `alpha` is what this check may spend of the policy's. `confirmed` is None until a second scoring was compared.
    `scorings`: how often each text was scored, of which the median counts. `moved`: how many entries would leave their
    rank range, where that was estimated. `noise_floor` is that of schema 1.
    """

    verdict: Verdict
    confirmed: bool | None
    findings: tuple[Finding, ...]
    n: int
    lost: int
    gained: int
    scorings: int
    check: int
    alpha: float
    policy: Policy
    reference_fingerprint: str
    observed_fingerprint: str
    movements: tuple[Movement, ...]
    paired_tests: tuple[PairedTests, ...]
    measures: tuple[MeasureChange, ...]
    noise: tuple[NoiseTests, ...] = ()
    detectable: tuple[Detectable, ...] = ()
    moved: int | None = None
    noise_floor: float | None = None

    @property
    def fingerprint_changed(self) -> bool:
        """L0: whether the scorer says of itself that it is another."""
        return self.reference_fingerprint != self.observed_fingerprint

    @property
    def material(self) -> bool:
        """L2: whether this scoring, taken alone, shows a material change."""
        return any(finding.level is Level.MATERIAL for finding in self.findings)

    @property
    def needs_confirmation(self) -> bool:
        """Whether the texts are to be scored once more, and `confirm` to be asked."""
        return self.material and self.confirmed is None and self.verdict is Verdict.CHANGED

    @property
    def max_abs(self) -> float | None:
        """The largest absolute difference of any score; None where no text has both."""
        differences = [movement.max_abs for movement in self.movements if movement.max_abs is not None]
        return max(differences, default=None)

    @property
    def rests_on_equivalence(self) -> bool:
        """Whether nothing is material but that a reported measure may have changed."""
        material = [finding.rule for finding in self.findings if finding.level is Level.MATERIAL]
        return bool(material) and all(rule is Rule.EQUIVALENCE for rule in material)

    @property
    def overall(self) -> dict[str, float | int | None]:
        """What a chart of many checks shows of this one: over all texts, of the attribute that moved most, with limits.

        None where no text has both scores; of flips where there are no labels.
        """
        whole = [movement for movement in self.movements if movement.is_overall]
        shifts = [abs(movement.mean_change) for movement in whole if movement.mean_change is not None]
        labelled_movements = [movement for movement in whole if movement.flips_up is not None]
        most = max(labelled_movements, key=lambda movement: movement.counted_flips, default=None)
        farthest = max(self.noise, key=lambda tests: tests.beyond - tests.expected, default=None)
        return {
            "max_abs": self.max_abs,
            "mean_shift": max(shifts, default=None),
            "mean_limit": self.policy.mean_difference,
            "beyond": None if farthest is None else farthest.beyond,
            "expected": None if farthest is None else farthest.expected,
            "flips": None if most is None else most.counted_flips,
            "flips_limit": None if most is None else self.policy.material_flips(most.n),
            "detectable": max((limits.material_shift for limits in self.detectable), default=None),
        }

    @property
    def detectable_in_words(self) -> str:
        """The smallest change that this check finds, in a sentence; empty for schema 1."""
        if not self.detectable:
            return ""
        shift = max(limits.material_shift for limits in self.detectable)
        flips = [limits.flips for limits in self.detectable if limits.flips is not None]
        labels = f", and {max(flips)} label flips" if flips else ""
        return f"A check like this one finds, in 99% of cases, a mean shift of {shift:.2g} over all texts{labels}."

    @property
    def deciding(self) -> tuple[Finding, ...]:
        """The findings that the verdict rests on: those of the highest level that it admits."""
        if self.verdict is Verdict.STABLE:
            return ()
        level = Level.AVAILABILITY if self.verdict is Verdict.UNAVAILABLE else Level.CHANGED
        if self.material and self.verdict is not Verdict.UNAVAILABLE:
            level = Level.MATERIAL
        return tuple(finding for finding in self.findings if finding.level is level)

    @property
    def decided_by(self) -> str:
        """What decided, in a sentence or two."""
        if self.verdict is Verdict.STABLE:
            words = "Nothing moved that replicate variation does not explain."
            if self.noise_floor is not None:
                words = f"No score moved by more than the noise floor of {self.noise_floor:.2g}."
            return f"{words} The scorer's fingerprint changed." if self.fingerprint_changed else words
        phrases = [finding.in_words for finding in self.deciding[:_IN_WORDS]]
        more = len(self.deciding) - len(phrases)
        words = "; ".join(phrases) + (f"; and {more} more" if more else "") + "."
        words = words[:1].upper() + words[1:]
        if self.verdict is Verdict.UNAVAILABLE or not self.material:
            return words
        if self.confirmed is None:
            return f"{words} A second scoring has yet to confirm it."
        words = f"{words} A second scoring {'confirmed' if self.confirmed else 'did not confirm'} it."
        if self.confirmed and self.verdict is Verdict.CHANGED:
            return f"{words} No entry would leave its rank range, so the version stays."
        return words

    def as_json(self) -> dict[str, Any]:
        """A dictionary that JSON can hold; tuples as lists, no number that is not finite."""
        content = {
            "schema_version": SCHEMA_VERSION,
            **asdict(self),
            "decided_by": self.decided_by,
            "fingerprint_changed": self.fingerprint_changed,
            "material": self.material,
            "max_abs": self.max_abs,
            "overall": self.overall,
            "detectable_in_words": self.detectable_in_words,
        }
        for name in TABLES:
            content[name] = list(content[name])
        for finding, source in zip(content["findings"], self.findings, strict=True):
            finding |= {"level": source.level.value, "rule": source.rule.value, "in_words": source.in_words}
        content["verdict"] = self.verdict.value
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The inverse of `as_json`. Raises ValueError where it was written by a newer version of this code."""
        version = content["schema_version"]
        if version > SCHEMA_VERSION:
            raise ValueError(f"schema_version: {version} is newer than {SCHEMA_VERSION}; upgrade Plumbline to read it")
        derived_keys = ("level", "in_words")
        findings = [
            {key: value for key, value in row.items() if key not in derived_keys} for row in content["findings"]
        ]
        plain = ("n", "lost", "gained", "check", "alpha", "confirmed")
        return cls(
            verdict=Verdict(content["verdict"]),
            findings=tuple(Finding(**{**row, "rule": Rule(row["rule"])}) for row in findings),
            policy=Policy(**content["policy"]),
            reference_fingerprint=content["reference_fingerprint"],
            observed_fingerprint=content["observed_fingerprint"],
            movements=tuple(Movement(**row) for row in content["movements"]),
            paired_tests=tuple(PairedTests(**row) for row in content["paired_tests"]),
            measures=tuple(MeasureChange(**row) for row in content["measures"]),
            noise=tuple(NoiseTests(**row) for row in content.get("noise", ())),
            detectable=tuple(Detectable(**row) for row in content.get("detectable", ())),
            scorings=content.get("scorings", 1),
            moved=content.get("moved"),
            noise_floor=content.get("noise_floor"),
            **{name: content[name] for name in plain},
        )
