"""Every type of model that transformers knows: it agrees with one token at a time, or is refused as the table says."""

import re
from itertools import count

import pytest

from scoring.language_models import model_types
from scoring.language_models.model_types import read_model_types
from tests.scoring.model_types import judge, list_types

# Old architectures use what torch deprecates: a warning of theirs is no refusal.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
VERDICTS = {(verdict.likelihood, verdict.name): verdict for verdict in read_model_types()}


def without_figures(reason: str) -> str:
    """A reason whose figures, which another processor may round otherwise, are numbered instead."""
    numbers = count()
    return re.sub(r"\d[\d.e-]*", lambda _figure: f"<{next(numbers)}>", reason)


def test_the_table_has_each_type_once():
    assert list(VERDICTS) == [(model_type.kind, model_type.name) for model_type in list_types()]
    assert sum(verdict.accepted for verdict in VERDICTS.values()) > 200


@pytest.mark.parametrize("model_type", [*list_types()], ids=lambda model_type: f"{model_type.kind}-{model_type.name}")
def test_a_type_agrees_with_one_token_at_a_time_or_is_refused_as_the_table_says(model_type):
    verdict, tabled = judge(model_type), VERDICTS[model_type]
    assert verdict._replace(reason="") == tabled._replace(reason="")
    assert without_figures(verdict.reason) == without_figures(tabled.reason)


def test_the_table_of_types_is_written_as_it_was_read(tmp_path, monkeypatch):
    verdicts, whole = read_model_types(), model_types.TABLE.read_bytes()
    monkeypatch.setattr(model_types, "TABLE", tmp_path / "types.csv")
    model_types.write_model_types(verdicts)
    assert (tmp_path / "types.csv").read_bytes() == whole
    odd = [
        model_types.TypeVerdict("causal", "a", "A", False, "é, “b”\nc"),
        model_types.TypeVerdict("masked", "b", "B", True, ""),
    ]
    model_types.write_model_types(odd)
    assert read_model_types() == odd
