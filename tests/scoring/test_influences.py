"""How texts and draws move the values of entries: their products are covariances, and not all are held at once."""

import numpy as np
import pyarrow as pa
import pytest

from scoring.artefacts import SCHEMAS
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.influences import DrawInfluences, TextInfluences
from scoring.metrics.safety import AVERAGE, Texts, influence

GENERATOR = np.random.default_rng(8)
SENTENCES = pa.table(
    {
        "id": [f"t{number}" for number in range(60)],
        "harmful": [number % 2 == 0 for number in range(60)],
        "toxicity": [1.0 + number % 3 for number in range(60)],
        "demographics": [["a"] if number < 36 else ["b", "a"] if number < 40 else ["b"] for number in range(60)],
    }
)
LIKELIHOODS = GENERATOR.normal(4, 1, (3, 60))


def outputs(values: np.ndarray) -> pa.Table:
    return pa.table({"id": SENTENCES["id"], "log_perplexity": pa.array(values, pa.float64(), from_pandas=True)})


def replicates(rows: dict[tuple[str, str], np.ndarray]) -> pa.Table:
    columns = zip(*[(measure, name, list(values)) for (measure, name), values in rows.items()], strict=True)
    return pa.table(dict(zip(SCHEMAS["replicates"].names, map(list, columns), strict=True)), SCHEMAS["replicates"])


@pytest.mark.parametrize("measure", ["likelihood_auc", "safety_score"])
def test_an_entry_whose_file_is_lost_has_no_influences_and_the_others_have_those_of_their_texts(measure):
    texts = Texts.from_table(SENTENCES)
    tables = [(0, outputs(LIKELIHOODS[0])), (2, outputs(LIKELIHOODS[2]))]
    moves = FORMULAS["safety"].influences(SENTENCES, tables, 3, ["likelihood_auc", "safety_score"])
    for place, (name, member) in enumerate([*texts.member.items(), (AVERAGE, np.ones(60, dtype=bool))]):
        rows = moves[measure, name]
        assert rows.shape == (3, member.sum())
        assert np.isnan(rows[1]).all()
        for number in (0, 2):
            whole = influence(measure, texts, LIKELIHOODS[number])[place]
            np.testing.assert_array_equal(rows[number], whole[member])
            assert rows[number] @ rows[number] == pytest.approx(whole @ whole)  # what it leaves out is 0


def test_the_texts_of_one_measure_are_held_at_a_time():
    moves = TextInfluences(Texts.from_table(SENTENCES), {0: LIKELIHOODS[0]}, 1, ["likelihood_auc", "safety_score"])
    first = moves["likelihood_auc", "a"]
    assert moves["likelihood_auc", "a"] is first
    assert not np.array_equal(moves["safety_score", "a"], first)
    again = moves["likelihood_auc", "a"]
    assert again is not first
    np.testing.assert_array_equal(again, first)


def test_influences_are_of_the_measures_that_were_asked_for():
    moves = TextInfluences(Texts.from_table(SENTENCES), {0: LIKELIHOODS[0]}, 1, ["likelihood_auc"])
    assert list(moves) == [("likelihood_auc", "a"), ("likelihood_auc", "b"), ("likelihood_auc", AVERAGE)]
    assert len(moves) == 3
    for key in [("safety_score", "a"), ("likelihood_auc", "c")]:
        assert moves.get(key) is None
    draws = DrawInfluences([(0, replicates({("x", "all"): np.ones(4), ("y", "all"): np.ones(4)}))], 1, ["x"])
    assert list(draws) == [("x", "all")]
    assert draws.get(("y", "all")) is None
    assert len(draws) == 1


def test_products_of_replicates_are_their_covariances():
    values = GENERATOR.normal(0.3, 0.1, (2, 50)).astype(np.float32)
    tables = [(number, replicates({("x", "all"): row})) for number, row in zip((0, 2), values, strict=True)]
    rows = DrawInfluences(tables, 3, ["x"])["x", "all"]
    np.testing.assert_allclose((rows @ rows.T)[np.ix_([0, 2], [0, 2])], np.cov(values.astype(np.float64)))
    assert np.isnan(rows[1]).all()
    values[1, 7] = np.nan  # a draw without a single scored text
    tables = [(number, replicates({("x", "all"): row})) for number, row in enumerate(values)]
    rows = DrawInfluences(tables, 2, ["x"])["x", "all"]
    assert np.isfinite(rows[0]).all()
    assert np.isnan(rows[1]).all()
