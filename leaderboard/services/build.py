"""The code that runs here: its version, its commit, its libraries."""

import platform
import re
import tomllib
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from django.conf import settings
from packaging.requirements import Requirement

LIBRARIES = (
    *("numpy", "scipy", "pyarrow", "torch", "transformers", "tokenizers", "safetensors"),
    *("detoxify", "alt-profanity-check", "scikit-learn", "pyahocorasick"),
)  # a change of which may move a number


@cache
def code() -> dict[str, Any]:
    """The code that wrote the manifest: its version, its commit where that is known, its libraries."""
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "name": project["name"],
        "version": project["version"],
        "commit": commit(settings.BASE_DIR),
        "python": platform.python_version(),
        "libraries": installed_libraries(),
    }


def installed_libraries() -> dict[str, str]:
    """The versions of the libraries that numbers depend on; a host without the engine has only some."""
    versions = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@cache
def environment_here() -> dict[str, str]:
    """What the numbers of this process depend on beside the code: Python's version, and those of installed libraries.

    A library's local version, as in `2.13.0+cu130`, says what it was built for, and counts for nothing here.
    """
    return {"python": _python(), **{name: _public(number) for name, number in installed_libraries().items()}}


def environment_pinned() -> dict[str, str]:
    """As `environment_here`, with the versions that requirements.lock and requirements-torch.lock pin."""
    pins: dict[str, str] = {}
    for lock in ("requirements.lock", "requirements-torch.lock"):
        pins |= read_pins((settings.BASE_DIR / lock).read_text(encoding="utf-8"))
    return {"python": _python(), **{name: _public(pins[name]) for name in LIBRARIES if name in pins}}


def read_pins(lock: str) -> dict[str, str]:
    """The version of each package that the text of a lock names for this Python; hashes are passed over."""
    lines = re.findall(r"^[A-Za-z0-9].*==[^\\\n]*", lock, re.MULTILINE)
    requirements = [Requirement(line) for line in lines]
    return {
        requirement.name: specifier.version
        for requirement in requirements
        for specifier in requirement.specifier
        if requirement.marker is None or requirement.marker.evaluate()
    }


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _public(version_number: str) -> str:
    return version_number.partition("+")[0]


def commit(checkout: Path) -> str | None:
    """The commit that a checkout is at, as git's own files say; None where this is no checkout."""
    folder = checkout / ".git"
    try:
        if folder.is_file():  # a linked worktree
            folder = checkout / folder.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return head
        name = head.partition(":")[2].strip()
        common = folder / "commondir"
        common_folder = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
        loose = common_folder / name
        if loose.is_file():
            return loose.read_text(encoding="utf-8").strip()
        packed_lines = (common_folder / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed_lines if line.endswith(f" {name}")), None)
    except OSError:
        return None
