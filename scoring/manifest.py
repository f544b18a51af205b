"""A published version in a folder: manifest.json, and in artefacts/ the files it names. Checked without a board.

The manifest says of what the numbers are made: scorer, formula, protocol, evaluation set, each entry's outputs and
scores by their sha256, and the numbers. `check` hashes every file, recomputes every number by the formula, and
compares. What a scorer said of texts is taken as it is: asking it again is another measurement.
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
from scoring.metrics.formulas import FORMULAS, MEASURES, Collected, Formula

MANIFEST = "manifest.json"
FORMAT = 1
SHA256 = re.compile(r"[0-9a-f]{64}")

Progress = Callable[[int, int], None]  # files and entries done, and in all


class ManifestError(ValueError):
    """There is no manifest to check; the message says what is wrong with it."""


@dataclass
class ManifestReport:
    """What was checked, and what is wrong with it."""

    title: str
    artefacts: int = 0
    entries: int = 0
    results: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def artefact_path(sha256: str) -> str:
    """Where an artefact lies in the folder."""
    return f"artefacts/{sha256}.parquet"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of `folder`. Raises ManifestError."""
    path = folder / MANIFEST
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ManifestError(f"{folder} holds no {MANIFEST}: give the folder that it lies in") from error
    except ValueError as error:
        raise ManifestError(f"{path} is not JSON ({error}): download it again") from error
    if not isinstance(found, dict) or not isinstance(found.get("plumbline_manifest"), int):
        raise ManifestError(f"{path} is no manifest of Plumbline: plumbline_manifest is missing")
    if found["plumbline_manifest"] > FORMAT:
        raise ManifestError(
            f"{path} has format {found['plumbline_manifest']}, this is {FORMAT}: upgrade Plumbline to read it"
        )
    return found


def check(folder: Path, progress: Progress = lambda _done, _total: None) -> ManifestReport:
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
        self._whole = {sha256 for sha256 in manifest["artefacts"] if self._intact(sha256)}
        if version["provenance"] == "published":
            self.report.notes.append(f"figures of {version['source']}: there are no artefacts to recompute them from")
        else:
            self._recompute()
            self._ranks()

    def _step(self) -> None:
        self._done += 1
        self._progress(self._done, self._total)

    def _intact(self, sha256: str) -> bool:
        """Whether the file is there with the bytes of its name."""
        self._step()
        self.report.artefacts += 1
        if not SHA256.fullmatch(sha256):
            raise ManifestError(f"{MANIFEST}: {sha256!r} is no sha256")
        path = self._folder / artefact_path(sha256)
        described = self._manifest["artefacts"][sha256]
        what = f"{artefact_path(sha256)} ({described['kind']})"
        if not path.is_file():
            self.report.problems.append(f"{what}: is missing{self._where(sha256)}")
            return False
        found = artefacts.sha256(path)
        if found != sha256:
            self.report.problems.append(f"{what}: its bytes have the sha256 {found}: download it again")
        return found == sha256

    def _where(self, sha256: str) -> str:
        """Where to get a missing artefact."""
        texts = self._manifest["evaluation_set"]
        if sha256 in (texts["artefact"], texts["prompt_scores"]) and not self._manifest["artefacts"][sha256]["url"]:
            return f": boards do not pass on {texts['slug']}; its licence: {texts['licence'] or 'not stated'}"
        return ": download it"

    def _load(self, sha256: str | None) -> pa.Table | None:
        """An artefact that is whole. Raises ArtefactError where it is not."""
        if sha256 is None:
            return None
        if sha256 not in self._whole:
            raise artefacts.ArtefactError(f"{artefact_path(sha256)} is not whole")
        kind = self._manifest["artefacts"][sha256]["kind"]
        return artefacts.read(self._folder / artefact_path(sha256), kind)

    def _recompute(self) -> None:
        declared = self._manifest["formula"]
        formula = FORMULAS.get(declared["name"])
        if formula is None or formula.version < declared["version"]:
            here = f"version {formula.version}" if formula else "none of that name"
            self.report.problems.append(
                f"formula {declared['name']}, version {declared['version']}: this code has {here}; files and ranks "
                f"were checked, and no number was recomputed. Use Plumbline {self._manifest['code']['version']}"
            )
            return
        texts = self._manifest["evaluation_set"]
        try:
            shared = [
                self._load(of) for of in (texts["artefact"], texts["prompt_scores"], self._manifest["prompt_scores"])
            ]
        except artefacts.ArtefactError as error:
            self.report.problems.append(f"nothing was recomputed: {error}")
            return
        left_out: set[str] = set()
        refusal = ""
        for entry in self._entries:
            found = self._entry(entry, formula, declared["version"], shared)
            self.report.problems += [f"{entry['model']['slug']}: {what}" for what in found.differences]
            self.report.entries += 1
            self.report.results += found.compared
            left_out |= found.left_out
            refusal = refusal or found.refusal
            self._step()
        note = reproduction.describe_left_out(formula, declared["version"], left_out, refusal)
        if note:
            self.report.notes.append(f"{note}; Plumbline {self._manifest['code']['version']} recomputes them")

    def _entry(
        self, entry: dict[str, Any], formula: Formula, version: int, shared: list[pa.Table | None]
    ) -> reproduction.Recomputation:
        """Compute one entry again, which is of this version of the formula."""
        stored = {(result["measure"], result["slice"]): result for result in entry["results"]}
        try:
            outputs, per_text, replicates = map(
                self._load, (entry["run"]["artefact"], entry["scores"], entry["replicates"])
            )
            texts, published, own = shared
            if texts is None or outputs is None or per_text is None:
                return _nothing("names no texts, outputs or scores: nothing can be recomputed")
            attributes = [Attribute.from_json(content) for content in self._manifest["scorer"].get("attributes", [])]
            collected = Collected(texts, outputs, per_text if formula.asks_scorer else None, published, own, attributes)
            return reproduction.recompute(formula, version, collected, per_text, replicates, stored)
        except (ValueError, KeyError) as error:
            return _nothing(f"cannot be recomputed: {error}")

    def _ranks(self) -> None:
        """Better values must have better ranks, and equal ones equal; entries may have been withdrawn in between.

        Entries that lack more scores than the version allows must have no rank.
        """
        most = self._manifest["version"].get("most_missing")
        with_rank = {row["model"] for row in self._manifest["standings"]}
        for entry in self._entries if most is not None else ():
            model, count, missing = entry["model"]["slug"], entry["texts"], entry["texts_missing"]
            if model in with_rank and count and missing > count * most:
                self.report.problems.append(
                    f"{model}: is ranked, though {missing} of {count} texts have no score, more than {100 * most:g}%"
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
            ranked = sorted(board)
            for (rank, value, model), (next_rank, next_value, other) in pairwise(ranked):
                if (rank < next_rank) != (sign * value < sign * next_value):
                    self.report.problems.append(
                        f"{model} and {other}: their ranks on {measure} of {name}, population {population}, do not "
                        "follow from their values"
                    )


def _nothing(why: str) -> reproduction.Recomputation:
    """Of an entry that could not be computed again."""
    return reproduction.Recomputation([why], 0, frozenset())
