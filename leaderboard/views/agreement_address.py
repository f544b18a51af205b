"""The address of the page of agreement: what it asks for, and the addresses of views like it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode

from django.http import Http404, HttpRequest

from leaderboard.models import LanguageModel, Metric
from leaderboard.queries.agreement import (
    NUMBERS,
    FirstSlices,
    MeasureColumn,
    Values,
    Versions,
    choose_columns,
    first_slices,
    require_values,
    usual_numbers,
    values_of,
    versions_by_metric,
)
from leaderboard.queries.coefficients import COEFFICIENTS, EACH
from leaderboard.rankings.populations import ALL
from leaderboard.rankings.selection import BOTH
from leaderboard.views.parameters import pick
from scoring.refusals import Refused
from scoring.statistics.correlations import Coefficient

PARAMETERS = ("numbers", "for", "c", "slice", "coefficient", "add", "kind", "x", "y", "against", "of", "page")
KINDS = [
    ("", "One kind of likelihood"),
    *LanguageModel.Kind.choices,
    (EACH, "Each kind, and all together"),
    (ALL, "All kinds together"),
]


@dataclass(frozen=True)
class AgreementChoice:
    """What the address asks for; every value is one that exists."""

    numbers: str  # one of NUMBERS
    coefficient: Coefficient
    kind: str  # of the models; ALL for all together, EACH for both, "" for one kind in measures that differ by kind
    part: str  # of slices, where columns are what each metric shows first
    metrics: dict[str, Versions]  # by slug, of those numbers
    firsts: list[FirstSlices]
    columns: list[MeasureColumn]
    default: bool  # whether those are what each metric shows first
    offer: Versions | None  # of the metric whose measures are offered

    @property
    def is_mixed(self) -> bool:
        """Whether measured numbers and published ones stand together."""
        return self.numbers == BOTH

    @property
    def options(self) -> dict[str, str]:
        """What the address has apart from columns."""
        options = {"numbers": self.numbers, "coefficient": self.coefficient, "kind": self.kind, "slice": self.part}
        return {name: value for name, value in options.items() if value}

    def address(self, columns: Sequence[MeasureColumn] | None = None, **more: str) -> str:
        """The same view, of other columns or with more of the address."""
        options = self.options | ({"slice": ""} if columns is not None else {}) | more
        address_columns = self.columns if columns is None else columns
        keys = [] if self.default and columns is None else [("c", column.key) for column in address_columns]
        return "?" + urlencode([(name, value) for name, value in [*options.items(), *keys] if value])

    def address_of_part(self, part: str) -> str:
        """What each metric shows first, on one slice."""
        return "?" + urlencode({name: value for name, value in (self.options | {"slice": part}).items() if value})


def parse(request: HttpRequest, metrics: list[Metric]) -> AgreementChoice:
    """Read the address, but for the pair and the property. Raises Http404 with a sentence.

    The form says by `for` which numbers its columns are of: others need not have them.
    """
    numbers = pick(request, "numbers", usual_numbers(metrics), list(NUMBERS))
    versions = versions_by_metric(metrics, numbers)
    same = request.GET.get("for", numbers) == numbers
    names = [name for name in request.GET.getlist("c") if name and same]
    firsts = first_slices(list(versions.values()))
    part = "" if names else request.GET.get("slice", "") if same else ""
    try:
        columns = choose_columns(names, versions, firsts, part)
    except Refused as error:
        raise Http404(str(error)) from error
    return AgreementChoice(
        numbers=numbers,
        coefficient=cast(Coefficient, pick(request, "coefficient", "pearson", list(COEFFICIENTS))),
        kind=pick(request, "kind", "", [value for value, _ in KINDS]),
        part=part,
        metrics=versions,
        firsts=firsts,
        columns=columns,
        default=not names,
        offer=versions.get(pick(request, "add", "", ["", *versions])),
    )


def read_values(choice: AgreementChoice) -> Values:
    """The values of the chosen columns. Raises Http404 for one that was asked for and has none at all."""
    values = values_of(choice.columns)
    try:
        if not choice.default:
            require_values(values)
    except Refused as error:
        raise Http404(str(error)) from error
    return values
