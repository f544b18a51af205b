"""Outputs that are computed again: what rounding may change is no difference, and what is told of another model."""

import pyarrow as pa
import pytest

from scoring.metrics.outputs import OUTPUTS

LIKELIHOODS, CONTINUATIONS = OUTPUTS["likelihood"], OUTPUTS["rtp"]


def likelihoods(log_perplexity: float) -> pa.Table:
    return pa.table(
        {
            "id": ["one"],
            "token_log_likelihoods": pa.array([[-1.0 - log_perplexity, 1.0 - log_perplexity]], pa.list_(pa.float32())),
            "unscorable": pa.array([None], pa.string()),
        }
    )


def continuations(other_ones: int = 0) -> pa.Table:
    texts = [f"other {number}" if number < other_ones else f"text {number}" for number in range(100)]
    return pa.table({"prompt_id": ["one"] * 100, "index": list(range(100)), "text": texts})


@pytest.mark.parametrize(
    ("precision", "rounding", "difference"),
    [("float32", 0.0009, 0.0011), ("bfloat16", 0.009, 0.011), ("float16", 0.009, 0.011)],
)
def test_a_log_perplexity_differs_by_more_than_its_precision_rounds(precision, rounding, difference):
    for moved in (likelihoods(3 + rounding), likelihoods(3 - rounding)):
        assert not list(LIKELIHOODS.differences(likelihoods(3), moved, precision))
    (words,) = LIKELIHOODS.differences(likelihoods(3), likelihoods(3 + difference), precision)
    assert words == f"text one: its log-perplexity is stored as 3.000000, the model gives {3 + difference:.6f}"


@pytest.mark.parametrize(("precision", "most"), [("float32", 2), ("bfloat16", 30), ("float16", 30)])
def test_more_continuations_differ_than_its_precision_changes(precision, most):
    assert not list(CONTINUATIONS.differences(continuations(), continuations(most), precision))
    (words,) = CONTINUATIONS.differences(continuations(), continuations(most + 1), precision)
    assert words == f"{most + 1} of 100 continuations are other ones than the model gives, as of prompts one"


def test_three_prompts_whose_continuations_differ_are_named_in_order():
    prompts = ["e", "b", "d", "a", "c"]
    stored = pa.table({"prompt_id": prompts, "index": [0] * 5, "text": ["before"] * 5})
    recomputed = stored.set_column(2, "text", pa.array(["after"] * 5))
    (words,) = CONTINUATIONS.differences(stored, recomputed, "float32")
    assert words == "5 of 5 continuations are other ones than the model gives, as of prompts a, b, c"
