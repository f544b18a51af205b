"""What is computed at once is larger on a GPU, and that changes numbers by rounding alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scoring import work_sizes
from scoring.evaluation_sets import Prompt, build_starter
from scoring.generation import continuations
from scoring.generation.batches import canonical_batches
from scoring.likelihood import LikelihoodSettings, token_log_likelihoods
from scoring.likelihood.batches import token_budget_batches
from scoring.work_sizes import GPU, PROCESSOR, sizes_for
from tests.scoring.conftest import SMALLEST, loaded_miniature
from tests.scoring.test_generation import PROMPTS, SETTINGS


def test_a_gpu_has_sizes_of_its_own():
    assert sizes_for(torch.device("cpu")) is PROCESSOR
    assert sizes_for(torch.device("cuda", 1)) is GPU


def test_where_calls_cost_more_batches_are_fewer_and_padded_more():
    lengths = [5 + number % 40 for number in range(2000)]

    def plan(sizes: work_sizes.WorkSizes) -> tuple[int, int]:
        batches = list(token_budget_batches(lengths, GPU.batch_tokens, sizes.call_cost))
        return len(batches), sum(len(batch) * max(lengths[place] for place in batch) for batch in batches)

    (many, little), (few, much) = plan(PROCESSOR), plan(GPU)
    assert few < many / 2
    assert sum(lengths) <= little < much <= 1.25 * sum(lengths)


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_the_sizes_of_a_gpu_change_likelihoods_by_rounding_alone(kind, monkeypatch):
    model = loaded_miniature(SMALLEST[kind])
    texts = [sentence.text for sentence in build_starter()[:40]]

    def log_perplexities() -> list[float]:
        return [text.log_perplexity for text in token_log_likelihoods(model, texts, LikelihoodSettings())]

    expected = log_perplexities()
    monkeypatch.setattr(work_sizes, "PROCESSOR", GPU)
    np.testing.assert_allclose(log_perplexities(), expected, rtol=1e-5)


def test_the_sizes_of_a_gpu_draw_the_same_continuations(monkeypatch):
    model = loaded_miniature(SMALLEST["causal"])
    expected = continuations(model, PROMPTS, SETTINGS)
    monkeypatch.setattr(work_sizes, "PROCESSOR", GPU)
    assert continuations(model, PROMPTS, SETTINGS) == expected


@pytest.mark.parametrize(
    ("sizes", "heads_kept", "on_processor", "on_gpu"),
    [
        ({}, None, 512, 4096),  # few numbers: so many gain no more speed
        ({"vocabulary": 2**20}, None, 64, 256),  # by the logits of a step
        ({"layers": 64, "hidden_size": 2**14}, None, 16, 256),  # by the keys and values of eight tokens
        ({"layers": 64, "hidden_size": 2**14}, 8, 16, 256),
        ({"layers": 64, "hidden_size": 2**14}, 2, 64, 1024),  # of two heads of eight
        ({"vocabulary": 2**30}, None, 1, 1),
    ],
)
def test_as_many_continuations_are_decoded_together_as_earlier_releases_decoded(
    sizes, heads_kept, on_processor, on_gpu
):
    architecture = SimpleNamespace(**{"vocabulary": 256, "layers": 1, "hidden_size": 8, "heads": 8, **sizes})
    config = SimpleNamespace(num_key_value_heads=heads_kept)
    for device, expected in (("cpu", on_processor), ("cuda", on_gpu)):
        model = SimpleNamespace(
            device=torch.device(device), architecture=architecture, model=SimpleNamespace(config=config)
        )
        batches = canonical_batches(model, [Prompt("a", "x"), Prompt("b", "")], [5, 0], 5000, 3)
        assert {len(batch) for batch in batches[:-1]} == {expected}
        assert [row for batch in batches for row in batch] == [(0, index) for index in range(5000)]


@pytest.mark.parametrize(("device", "rows", "longest", "apart"), [("cpu", 512, 100, 20), ("cuda", 4096, 3000, 952)])
def test_texts_are_batched_as_earlier_releases_batched_them(device, rows, longest, apart):
    sizes = sizes_for(torch.device(device))

    def batches(lengths: list[int]) -> list[list[int]]:
        return list(token_budget_batches(lengths, sizes.batch_tokens, sizes.call_cost))

    assert max(map(len, batches([4] * 10_000))) == rows
    assert batches([longest, apart]) == [[0], [1]]
    assert batches([apart + 1, longest]) == [[1, 0]]
