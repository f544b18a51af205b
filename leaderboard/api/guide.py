"""The description of the API as people read it: operations by tag, and what the fields of their answers are."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from leaderboard.api import api
from leaderboard.api.front import ROOT

Described = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
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
    parameters: list[Field]
    answer: str

    @property
    def paragraphs(self) -> list[str]:
        """What it does."""
        return [" ".join(of.split()) for of in self.about.split("\n\n") if of.strip()]


@dataclass(frozen=True, slots=True)
class Kind:
    """What an answer is made of."""

    name: str
    about: str
    fields: list[Field]


@dataclass(frozen=True, slots=True)
class Guide:
    """All of it."""

    groups: list[tuple[str, list[Operation]]]
    kinds: list[Kind]

    @property
    def names(self) -> set[str]:
        """Of the kinds."""
        return {kind.name for kind in self.kinds}


@cache
def guide() -> Guide:
    """The guide to the API as it is described at /api/v1/openapi.json."""
    described = _described()
    schemas = described["components"]["schemas"]
    groups: dict[str, list[Operation]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    kinds = [
        Kind(name, schema.get("description", ""), list(_fields(schema)))
        for name, schema in sorted(schemas.items())
        if "properties" in schema and name not in ("Input", "Span")
    ]
    return Guide(list(groups.items()), kinds)


@cache
def _described() -> Described:
    return api.get_openapi_schema(path_prefix=ROOT)


def _operation(path: str, method: str, operation: Described) -> Operation:
    parameters = [
        Field(
            of["name"],
            kind_of(of["schema"]).removesuffix(" or null"),
            of.get("description") or of["schema"].get("description", ""),
            usual="" if of["schema"].get("default") is None else str(of["schema"]["default"]),
            place=of["in"],
        )
        for of in operation.get("parameters", [])
    ]
    answers = operation["responses"]
    content = next((answers[code].get("content", {}) for code in (200, 201) if code in answers), {})
    media, first = next(iter(content.items()), ("", {}))
    answer = kind_of(first.get("schema", {})) if media == "application/json" else media
    return Operation(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation.get("description", ""),
        parameters,
        answer,
    )


def _fields(schema: Described) -> Iterator[Field]:
    for name, of in schema["properties"].items():
        yield Field(name, kind_of(of), of.get("description", ""))


def kind_of(schema: Described) -> str:
    """What a value of the schema is, in words: `number or null`, `list of Entry`."""
    if "$ref" in schema:
        found = _described()["components"]["schemas"][_name(schema)]
        return kind_of(found) if "enum" in found else _name(schema)
    if "enum" in schema:
        return ", ".join(filter(None, schema["enum"]))
    for several in ("anyOf", "allOf"):
        if several in schema:
            return " or ".join(kind_of(of) for of in schema[several])
    if "const" in schema:
        return str(schema["const"])
    match schema.get("type"):
        case "array":
            return f"list of {kind_of(schema['items'])}" if schema.get("items") else "list"
        case "string":
            return {"date": "day", "date-time": "time", "binary": "bytes"}.get(schema.get("format", ""), "text")
        case "integer":
            return "whole number"
        case None:
            return "anything"
        case kind:
            return str(kind)


def _name(schema: Described) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
