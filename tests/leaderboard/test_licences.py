"""Whoever runs a board can list the licences of all that it runs with."""

import json
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import call_command

from leaderboard.services.licences import list_licences
from tests.pins import read_lock

pytestmark = pytest.mark.either_database

PINNED = {
    pin.name for lock in ("requirements.lock", "requirements-torch.lock") for pin in read_lock(lock) if pin.applies
}
SILENT = {"pyrage", "resvg_py"}  # state no licence in their metadata; their files do


def printed(*words: str) -> str:
    out = StringIO()
    call_command("licences", *words, stdout=out)
    return out.getvalue()


@pytest.mark.slow
def test_every_package_that_is_pinned_has_its_licence_in_the_list():
    packages = {
        package.name.lower().replace("_", "-").replace(".", "-")
        for package in list_licences(settings.BASE_DIR / "pyproject.toml")
    }
    assert PINNED - packages == set()


def test_each_states_its_licence_and_almost_all_bring_its_text():
    packages = list_licences(settings.BASE_DIR / "pyproject.toml")
    assert {package.name for package in packages if package.licence == "not stated"} == SILENT
    assert all(package.texts for package in packages if package.name in ("Django", "torch", "celery"))


@pytest.mark.slow
def test_the_list_is_for_people_and_for_programs_and_the_texts_follow_when_asked():
    assert "| Django | " in printed()
    by_name = {entry["name"]: entry["licence"] for entry in json.loads(printed("--json"))}
    assert by_name["Django"] == "BSD-3-Clause"
    assert "Redistribution and use in source and binary forms" in printed("--texts")
    assert "Redistribution and use" not in printed()
