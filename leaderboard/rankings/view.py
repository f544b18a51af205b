"""Views of a ranking: which part is shown, in which order, as conditions and orders for the database."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from django.db.models import Case, Expression, F, FloatField, OrderBy, OuterRef, Q, Subquery, Value, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Lower, NullIf

from leaderboard.models import LanguageModel, Result, asked_as, open_weights

ROWS = (25, 50, 100)  # of a table, on a page
SLICE = "slice:"  # begins the name of a column that is a slice
RANK = "rank"


@dataclass(frozen=True, slots=True)
class Band:
    """Models with numbers from `least` up to, but not with, `most`; None where that end is open."""

    label: str
    least: int | None
    most: int | None

    def holds(self, column: str) -> Q:
        """The condition that `column` of a model is in the band."""
        condition = Q(**{f"{column}__isnull": False})
        if self.least is not None:
            condition &= Q(**{f"{column}__gte": self.least})
        return condition if self.most is None else condition & Q(**{f"{column}__lt": self.most})


UNKNOWN = "unknown"
SIZES = {
    "under-10m": Band("Under 10M", None, 10**7),
    "10m-100m": Band("10M to 100M", 10**7, 10**8),
    "100m-1b": Band("100M to 1B", 10**8, 10**9),
    "1b-10b": Band("1B to 10B", 10**9, 10**10),
    "10b-100b": Band("10B to 100B", 10**10, 10**11),
    "over-100b": Band("100B and more", 10**11, None),
}
CONTEXTS = {
    "under-2k": Band("Under 2,000 tokens", None, 2000),
    "2k-16k": Band("2,000 to 16,000", 2000, 16_000),
    "16k-128k": Band("16,000 to 128,000", 16_000, 128_000),
    "over-128k": Band("128,000 and more", 128_000, None),
}

OPEN, CLOSED = "open", "closed"
WEIGHTS = {OPEN: "Open", CLOSED: "Not open, or unknown"}
AS_PROTOCOL = "protocol"  # the precision of entries that declare none


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a view; empty ones let all models pass."""

    q: str = ""
    family: str = ""
    model_kind: str = ""
    size: str = ""  # a key of SIZES, or UNKNOWN
    access: str = ""
    source: str = ""
    context: str = ""  # a key of CONTEXTS, or UNKNOWN
    released: str = ""  # a year, or UNKNOWN
    without: str = ""  # a source whose models are left out
    prompting: str = ""  # a value of Prompting
    precision: str = ""  # one that entries declare, or AS_PROTOCOL
    weight_format: str = ""  # as in FP8, or UNKNOWN
    weights: str = ""  # a key of WEIGHTS
    licence: str = ""  # as in mit, or UNKNOWN

    @property
    def active(self) -> dict[str, str]:
        """The filters that are set, by name."""
        return {row.name: getattr(self, row.name) for row in fields(self) if getattr(self, row.name)}

    @property
    def is_narrowed(self) -> bool:
        """Whether any filter but the search is set."""
        return bool(self.active.keys() - {"q"})

    def condition(self, model: str = "model__") -> Q:
        """The condition on what has a model, reached over `model`. Each word of `q` is in its name, family or slug."""
        condition = match_words(self.q, model)
        exact = {"family": self.family, "kind": self.model_kind, "access": self.access, "source": self.source}
        condition &= Q(**{f"{model}{field}": value for field, value in exact.items() if value})
        if self.without:
            condition &= ~Q(**{f"{model}source": self.without})
        if self.prompting:
            condition &= asked_as(self.prompting, model)
        if self.weights:
            condition &= open_weights(model) if self.weights == OPEN else ~open_weights(model)
        condition &= equals(f"{model}precision", self.precision, AS_PROTOCOL)
        condition &= equals(f"{model}weight_format", self.weight_format) & equals(f"{model}licence", self.licence)
        condition &= in_band(f"{model}parameters", SIZES, self.size)
        condition &= in_band(f"{model}context", CONTEXTS, self.context)
        if self.released == UNKNOWN:
            return condition & Q(**{f"{model}release_date__isnull": True})
        return condition & Q(**{f"{model}release_date__year": int(self.released)}) if self.released else condition


def equals(column: str, value: str, empty: str = UNKNOWN) -> Q:
    """The condition that a text of a model is `value`; where that is `empty`, that it is none; of "", none."""
    return Q(**{column: "" if value == empty else value}) if value else Q()


def in_band(column: str, bands: dict[str, Band], key: str) -> Q:
    """The condition that a number of a model is in the band of that key, or unknown; of "", none."""
    if key == UNKNOWN:
        return Q(**{f"{column}__isnull": True})
    return bands[key].holds(column) if key else Q()


def match_words(words: str, model: str = "") -> Q:
    """Each word is in the name, the family or the slug of a model, which is reached over `model`."""
    condition = Q()
    for word in words.split():
        condition &= (
            Q(**{f"{model}name__icontains": word})
            | Q(**{f"{model}family__icontains": word})
            | Q(**{f"{model}slug__icontains": word})
        )
    return condition


# Of all answers of a chat entry; null for others.
CHAT_COUNTS = "result__scoring__run__chat"
REFUSAL_RATE = Cast(KeyTextTransform("refused", CHAT_COUNTS), FloatField()) / NullIf(
    Cast(KeyTextTransform("answers", CHAT_COUNTS), FloatField()), Value(0.0)
)
SORTED: dict[str, Expression | F] = {
    RANK: F("rank"),
    "value": F("value"),
    "model": Lower("model__name"),
    "family": NullIf(Lower("model__family"), Value("")),
    "kind": F("model__kind"),
    "provenance": F("metric_version__provenance"),
    "parameters": F("model__parameters"),
    "context": F("model__context"),
    "prompting": Case(
        *(When(asked_as(key, "model__"), then=Value(place)) for place, key in enumerate(LanguageModel.Prompting.values))
    ),
    "precision": NullIf("model__precision", Value("")),
    "weights": Case(When(open_weights("model__"), then=Value(OPEN)), default=Value(CLOSED)),
    "licence": NullIf(Lower("model__licence"), Value("")),
    "release_date": F("model__release_date"),
    "date": F("result__scoring__scored_at"),
    "n": F("result__n"),
    "missing": F("result__missing"),
    "refusals": REFUSAL_RATE,
    "revision": NullIf("model__revision", Value("")),
}


@dataclass(frozen=True, slots=True)
class Order:
    """The order of rows by a column: a key of SORTED, or SLICE and the name of a slice."""

    key: str = RANK
    descending: bool = False

    @property
    def slice(self) -> str:
        """The slice whose values it is by; "" where it is by something else."""
        return self.key.removeprefix(SLICE) if self.key.startswith(SLICE) else ""

    def expressions(self, rank: Expression | F, rank_descending: bool) -> list[OrderBy]:
        """For standings; what is empty comes last in both directions, and equal ones are by rank and then by name.

        rank: the expression to order by in place of stored ranks, and whether its largest value ranks first.
        """
        first: OrderBy
        if self.slice:
            own = {"scoring": OuterRef("result__scoring"), "measure": OuterRef("measure")}
            of_slice = Result.objects.filter(**own, slice=self.slice)
            first = order_expression(Subquery(of_slice.values("value")[:1]), self.descending)
        elif self.key == RANK:
            first = order_expression(rank, self.descending != rank_descending)
        else:
            first = order_expression(SORTED[self.key], self.descending)
        return [first, order_expression(rank, rank_descending), F("model__name").asc(), F("model_id").asc()]


def order_expression(expression: Expression | F | Subquery, is_descending: bool) -> OrderBy:
    """The order by an expression, with what is empty last."""
    return expression.desc(nulls_last=True) if is_descending else expression.asc(nulls_last=True)


EXTRAS = {
    "family": "Family",
    "kind": "Kind",
    "parameters": "Parameters",
    "context": "Context length",
    "prompting": "Asked as",
    "precision": "Precision",
    "weights": "Weights",
    "licence": "Licence",
    "release_date": "Release date",
    "date": "Date",
    "n": "Texts",
    "missing": "Without a score",
    "refusals": "Refused",
    "revision": "Revision",
}
USUAL = ("parameters", "date", "n", "missing", "refusals")  # shown where nobody chose


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
