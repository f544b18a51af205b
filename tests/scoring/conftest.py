"""Small real models."""

from functools import cache

import pytest

from scoring.language_models import BUNDLED, LoadedModel, load, resolve

SMALLEST = {"causal": "plumb-gpt2-l2-h128", "masked": "plumb-bert-l2-h128"}


@cache
def loaded_miniature(name: str) -> LoadedModel:
    found = resolve(str(BUNDLED / name))
    return load(found.source, found.location, found.revision)


@pytest.fixture(params=["causal", "masked"])
def miniature(request: pytest.FixtureRequest) -> LoadedModel:
    """The smallest bundled model of each kind."""
    return loaded_miniature(SMALLEST[request.param])
