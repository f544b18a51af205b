"""The description of the API as people read it: operations by tag, and what the fields of their answers are."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from leaderboard.api import api
from leaderboard.api.front import ROOT

OpenApiPart = dict[str, Any]
# The document has them, though no answer refers to them: operations list their fields as parameters.
PARAMETER_SCHEMAS = ("Input", "Span", "RankChangeQuery", "StandingsQuery")


@dataclass(frozen=True, slots=True)
class GuideField:
    """A parameter, or a field of an answer; kind: what it holds, in words."""

    name: str
    kind: str
    about: str
    usual: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that the API does."""

    key: str
    method: str
    path: str
    title: str
    about: str
    parameters: list[GuideField]
    answer: str

    @property
    def paragraphs(self) -> list[str]:
        """What it does."""
        return [" ".join(paragraph.split()) for paragraph in self.about.split("\n\n") if paragraph.strip()]


@dataclass(frozen=True, slots=True)
class GuideKind:
    """What an answer is made of."""

    name: str
    about: str
    fields: list[GuideField]


@dataclass(frozen=True, slots=True)
class Guide:
    """All of it."""

    groups: list[tuple[str, list[Operation]]]
    kinds: list[GuideKind]

    @property
    def names(self) -> set[str]:
        """Of the kinds."""
        return {kind.name for kind in self.kinds}


@cache
def read_guide() -> Guide:
    """The guide to the API as it is described at /api/v1/openapi.json."""
    description = _read_schema()
    schemas = description["components"]["schemas"]
    groups: dict[str, list[Operation]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_describe_operation(path, method, operation))
    kinds = [
        GuideKind(name, schema.get("description", ""), list(_list_fields(schema)))
        for name, schema in sorted(schemas.items())
        if "properties" in schema and name not in PARAMETER_SCHEMAS
    ]
    return Guide(list(groups.items()), kinds)


@cache
def _read_schema() -> OpenApiPart:
    return api.get_openapi_schema(path_prefix=ROOT)


def _describe_operation(path: str, method: str, operation: OpenApiPart) -> Operation:
    parameters = [
        GuideField(
            parameter["name"],
            describe_kind(parameter["schema"]).removesuffix(" or null"),
            parameter.get("description") or parameter["schema"].get("description", ""),
            usual="" if parameter["schema"].get("default") is None else str(parameter["schema"]["default"]),
            place=parameter["in"],
        )
        for parameter in operation.get("parameters", [])
    ]
    answers = operation["responses"]
    content: OpenApiPart = next((answers[code].get("content", {}) for code in (200, 201) if code in answers), {})
    media, first = next(iter(content.items()), ("", dict[str, Any]()))
    answer = describe_kind(first.get("schema", {})) if media == "application/json" else media
    return Operation(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation.get("description", ""),
        parameters,
        answer,
    )


def _list_fields(schema: OpenApiPart) -> Iterator[GuideField]:
    for name, property_schema in schema["properties"].items():
        yield GuideField(name, describe_kind(property_schema), property_schema.get("description", ""))


def describe_kind(schema: OpenApiPart) -> str:
    """What a value of the schema is, in words: `number or null`, `list of Entry`."""
    if "$ref" in schema:
        component = _read_schema()["components"]["schemas"][_name(schema)]
        return describe_kind(component) if "enum" in component else _name(schema)
    if "enum" in schema:
        return ", ".join(filter(None, schema["enum"]))
    for several in ("anyOf", "allOf"):
        if several in schema:
            return " or ".join(describe_kind(alternative) for alternative in schema[several])
    if "const" in schema:
        return str(schema["const"])
    match schema.get("type"):
        case "array":
            return f"list of {describe_kind(schema['items'])}" if schema.get("items") else "list"
        case "string":
            return {"date": "day", "date-time": "time", "binary": "bytes"}.get(schema.get("format", ""), "text")
        case "integer":
            return "whole number"
        case None:
            return "anything"
        case kind:
            return str(kind)


def _name(schema: OpenApiPart) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
