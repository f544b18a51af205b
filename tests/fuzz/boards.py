"""Parsers of the site: board packages and addresses of pages. Django is set up where no test has done so."""

import io
import os
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import django
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.http import Http404
from django.test import RequestFactory

if not apps.ready:
    os.environ["PLUMBLINE_VAR"] = tempfile.mkdtemp(prefix="plumbline-fuzz-")
    os.environ["DATABASE_URL"] = f"sqlite:///{os.environ['PLUMBLINE_VAR']}/board.sqlite3"
    os.environ.setdefault("SECRET_KEY", "for fuzzing only")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    django.setup()

from leaderboard.exchange.package import open_package
from leaderboard.models import Metric
from leaderboard.services.published import seed_published
from leaderboard.services.seed import seed_metrics
from leaderboard.views.ranking_address import PARAMETERS, parse

NOT_FOUND = (Http404,)


def read_board_package(path: Path) -> None:
    """Open a package, which verifies all of it."""
    with open_package(path):
        pass


@cache
def package_seeds() -> list[tuple[str, bytes]]:
    """A zip file that holds only the description of a package; and the description with its tables listed."""
    import json

    from leaderboard.exchange.export import DESCRIPTION, FORMAT
    from leaderboard.exchange.tables import TABLES

    resources = [{"path": table.path, "bytes": 4, "hash": "sha256:" + "0" * 64} for table in TABLES]
    contents = (
        {"plumbline_board": {"format": FORMAT}, "resources": resources},
        {"plumbline_board": {"format": 1}, "resources": resources[:2]},
        {"plumbline_board": {"format": FORMAT}, "resources": []},
    )
    seeds = []
    for content in contents:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(DESCRIPTION, json.dumps(content))
            for table in TABLES[:3]:
                archive.writestr(table.path, b"PAR1")
        seeds.append((".zip", buffer.getvalue()))
    return seeds


def prepare_board() -> None:
    """The metrics and the published figures in a database of this process' own; tests bring theirs."""
    if "plumbline-fuzz-" in str(settings.VAR) and "leaderboard_metric" not in connection.introspection.table_names():
        call_command("migrate", verbosity=0)
    if not Metric.objects.exists():
        seed_metrics()
        seed_published()


def read_query(path: Path) -> None:
    """Read the address of the page of rankings: everything that it can ask for."""
    request = RequestFactory().get("/rankings/", QUERY_STRING=path.read_bytes().decode("latin-1"))
    parse(request, list(Metric.objects.all()))


def query_seeds() -> list[tuple[str, bytes]]:
    """Addresses of rankings, and one with every parameter."""
    slug = Metric.objects.values_list("slug", flat=True)[0]
    return [
        (".txt", f"metric={slug}&slice=women&sort=-value&page=2".encode()),
        (".txt", f"metric={slug}&as_of=2026-01-01&provenance=both&kind=all&columns=a,b".encode()),
        (".txt", "&".join(f"{name}=1" for name in PARAMETERS).encode()),
    ]
