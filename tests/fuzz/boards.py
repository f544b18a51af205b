"""Parsers of the site: board packages and addresses of pages. Django is set up where no test has done so."""

import io
import json
import os
import random
import tempfile
import zipfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import django
import pyarrow.parquet as pq
from django.apps import apps
from django.conf import settings
from django.core.exceptions import TooManyFieldsSent
from django.core.management import call_command
from django.db import connection
from django.http import Http404
from django.test import RequestFactory

from tests.fuzz.mutation import spoil_bytes, spoil_zip

if not apps.ready:
    os.environ["PLUMBLINE_VAR"] = tempfile.mkdtemp(prefix="plumbline-fuzz-")
    os.environ["DATABASE_URL"] = f"sqlite:///{os.environ['PLUMBLINE_VAR']}/board.sqlite3"
    os.environ.setdefault("SECRET_KEY", "for fuzzing only")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")
    django.setup()

from leaderboard.exchange.export import DESCRIPTION, FORMAT
from leaderboard.exchange.package import open_package
from leaderboard.exchange.schemas import arrow_schema
from leaderboard.exchange.tables import TABLES
from leaderboard.models import Metric
from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.services.published import seed_published
from leaderboard.services.seed import seed_metrics
from leaderboard.views.ranking_address import PARAMETERS, parse

NOT_FOUND = (Http404, TooManyFieldsSent)  # the latter is answered before any page: leaderboard.middleware


def read_board_package(path: Path) -> None:
    """Open a package, which verifies all of it."""
    with open_package(path):
        pass


@cache
def package_seeds() -> list[tuple[str, bytes]]:
    """A whole package of empty tables, of this format and of the first one; and descriptions of less than they need."""
    members = {}
    for table in TABLES:
        buffer = io.BytesIO()
        pq.write_table(arrow_schema(table).empty_table(), buffer)
        members[table.path] = buffer.getvalue()
    oldest_members = {table.path: members[table.path] for table in TABLES if table.since <= 1}
    few_members = dict(list(members.items())[:3])
    packages = ((FORMAT, members), (1, oldest_members), (FORMAT, few_members), (FORMAT, {}))
    return [(".zip", pack(number, members)) for number, members in packages]


def pack(number: int, members: dict[str, bytes]) -> bytes:
    """A zip file of the members, and of a description in the format of that number with their sizes and hashes."""
    resources = [
        {"path": name, "bytes": len(member), "hash": f"sha256:{sha256(member).hexdigest()}"}
        for name, member in members.items()
    ]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(DESCRIPTION, json.dumps({"plumbline_board": {"format": number}, "resources": resources}))
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def spoil_package(content: bytes, draw: random.Random) -> bytes:
    """Spoil a table and state its new size and hash, so that its columns are read; or anything, and state nothing."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    number = json.loads(members.pop(DESCRIPTION))["plumbline_board"]["format"]
    if not members or draw.random() < 0.5:
        return spoil_zip(content, draw)
    name = draw.choice(list(members))
    return pack(number, members | {name: spoil_bytes(members[name], draw)})


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
    parse(request, metrics_with_versions())


def query_seeds() -> list[tuple[str, bytes]]:
    """Addresses of rankings, and one with every parameter."""
    slug = Metric.objects.values_list("slug", flat=True)[0]
    return [
        (".txt", f"metric={slug}&slice=women&sort=-value&page=2".encode()),
        (".txt", f"metric={slug}&as_of=2026-01-01&provenance=both&kind=all&columns=a,b".encode()),
        (".txt", "&".join(f"{name}=1" for name in PARAMETERS).encode()),
    ]
