"""A published version in a folder, which can be checked without a board: manifest.json and the files in artefacts/.

The manifest names the origin of the numbers: scorer, formula, protocol, evaluation set, each entry's outputs and
scores by their sha256; and it holds the numbers. `check` hashes every file, recomputes every number by the formula, and
compares. It takes a scorer's scores as they are: scoring the texts again would be another measurement.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from scoring import artefacts, reproduction
from scoring.attributes import Attribute
from scoring.metrics.formulas import FORMULAS, MEASURES
from scoring.metrics.kinds import Collected, Formula
from scoring.refusals import Refused

MANIFEST = "manifest.json"
FORMAT = 1
SHA256 = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int, int], None]  # files and entries checked so far, and their total


class ManifestError(Refused):
    """The manifest is missing or invalid; the message says why."""


@dataclass
class ManifestReport:
    """How much was checked, and the problems."""

    title: str
    artefacts: int = 0
    entries: int = 0
    results: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def artefact_path(sha256: str) -> str:
    """The path of an artefact within the folder."""
    return f"artefacts/{sha256}.parquet"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest of `folder`. Raises ManifestError."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ManifestError(f"{folder} holds no {MANIFEST}: give the folder that it lies in") from error
    except ValueError as error:
        raise ManifestError(f"{path} is not JSON ({error}): download it again") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("plumbline_manifest"), int):
        raise ManifestError(f"{path} is no manifest of Plumbline: plumbline_manifest is missing")
    if manifest["plumbline_manifest"] > FORMAT:
        raise ManifestError(
            f"{path} has format {manifest['plumbline_manifest']}, this is {FORMAT}: upgrade Plumbline to read it"
        )
    return manifest


def check(folder: Path, progress: Progress = lambda _count, _total: None) -> ManifestReport:
    """Hash every artefact in `folder`, recompute every number and compare. Raises ManifestError."""
    manifest = read_manifest(folder)
    try:
        return _Check(folder, manifest, progress).report
    except (KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f"{folder / MANIFEST} is not whole: {error!r}; download it again") from error


class _Check:
    def __init__(self, folder: Path, manifest: dict[str, Any], progress: Progress) -> None:
        self._folder, self._manifest, self._progress = folder, manifest, progress
        metric, version = manifest["metric"]["slug"], manifest["version"]
        self.report = ManifestReport(f"{metric} version {version['number']}")
        self._entries: list[dict[str, Any]] = manifest["entries"]
        self._done, self._total = 0, len(manifest["artefacts"]) + len(self._entries)
        self._whole = {sha256 for sha256 in manifest["artefacts"] if self._check_file(sha256)}
        if version["provenance"] == "published":
            self.report.notes.append(f"figures of {version['source']}: there are no artefacts to recompute them from")
        else:
            self._recompute()
            self._ranks()

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)

    def _check_file(self, sha256: str) -> bool:
        """Whether the file exists and has the sha256 in its name."""
        self._step()
        self.report.artefacts += 1
        if not SHA256.fullmatch(sha256):
            raise ManifestError(f"{MANIFEST}: {sha256!r} is no sha256")
        path = self._folder / artefact_path(sha256)
        description = self._manifest["artefacts"][sha256]
        label = f"{artefact_path(sha256)} ({description['kind']})"
        if not path.is_file():
            self.report.problems.append(f"{label}: is missing{self._describe_source(sha256)}")
            return False
        digest = artefacts.sha256(path)
        if digest != sha256:
            self.report.problems.append(f"{label}: its bytes have the sha256 {digest}: download it again")
        return digest == sha256

    def _describe_source(self, sha256: str) -> str:
        """Say where to get a missing artefact."""
        texts = self._manifest["evaluation_set"]
        if sha256 in (texts["artefact"], texts["prompt_scores"]) and not self._manifest["artefacts"][sha256]["url"]:
            return f": boards do not pass on {texts['slug']}; its licence: {texts['licence'] or 'not stated'}"
        return ": download it"

    def _load(self, sha256: str | None) -> pa.Table | None:
        """Load an artefact. Raises ArtefactError where it is not intact."""
        if sha256 is None:
            return None
        if sha256 not in self._whole:
            raise artefacts.ArtefactError(f"{artefact_path(sha256)} is not whole")
        kind = self._manifest["artefacts"][sha256]["kind"]
        return artefacts.read(self._folder / artefact_path(sha256), kind)

    def _recompute(self) -> None:
        declaration = self._manifest["formula"]
        formula = FORMULAS.get(declaration["name"])
        if formula is None or formula.version < declaration["version"]:
            own_version = f"version {formula.version}" if formula else "none of that name"
            self.report.problems.append(
                f"formula {declaration['name']}, version {declaration['version']}: this code has {own_version}; files "
                f"and ranks were checked, and no number was recomputed. Use Plumbline "
                f"{self._manifest['code']['version']}"
            )
            return
        texts = self._manifest["evaluation_set"]
        try:
            shared_tables = [
                self._load(sha256)
                for sha256 in (texts["artefact"], texts["prompt_scores"], self._manifest["prompt_scores"])
            ]
        except artefacts.ArtefactError as error:
            self.report.problems.append(f"nothing was recomputed: {error}")
            return
        left_out: set[str] = set()
        refusal = ""
        for entry in self._entries:
            recomputation = self._entry(entry, formula, declaration["version"], shared_tables)
            self.report.problems += [
                f"{entry['model']['slug']}: {difference}" for difference in recomputation.differences
            ]
            self.report.entries += 1
            self.report.results += recomputation.compared
            left_out |= recomputation.left_out
            refusal = refusal or recomputation.refusal
            self._step()
        note = reproduction.describe_left_out(formula, declaration["version"], left_out, refusal)
        if note:
            self.report.notes.append(f"{note}; Plumbline {self._manifest['code']['version']} recomputes them")

    def _entry(
        self, entry: dict[str, Any], formula: Formula, version: int, shared_tables: list[pa.Table | None]
    ) -> reproduction.Recomputation:
        """Recompute an entry of this version of the formula."""
        stored_results = {(result["measure"], result["slice"]): result for result in entry["results"]}
        try:
            outputs, values, replicates = map(
                self._load, (entry["run"]["artefact"], entry["scores"], entry["replicates"])
            )
            texts, published_scores, own_scores = shared_tables
            if texts is None or outputs is None or values is None:
                return _nothing("names no texts, outputs or scores: nothing can be recomputed")
            attributes = [Attribute.from_json(content) for content in self._manifest["scorer"].get("attributes", [])]
            collection = Collected(
                texts, outputs, values, published_scores, own_scores, attributes, entry["model"]["kind"]
            )
            return reproduction.recompute(formula, version, collection, replicates, stored_results)
        except (ValueError, KeyError) as error:
            return _nothing(f"cannot be recomputed: {error}")

    def _ranks(self) -> None:
        """Check ranks: better values have better ranks, equal values equal ones. Withdrawn entries may leave gaps.

        Entries that lack more scores than the version allows must have no rank.
        """
        most = self._manifest["version"].get("most_missing")
        with_rank = {row["model"] for row in self._manifest["standings"]}
        for entry in self._entries if most is not None else ():
            model, count, missing_count = entry["model"]["slug"], entry["texts"], entry["texts_missing"]
            if model in with_rank and count and missing_count > count * most:
                self.report.problems.append(
                    f"{model}: is ranked, though {missing_count} of {count} texts have no score, "
                    f"more than {100 * most:g}%"
                )
        values = {
            (entry["model"]["slug"], result["measure"], result["slice"]): result["value"]
            for entry in self._entries
            for result in entry["results"]
        }
        boards: dict[tuple[str, str, str], list[tuple[int, float, str]]] = {}
        unknown: set[str] = set()
        for row in self._manifest["standings"]:
            measure, name, model = row["measure"], row["slice"], row["model"]
            if measure not in MEASURES:
                unknown.add(measure)
                continue
            if (model, measure, name) not in values:
                self.report.problems.append(f"{model}: is ranked on {measure} of {name}, and has no such number")
                continue
            board = boards.setdefault((measure, name, row["population"]), [])
            board.append((row["rank"], values[model, measure, name], model))
        if unknown:
            self.report.notes.append(f"ranks not verified: {', '.join(sorted(unknown))}, which this code does not have")
        for (measure, name, population), board in boards.items():
            sign = -1 if MEASURES[measure].direction == "higher" else 1
            ordered_rows = sorted(board)
            for (rank, value, model), (next_rank, next_value, other) in pairwise(ordered_rows):
                if (rank < next_rank) != (sign * value < sign * next_value):
                    self.report.problems.append(
                        f"{model} and {other}: their ranks on {measure} of {name}, population {population}, do not "
                        "follow from their values"
                    )


def _nothing(reason: str) -> reproduction.Recomputation:
    """The report on an entry that could not be recomputed."""
    return reproduction.Recomputation([reason], 0, frozenset())
