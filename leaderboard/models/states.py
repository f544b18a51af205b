"""State machines: a state changes only along an arrow, by one conditional UPDATE."""

from typing import Any, ClassVar

from django.db import models


class StateMachine(models.Model):
    """A row with a `state`. `ARROWS` names, for each state, those it may go to."""

    ARROWS: ClassVar[dict[str, tuple[str, ...]]]
    state: models.CharField

    class Meta:
        abstract = True

    def move(self, to: str, **changes: Any) -> bool:
        """Go to `to`, with `changes`, if an arrow leads there from the state in the database. Says whether it did."""
        sources = [state for state, targets in self.ARROWS.items() if to in targets]
        rows = type(self)._default_manager.filter(pk=self.pk)
        moved = rows.filter(state__in=sources).update(state=to, **changes)  # type: ignore[misc]  # subclasses have it
        self.refresh_from_db()
        return bool(moved)
