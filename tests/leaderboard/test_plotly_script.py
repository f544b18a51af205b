"""The script that charts are explored with: fetched, checked and compressed; without a network the whole Plotly."""

import hashlib
import io
import os
import re
import tarfile
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import CommandError, call_command

from leaderboard.services import plotly_script
from tests.loopback import QuietHandler, serving


class Mirror(QuietHandler):
    stage: bytes

    def do_GET(self) -> None:  # noqa: N802 (the name that http.server calls)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.stage)


@pytest.fixture
def archive() -> bytes:
    content, script = io.BytesIO(), b"window.Plotly = {};"
    with tarfile.open(fileobj=content, mode="w:gz") as packed:
        member = tarfile.TarInfo(plotly_script.MEMBER)
        member.size = len(script)
        packed.addfile(member, io.BytesIO(script))
    return content.getvalue()


def test_the_part_of_plotly_is_brought_into_the_environment(archive, settings, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plotly_script, "SHA512", hashlib.sha512(archive).hexdigest())
    settings.PLOTLY_PART = tmp_path / "share"
    with serving(Mirror, archive) as address:
        settings.PLOTLY_ARCHIVE = f"{address}/plotly.tgz"
        call_command("fetch_plotly")
    assert (tmp_path / "share" / "plotly-cartesian.min.js").read_bytes() == b"window.Plotly = {};"
    assert "19 bytes" in capsys.readouterr().out


def test_another_archive_is_refused_and_nothing_is_written(archive, settings, tmp_path):
    settings.PLOTLY_PART = tmp_path / "share"
    with serving(Mirror, archive) as address:
        settings.PLOTLY_ARCHIVE = f"{address}/plotly.tgz"
        with pytest.raises(CommandError, match=r"is not the archive that was published as 4\.1\.1"):
            call_command("fetch_plotly")
    assert not (tmp_path / "share").exists()


def test_npm_brings_the_archive_where_no_address_is_set(archive, settings, tmp_path, monkeypatch):
    npm, packed = tmp_path / "bin" / "npm", tmp_path / "packed.tgz"
    npm.parent.mkdir()
    npm.write_text(f'#!/bin/sh\ntest "$1 $2" = "pack {plotly_script.PACKAGE}" && cp {packed} "$5"\n')
    npm.chmod(0o700)
    packed.write_bytes(archive)
    monkeypatch.setenv("PATH", f"{npm.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(plotly_script, "SHA512", hashlib.sha512(archive).hexdigest())
    settings.PLOTLY_ARCHIVE, settings.PLOTLY_PART = "", tmp_path / "share"
    call_command("fetch_plotly")
    assert (tmp_path / "share" / "plotly-cartesian.min.js").read_bytes() == b"window.Plotly = {};"


def test_without_npm_and_an_address_the_command_says_what_is_served_instead(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    settings.PLOTLY_ARCHIVE, settings.PLOTLY_PART = "", tmp_path
    with pytest.raises(CommandError, match=r"npm: .*with the whole of Plotly; or install npm"):
        call_command("fetch_plotly")


def test_without_an_archive_the_command_says_what_is_served_instead(settings, tmp_path):
    settings.PLOTLY_ARCHIVE = "http://127.0.0.1:9/plotly.tgz"
    settings.PLOTLY_PART = tmp_path
    with pytest.raises(CommandError, match="with the whole of Plotly; or install npm, or set PLOTLY_ARCHIVE"):
        call_command("fetch_plotly")


def test_of_plotly_one_script_is_served_compressed_under_a_name_for_ever():
    name = staticfiles_storage.stored_name(settings.PLOTLY_SCRIPT)
    assert re.fullmatch(r"plotly/plotly(-cartesian)?\.min\.[0-9a-f]{12}\.js", name)
    folder = Path(settings.STATIC_ROOT) / "plotly"
    most = 510_000 if "cartesian" in name else 1_600_000
    assert (folder / f"{Path(name).name}.gz").stat().st_size < most
    assert {path.name.split(".")[0] for path in folder.iterdir()} == {Path(settings.PLOTLY_SCRIPT).name.split(".")[0]}
    assert finders.find(settings.PLOTLY_SCRIPT)
