"""The declarations of text classifiers as scorers: those of classifiers.toml, and any other one by hub id or folder."""

import tomllib
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from scoring.attributes import Attribute, Meaning
from scoring.scorers.base import Scorer
from scoring.scorers.declarations import ScorerDeclaration, Surroundings, describe_terms

CLASSIFIER = "classifier:"  # what names of such scorers begin with
DECLARED = Path(__file__).with_name("classifiers.toml")
NOTHING: Mapping[str, Meaning] = MappingProxyType({})


# Classifiers need torch, which is imported when the first of them is built: pages that name scorers load none.
def _build(
    hub_id: str,
    declared_meanings: Mapping[str, Meaning],
    choice: str,
    *,
    folder: Path | None = None,
    meanings: Mapping[str, Meaning] = NOTHING,
    **options: Any,
) -> Scorer:
    classifier = import_module("scoring.scorers.classifier")
    ref = str(folder) if folder else choice or hub_id
    scorer: Scorer = classifier.ClassifierScorer(ref, meanings={**declared_meanings, **meanings}, **options)
    return scorer


def _read_labels(
    declared_meanings: Mapping[str, Meaning], folder: str, meanings: Mapping[str, Meaning]
) -> tuple[Attribute, ...]:
    classifier = import_module("scoring.scorers.classifier")
    attributes: tuple[Attribute, ...] = classifier.read_attributes(folder, {**declared_meanings, **meanings})
    return attributes


def _options(surroundings: Surroundings) -> dict[str, Any]:
    return {
        "folder": surroundings.folder if surroundings.folder.is_dir() else None,
        "meanings": dict(surroundings.meanings),
        "endpoint": surroundings.hub_endpoint,
        "token": surroundings.hub_token,
        "may_fetch": surroundings.may_fetch,
    }


def convert_files(function: str, source: Path, target: Path) -> Path:
    """What `function` of `scoring.scorers.conversion` makes of the files in `source`."""
    folder: Path = getattr(import_module("scoring.scorers.conversion"), function)(source, target)
    return folder


def _declare(
    name: str, title: str, limits: tuple[str, ...], hub_id: str = "", meanings: Mapping[str, Meaning] = NOTHING
) -> ScorerDeclaration:
    return ScorerDeclaration(
        CLASSIFIER + name,
        title,
        False,
        partial(_build, hub_id, meanings),
        limits,
        options=_options,
        read_labels=partial(_read_labels, meanings),
        convert=partial(convert_files, "convert_classifier"),
    )


def read_classifiers() -> list[dict[str, Any]]:
    """The entries of classifiers.toml."""
    entries: list[dict[str, Any]] = tomllib.loads(DECLARED.read_text(encoding="utf-8"))["classifiers"]
    return entries


CLASSIFIERS = (
    *(
        _declare(
            entry["hub_id"],
            entry["title"],
            (*entry["limits"], describe_terms(entry["languages"], entry["licence"])),
            entry["hub_id"],
            {label: Meaning(meaning) for label, meaning in entry["labels"].items()},
        )
        for entry in read_classifiers()
    ),
    _declare(
        "HUB_ID_OR_FOLDER",
        "Text classifier of transformers",
        ("Labels mean what the classifier's authors meant by them: read its model card before its numbers.",),
    ),
)
