"""Which part of a ranking is looked at, in which order: conditions and orders for the database."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from django.db.models import Expression, F, OrderBy, OuterRef, Q, Subquery, Value
from django.db.models.functions import Lower, NullIf

from leaderboard.models import Result

ROWS = (25, 50, 100)  # of a table, on a page
SLICE = "slice:"  # begins the name of a column that is a slice
RANK = "rank"


@dataclass(frozen=True, slots=True)
class Band:
    """Models of `least` parameters up to, but not with, `most`; None where that end is open."""

    label: str
    least: int | None
    most: int | None

    @property
    def condition(self) -> Q:
        """Of standings."""
        found = Q(model__parameters__isnull=False)
        if self.least is not None:
            found &= Q(model__parameters__gte=self.least)
        return found if self.most is None else found & Q(model__parameters__lt=self.most)


UNKNOWN = "unknown"
SIZES = {
    "under-10m": Band("Under 10M", None, 10**7),
    "10m-100m": Band("10M to 100M", 10**7, 10**8),
    "100m-1b": Band("100M to 1B", 10**8, 10**9),
    "1b-10b": Band("1B to 10B", 10**9, 10**10),
    "10b-100b": Band("10B to 100B", 10**10, 10**11),
    "over-100b": Band("100B and more", 10**11, None),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What the models shown have in common; an empty one lets all pass."""

    q: str = ""
    family: str = ""
    model_kind: str = ""
    size: str = ""  # a key of SIZES, or UNKNOWN
    access: str = ""
    source: str = ""

    @property
    def active(self) -> dict[str, str]:
        """Those that hold anything back, by name."""
        return {of.name: getattr(self, of.name) for of in fields(self) if getattr(self, of.name)}

    @property
    def narrowed(self) -> bool:
        """Whether more than the search holds anything back."""
        return bool(self.active.keys() - {"q"})

    @property
    def condition(self) -> Q:
        """Of standings. Each word of `q` is in the name, the family or the slug."""
        found = searched(self.q, "model__")
        exact = {
            "model__family": self.family,
            "model__kind": self.model_kind,
            "model__access": self.access,
            "model__source": self.source,
        }
        found &= Q(**{field: value for field, value in exact.items() if value})
        if self.size == UNKNOWN:
            return found & Q(model__parameters__isnull=True)
        return found & SIZES[self.size].condition if self.size else found


def searched(words: str, model: str = "") -> Q:
    """Each word is in the name, the family or the slug of a model, which is reached over `model`."""
    found = Q()
    for word in words.split():
        found &= (
            Q(**{f"{model}name__icontains": word})
            | Q(**{f"{model}family__icontains": word})
            | Q(**{f"{model}slug__icontains": word})
        )
    return found


SORTED: dict[str, Expression | F] = {
    RANK: F("rank"),
    "value": F("value"),
    "model": Lower("model__name"),
    "family": NullIf(Lower("model__family"), Value("")),
    "kind": F("model__kind"),
    "provenance": F("metric_version__provenance"),
    "parameters": F("model__parameters"),
    "date": F("result__scoring__scored_at"),
    "n": F("result__n"),
    "missing": F("result__missing"),
    "revision": NullIf("model__revision", Value("")),
}


@dataclass(frozen=True, slots=True)
class Order:
    """By which column: a key of SORTED, or SLICE and the name of a slice."""

    key: str = RANK
    descending: bool = False

    @property
    def slice(self) -> str:
        """The slice whose values it is by; "" where it is by something else."""
        return self.key.removeprefix(SLICE) if self.key.startswith(SLICE) else ""

    def by(self, rank: Expression | F, rank_descending: bool) -> list[OrderBy]:
        """For standings; what is empty comes last in both directions, and equal ones are by rank and then by name.

        rank: the expression to order by in place of stored ranks, and whether its largest value ranks first.
        """
        first: OrderBy
        if self.slice:
            own = {"scoring": OuterRef("result__scoring"), "measure": OuterRef("measure")}
            of_slice = Result.objects.filter(**own, slice=self.slice)
            first = ordered(Subquery(of_slice.values("value")[:1]), self.descending)
        elif self.key == RANK:
            first = ordered(rank, self.descending != rank_descending)
        else:
            first = ordered(SORTED[self.key], self.descending)
        return [first, ordered(rank, rank_descending), F("model__name").asc(), F("model_id").asc()]


def ordered(expression: Expression | F | Subquery, descending: bool) -> OrderBy:
    """The order by an expression, with what is empty last."""
    return expression.desc(nulls_last=True) if descending else expression.asc(nulls_last=True)


EXTRAS = {
    "family": "Family",
    "kind": "Kind",
    "parameters": "Parameters",
    "date": "Date",
    "n": "Texts",
    "missing": "Without a score",
    "revision": "Revision",
}
USUAL = ("parameters", "date", "n", "missing")  # shown where nobody chose


@dataclass(frozen=True, slots=True)
class View:
    """How rankings are looked at. `columns`: those of EXTRAS and slices beside the value; None for the usual ones.

    rows: at most so many in a table; None for all.
    """

    filters: Filters = Filters()
    order: Order = Order()
    columns: Sequence[str] | None = None
    page: int = 1
    rows: int | None = ROWS[1]
