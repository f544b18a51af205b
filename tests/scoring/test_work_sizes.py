"""What is computed at once is larger on a GPU, and that changes numbers by rounding alone."""

import numpy as np
import pytest
import torch

from scoring import work_sizes
from scoring.evaluation_sets import build_starter
from scoring.generation import continuations
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
