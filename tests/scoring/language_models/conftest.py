"""Tiny models in folders, and a hub of this machine with a cache of its own."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.scoring.language_models import tiny
from tests.standin_hub import StandInHub


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny model by its type, made once; not to be changed."""
    root = tmp_path_factory.mktemp("tiny")

    def folder(model_type: str) -> Path:
        path = root / model_type
        return path if path.exists() else tiny.save(model_type, path)

    return folder


@pytest.fixture
def gpt2(saved: Callable[[str], Path], tmp_path: Path) -> Path:
    """A tiny GPT-2 in a folder that the test may change."""
    return Path(shutil.copytree(saved("gpt2"), tmp_path / "gpt2"))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInHub]:
    """A hub, and an empty cache of what was fetched from it."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with StandInHub() as running:
        yield running
