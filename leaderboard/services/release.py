"""The code and the libraries of this process, and whether they are the board's."""

import hashlib
from functools import cache
from typing import Any

from django.conf import settings

from leaderboard.models import Release
from leaderboard.services.build import code, environment_here, environment_pinned


@cache
def code_here() -> str:
    """The code of this process: the release and a hash of all its files, as in `0.4.0+1f0c9a7d2b3e`."""
    digest = hashlib.sha256()
    for folder in ("leaderboard", "scoring"):
        for path in sorted((settings.BASE_DIR / folder).rglob("*")):
            if path.suffix in (".py", ".toml", ".txt"):
                digest.update(f"{path.relative_to(settings.BASE_DIR)}\0".encode() + path.read_bytes() + b"\0")
    return f"{code()['version']}+{digest.hexdigest()[:12]}"


def note_release(**_: Any) -> None:
    """Note the code that has just migrated the database, and what it pins: from now on they are the board's."""
    newest = Release.objects.first()
    environment = environment_pinned()
    if newest is None or (newest.code, newest.environment) != (code_here(), environment):
        Release.objects.create(code=code_here(), environment=environment)


def refusal() -> str:
    """Why this process may take no work: its code or a library of it is not the board's; "" where it may."""
    newest = Release.objects.first()
    if newest is None:
        return ""
    start = f"since {newest.installed_at:%Y-%m-%d %H:%M}"
    if newest.code != code_here():
        return (
            f"this worker has the code {code_here()} and the board {newest.code} {start}: bring both to the same "
            "release, run `manage.py migrate`, and start the worker again"
        )
    if differences := describe_differences(environment_here(), newest.environment):
        return (
            f"this worker has {differences} {start}, and other versions may move a number: install what the board "
            "pins (requirements.lock, requirements-torch.lock), and start the worker again"
        )
    return ""


def describe_differences(versions: dict[str, str], pins: dict[str, str]) -> str:
    """Name what is installed here in another version than the board pins; "" where nothing is.

    A library that is not installed here moves no number: work that needs it goes to other workers.
    """
    others = [name for name in pins if versions.get(name, pins[name]) != pins[name]]
    return ", ".join(f"{name} {versions[name]} where the board has {pins[name]}" for name in others)
