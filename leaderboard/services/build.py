"""The code that runs here: its version, its commit, its libraries."""

import platform
import tomllib
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from django.conf import settings

LIBRARIES = ("numpy", "scipy", "pyarrow", "torch", "transformers", "tokenizers", "detoxify", "alt-profanity-check")


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
