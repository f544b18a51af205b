"""State machines: a state changes only along an arrow, by one conditional UPDATE."""

from typing import Any, ClassVar

from django.db import models


class StateMachine(models.Model):
    """A row with a `state`. `ARROWS`: for each state, the states that may follow."""

    ARROWS: ClassVar[dict[str, tuple[str, ...]]]
    state: models.CharField

    class Meta:
        abstract = True

    def move(self, target: str, **changes: Any) -> bool:
        """Go to the state `target`, with `changes`, if an arrow leads there from the stored state; returns whether."""
        sources = [state for state, targets in self.ARROWS.items() if target in targets]
        rows = type(self)._default_manager.filter(pk=self.pk)
        count = rows.filter(state__in=sources).update(state=target, **changes)  # type: ignore[misc]  # subclasses have it
        self.refresh_from_db()
        return bool(count)
