"""Flags of entries that a moderator should review before they are ranked."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of
from leaderboard.models.states import StateMachine
from leaderboard.models.work import Scoring


class EntryCheckState(models.TextChoices):
    MARKED = "marked", "Ranked, with a mark"
    HELD = "held", "Held back"
    RELEASED = "released", "Released by a moderator"
    REFUSED = "refused", "Not released"


UNRANKED = (EntryCheckState.HELD.value, EntryCheckState.REFUSED.value)


def not_held(scoring: str = "") -> Q:
    """Return the condition for entries that are not held back. scoring: the lookup prefix, as in `scoring__`."""
    return ~Q(**{f"{scoring}pk__in": EntryCheck.objects.filter(state__in=UNRANKED).values("scoring")})


class EntryCheck(StateMachine):
    """The flags of an entry: a list of `key` and `words`. An entry that is held back is in no ranking."""

    State = EntryCheckState

    ARROWS: ClassVar[dict[str, tuple[str, ...]]] = {
        EntryCheckState.MARKED: (),
        EntryCheckState.HELD: (EntryCheckState.RELEASED, EntryCheckState.REFUSED),
        EntryCheckState.RELEASED: (),
        EntryCheckState.REFUSED: (EntryCheckState.RELEASED,),
    }

    scoring = models.OneToOneField(Scoring, models.CASCADE, related_name="entry_check")
    flags = models.JSONField(help_text="What was found: key and words of each.")
    state = models.CharField(max_length=20, choices=EntryCheckState)
    reason = models.TextField(blank=True, help_text="Why a moderator released it or did not.")
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    decided_at = models.DateTimeField(null=True, blank=True)
    created_at = birth_field()

    class Meta:
        ordering = ("created_at", "pk")
        constraints = (
            one_of("state", EntryCheckState),
            models.CheckConstraint(
                condition=Q(state__in=["marked", "held"]) | (~Q(reason="") & Q(decided_at__isnull=False)),
                name="entrycheck_decision_has_a_reason",
            ),
        )
        indexes = (models.Index(fields=["state"], condition=Q(state__in=UNRANKED), name="entrycheck_unranked"),)

    def __str__(self) -> str:
        return f"check of {self.scoring}"

    @property
    def words(self) -> list[str]:
        """The flags as sentences."""
        return [flag["words"] for flag in self.flags]

    @property
    def flag_keys(self) -> set[str]:
        """The keys of the flags."""
        return {flag["key"] for flag in self.flags}

    def decision(self) -> dict[str, Any]:
        """The decision, to be copied to the same outputs under another version."""
        return {
            "state": self.state,
            "reason": self.reason,
            "decided_by": self.decided_by,
            "decided_at": self.decided_at,
        }
