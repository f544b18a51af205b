"""The code that runs here: its version, its commit, its libraries."""

import platform
import tomllib
from functools import cache
from importlib.metadata import version as version_of
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
        "libraries": {name: version_of(name) for name in LIBRARIES},
    }


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
        shared = folder / common.read_text(encoding="utf-8").strip() if common.is_file() else folder
        loose = shared / name
        if loose.is_file():
            return loose.read_text(encoding="utf-8").strip()
        packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except OSError:
        return None
