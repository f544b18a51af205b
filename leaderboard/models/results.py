"""Numbers."""

from django.db import models
from django.db.models import F, Q

from leaderboard.models.work import Scoring
from scoring.metrics.formulas import MEASURES

DERIVED = "≈ "  # before a value that its source does not print


class Result(models.Model):
    """One number: a measure of a scoring on a slice. Never changed once written."""

    SIGNIFICANT = 0.05

    scoring = models.ForeignKey(Scoring, models.CASCADE, related_name="results")
    measure = models.CharField(max_length=60)
    slice = models.CharField(max_length=80, help_text="Demographic, prompt split, attribute, or average.")
    value = models.FloatField()
    ci_low = models.FloatField(null=True, blank=True)
    ci_high = models.FloatField(null=True, blank=True)
    n = models.PositiveIntegerField(null=True, blank=True, help_text="Texts; unknown for some published figures.")
    missing = models.PositiveIntegerField(default=0, help_text="Texts that could not be scored.")
    derived = models.BooleanField(
        default=False, help_text="Worked out here from figures of the source, which does not print it."
    )
    interval_derived = models.BooleanField(
        default=False, help_text="The interval was worked out here, from counts of texts: the source prints none."
    )
    missing_texts = models.PositiveIntegerField(
        null=True, blank=True, help_text="Continuations without a score, where `missing` counts prompts without any."
    )
    worst_low = models.FloatField(null=True, blank=True, help_text="The least that the missing texts can make of it.")
    worst_high = models.FloatField(
        null=True, blank=True, help_text="The largest that the missing texts can make of it."
    )
    published_rank = models.PositiveIntegerField(null=True, blank=True, help_text="Where the source gives exact ranks.")
    p_value = models.FloatField(null=True, blank=True)
    p_adjusted = models.FloatField(
        null=True, blank=True, help_text="Holm, over the demographics of a model; an average's as it is."
    )

    class Meta:
        ordering = ("scoring", "measure", "slice")
        constraints = (
            models.UniqueConstraint(fields=["scoring", "measure", "slice"], name="result_one_a_slice"),
            models.CheckConstraint(
                condition=Q(ci_low__isnull=True, ci_high__isnull=True) | Q(ci_low__lte=F("ci_high")),
                name="result_interval_ordered",
            ),
            models.CheckConstraint(
                condition=Q(worst_low__isnull=True, worst_high__isnull=True) | Q(worst_low__lte=F("worst_high")),
                name="result_worst_cases_ordered",
            ),
            # Comparison with itself is false for a non-number on SQLite only; PostgreSQL sorts it above all numbers.
            models.CheckConstraint(condition=Q(value__gt=-1e308, value__lt=1e308), name="result_value_is_a_number"),
            models.CheckConstraint(
                condition=Q(p_value__isnull=True) | Q(p_value__gte=0, p_value__lte=1), name="result_p_in_0_1"
            ),
        )

    def __str__(self) -> str:
        return f"{self.measure} of {self.slice}: {self.value:.4g}"

    @property
    def missing_share(self) -> float:
        """The share of its texts (or prompts, where it counts those) that have no score."""
        return share_missing(self.n, self.missing)

    @property
    def significant(self) -> bool | None:
        """Whether it differs from an indifferent model's at 5%, after Holm; None without a test."""
        return significance(self.measure, self.p_adjusted)


def share_missing(n: int | None, missing_count: int) -> float:
    """The share without a score of `n` texts with one and `missing_count` without; 0 where none lacks one."""
    return missing_count / ((n or 0) + missing_count) if missing_count else 0.0


def describe_missing(n: int | None, missing_count: int, missing_texts: int | None) -> str:
    """As in "0.6% without a score"; "" where all texts have one.

    Prompts may all have a value though some of their continuations have none: then how many.
    """
    if not missing_count and not missing_texts:
        return ""
    share = share_missing(n, missing_count)
    if not missing_count:
        words = f"{missing_texts:,} text{'' if missing_texts == 1 else 's'}"
    else:
        words = "under 0.1%" if share < 0.001 else f"{100 * share:.1f}%"
    return f"{words} without a score"


def significance(measure: str, p_adjusted: float | None) -> bool | None:
    """Whether a value of `measure` with that p differs from an indifferent model's; None where nothing tells.

    A p against a value that an indifferent model would not have tells nothing: versions of old formulas have such p.
    """
    if p_adjusted is None or MEASURES[measure].neutral is None:
        return None
    return p_adjusted < Result.SIGNIFICANT
