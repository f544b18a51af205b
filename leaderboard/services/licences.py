"""The licences of the packages that Plumbline runs with, as each package states them."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

EXTRAS = ("site", "engine", "quantised", "sentry")
NOT_STATED = "not stated"
_LICENCE_FILE = re.compile(r"(^|/)(licen[cs]es?|copying|notice|copyright)([-._][^/]*)?$", re.IGNORECASE)


@dataclass(frozen=True)
class PackageLicence:
    """An installed package: its name, its version, its licence in its own words, and the texts of its licence files."""

    name: str
    version: str
    licence: str
    texts: tuple[str, ...]


def list_licences(project: Path) -> list[PackageLicence]:
    """List what the pyproject.toml at `project` asks for and what that asks for, by name, as far as it is installed.

    A host without the engine has less.
    """
    return [describe_licence(package) for _, package in sorted(find_packages(project).items())]


def find_packages(project: Path) -> dict[str, Distribution]:
    """Find the installed packages that the project needs at run time, by name."""
    project_table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    extras = project_table["optional-dependencies"]
    requirements = [
        Requirement(line) for lines in (project_table["dependencies"], *map(extras.get, EXTRAS)) for line in lines
    ]
    packages: dict[str, Distribution] = {}
    keys = set()
    while requirements:
        requirement = requirements.pop()
        name = canonicalize_name(requirement.name)
        if (key := (name, frozenset(requirement.extras))) in keys:
            continue
        keys.add(key)
        try:
            packages[name] = distribution(name)
        except PackageNotFoundError:
            continue
        requirements += list_requirements(packages[name], requirement.extras)
    return packages


def list_requirements(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """List what a package asks for on this machine, with these extras of it."""
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield requirement


def describe_licence(package: Distribution) -> PackageLicence:
    """Read the licence of a package from its metadata: an expression, else its classifiers, else free words."""
    metadata = package.metadata.json
    classifiers = [str(line) for line in metadata.get("classifier", ()) if str(line).startswith("License :: ")]
    licence = (
        str(metadata.get("license_expression", ""))
        or "; ".join(line.rpartition(" :: ")[2] for line in classifiers)
        or str(metadata.get("license", "")).strip().partition("\n")[0]
        or NOT_STATED
    )
    files = [file for file in package.files or () if _LICENCE_FILE.search(file.as_posix())]
    paths = (Path(file.locate()) for file in sorted(files))
    texts = tuple(path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())
    return PackageLicence(str(metadata["name"]), package.version, licence, texts)
