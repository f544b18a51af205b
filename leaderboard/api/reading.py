"""What operations that read have in common: made once for each state of the board, nothing misspelt, page by page."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from ninja.pagination import PaginationBase
from ninja.params.functions import Path, Query
from pydantic import Field

from leaderboard.api.problems import Fault, problem, shorten_value
from leaderboard.views.keeping import keep_page

SLUG = r"^[-a-zA-Z0-9_]+$"
TEXT = r"^[^\u0000]*$"  # what databases can look for
LARGEST = 2**31 - 1
MOST, USUAL = 1000, 100  # items of a page

ModelSlug = Annotated[
    str, Path(pattern=SLUG, max_length=120, description="Of a model.", examples=["hosseini-2023-gpt-2"])
]
MetricSlug = Annotated[str, Path(pattern=SLUG, max_length=80, description="Of a metric.", examples=["safety-toxigen"])]
Number = Annotated[int, Path(ge=1, le=LARGEST, examples=[1])]


def parameter(description: str, default: Any = None, **options: Any) -> Any:
    """A parameter that may be left out."""
    return Query(default, description=description, **options)


def text(description: str, most: int = 200) -> Any:
    """A parameter that may be left out: any text."""
    return parameter(description, max_length=most, pattern=TEXT)


def number(description: str, **options: Any) -> Any:
    """A parameter that may be left out: a whole number from 1."""
    return parameter(description, ge=1, le=LARGEST, **options)


def reading_router(tag: str) -> Router:
    """A router of operations that only read what everyone may see."""
    router = Router(tags=[tag])
    router.add_decorator(keep_page(personal=False, reads=None), mode="view")
    router.add_decorator(refuse_unknown_parameters, mode="view")
    return router


def refuse_unknown_parameters(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Decorate an operation: a parameter that it does not have is an error, not a filter that filters nothing."""
    operation = inspect.unwrap(run).__self__

    @wraps(run)
    def answer(request: HttpRequest, **values: Any) -> HttpResponse:
        queries = [model for model in operation.models if model.__ninja_param_source__ == "query"]
        parameter_names = [name for model in queries for name in model.__ninja_flatten_map__]
        faults = [
            Fault(
                field=name,
                value=shorten_value(request.GET[name]),
                message=f"There is no parameter {shorten_value(name)!r} here.",
                remedy=f"Use any of {', '.join(parameter_names)}." if parameter_names else "Leave it out.",
            )
            for name in request.GET
            if name not in parameter_names
        ]
        return problem(422, *faults) if faults else run(request, **values)

    return answer


class Span(Schema):
    """Which part of a list."""

    limit: int = Field(USUAL, ge=1, le=MOST, description=f"Items of a page, at most {MOST}.")
    offset: int = Field(0, ge=0, le=LARGEST, description="Items before the page.")


class Page(Schema):
    """A part of a list, and where the rest is."""

    count: int = Field(description="Items of all pages.")
    next: str | None = Field(description="The address of the next page; null on the last.")
    previous: str | None = Field(description="The address of the page before; null on the first.")


def page(request: HttpRequest, count: int, span: Span) -> dict[str, Any]:
    """The part of a `Page` of `count` items that is the same for all."""

    def address(offset: int) -> str:
        query = request.GET.copy()
        query["limit"], query["offset"] = str(span.limit), str(offset)
        return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")

    previous_offset = max(0, min(span.offset, count) - span.limit)
    return {
        "count": count,
        "next": address(span.offset + span.limit) if span.offset + span.limit < count else None,
        "previous": address(previous_offset) if span.offset else None,
    }


class Pages(PaginationBase):
    """Lists, `limit` items from `offset` on."""

    Input = Span  # type: ignore[assignment] # ours is no class of the other's, and read in its place

    class Output(Page):
        """A page of items."""

        items: list[Any]

    def paginate_queryset(self, queryset: Any, pagination: Span, request: HttpRequest, **params: Any) -> dict[str, Any]:
        """The page of what an operation found."""
        part = queryset[pagination.offset : pagination.offset + pagination.limit]
        return page(request, self._items_count(queryset), pagination) | {"items": list(part)}
