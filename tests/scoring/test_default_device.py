"""What is computed lies where the model lies, whatever the device on which torch makes tensors by itself."""

import pytest
import torch

from scoring.generation import GenerationSettings
from scoring.generation.engine import decode
from scoring.generation.sampling import sample, streams
from scoring.likelihood.head import body, log_likelihoods
from scoring.likelihood.pieces import Piece, pad_pieces
from tests.scoring.families import tiny


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(top_p=0.9),
        GenerationSettings(top_k=5, temperature=0.7),
        GenerationSettings(top_p=0.999, temperature=2.0),
    ],
    ids=["nucleus", "likeliest", "wide nucleus"],
)
def test_tokens_are_drawn_where_the_logits_are(settings):
    logits = torch.randn(4, 1300, generator=torch.Generator().manual_seed(1))
    keys = streams(1, [("p", index) for index in range(4)])
    expected = sample(logits, keys, 2, settings)
    with torch.device("meta"):
        drawn = sample(logits, keys, 2, settings)
    assert torch.equal(drawn, expected)


def test_texts_are_continued_where_the_model_is():
    model = tiny("GPT-2")
    prompts, owners = [[5, 6, 7], [8]], torch.tensor([0, 0, 1])
    settings = GenerationSettings(k=2, max_new_tokens=4)
    keys = streams(1, [("p", 0), ("p", 1), ("q", 0)])
    with torch.inference_mode():
        expected = decode(model, prompts, owners, keys, settings)
        with torch.device("meta"):
            continued = decode(model, prompts, owners, keys, settings)
    assert [one.ids.tolist() for one in continued] == [one.ids.tolist() for one in expected]
    assert [one.finish for one in continued] == [one.finish for one in expected]


def test_likelihoods_are_computed_where_the_tokens_are():
    model = tiny("GPT-2").model
    pieces = [Piece(0, [5, 6, 7], 1, 3), Piece(1, [8, 9], 1, 2)]
    rows, columns = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 1])

    def values() -> torch.Tensor:
        ids = pad_pieces(pieces, 3, torch.device("cpu"))
        output = body(model)(input_ids=ids, use_cache=False)
        return log_likelihoods(model, output, rows, columns - 1, ids[rows, columns], 3)

    with torch.inference_mode():
        expected = values()
        with torch.device("meta"):
            assert torch.equal(values(), expected)
