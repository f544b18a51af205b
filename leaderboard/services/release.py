"""The code of this process, and whether it is the board's."""

import hashlib
from functools import cache
from typing import Any

from django.conf import settings

from leaderboard.models import Release
from leaderboard.services.build import code


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
    """Note the code that has just migrated the database: from now on it is the board's."""
    newest = Release.objects.first()
    if newest is None or newest.code != code_here():
        Release.objects.create(code=code_here())


def refusal() -> str:
    """Why this process may take no work: its code is not the board's; "" where it may."""
    newest = Release.objects.first()
    if newest is None or newest.code == code_here():
        return ""
    return (
        f"this worker has the code {code_here()} and the board {newest.code} since "
        f"{newest.installed_at:%Y-%m-%d %H:%M}: bring both to the same release, run `manage.py migrate`, and start the "
        "worker again"
    )
