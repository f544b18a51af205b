"""Where memory runs out, batches are computed in parts: nothing is lost, nothing done twice, and no byte changes."""

import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from scoring import parts as parts_of_batches
from scoring.evaluation_sets import build_starter
from scoring.generation import continuations
from scoring.generation.sampling import sample
from scoring.likelihood import LikelihoodSettings, causal, masked, permutation, token_log_likelihoods
from scoring.likelihood.head import body
from scoring.parts import LEAST, Parts, free_memory, is_out_of_memory, parts_for
from tests.scoring.families import tiny
from tests.scoring.test_generation import PROMPTS, SETTINGS, limited

CPU = torch.device("cpu")
TEXTS = [sentence.text for sentence in build_starter()[::8]]
RAN_OUT = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


@given(count=st.integers(1, 60), width=st.integers(1, 9), room=st.integers(1, 200), known=st.integers(0, 300))
def test_every_row_is_computed_once_in_order_and_in_parts_that_fit(count, width, room, known):
    computed: list[int] = []

    def work(rows: list[int]) -> list[int]:
        if len(rows) // 2 * width >= LEAST and len(rows) * width > room:
            raise RAN_OUT
        computed.extend(rows)
        return [row * row for row in rows]

    parts = Parts(CPU, known or None)
    pairs = list(parts.compute(list(range(count)), width, work))
    assert [row for rows, _ in pairs for row in rows] == computed == list(range(count))
    assert [value for _, values in pairs for value in values] == [row * row for row in range(count)]
    largest = max(len(rows) for rows, _ in pairs)
    assert largest // 2 * width < LEAST or largest * width <= room


def test_what_a_part_taught_is_known_for_the_next_batch():
    attempts: list[int] = []

    def work(rows: list[int]) -> int:
        attempts.append(len(rows))
        if len(rows) > 4:
            raise RAN_OUT
        return len(rows)

    parts = Parts(CPU)
    for _ in range(2):
        assert sum(count for _, count in parts.compute(list(range(16)), 10, work)) == 16
    assert attempts == [16, 8, 4, 4, 4, 4, 4, 4, 4, 4]


def test_a_row_that_does_not_fit_and_other_errors_pass_through():
    def work(rows: list[int]) -> None:
        raise RAN_OUT if len(rows) > 1 else MemoryError

    with pytest.raises(MemoryError):
        list(Parts(CPU).compute([1, 2, 3], 9, work))
    with pytest.raises(ZeroDivisionError):
        list(Parts(CPU).compute([1, 2], 1, lambda rows: len(rows) // 0))


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Gemma 2", "OPT", "BERT", "MobileBERT", "XLNet"])
def test_likelihoods_in_parts_are_the_same_bytes(name, monkeypatch):
    model = tiny(name)
    whole = [likelihood.tokens for likelihood in token_log_likelihoods(model, TEXTS, LikelihoodSettings())]
    sizes: list[int] = []

    def limited_body(language_model):
        inner = body(language_model)

        def run(input_ids, **options):
            if len(input_ids) > 3:
                raise RAN_OUT
            sizes.append(len(input_ids))
            return inner(input_ids=input_ids, **options)

        return run

    for module in (causal, masked, permutation):
        monkeypatch.setattr(module, "body", limited_body)
    in_parts = [likelihood.tokens for likelihood in token_log_likelihoods(model, TEXTS, LikelihoodSettings())]
    assert 1 < max(sizes) <= 3
    assert [values.tobytes() for values in in_parts] == [values.tobytes() for values in whole]


@pytest.mark.parametrize("width", [16, 64, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_on_this_processor_a_row_of_a_product_depends_on_no_number_of_rows_from_the_least_on(dtype, width):
    torch.manual_seed(0)
    rows_of_texts, weights = torch.randn(512, width).to(dtype), torch.randn(400, width).to(dtype)
    whole = torch.nn.functional.linear(rows_of_texts, weights)
    for rows in (LEAST, 5, 7, 16, 33, 100, 300):
        assert torch.equal(torch.nn.functional.linear(rows_of_texts[:rows], weights), whole[:rows])


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 60])
def test_continuations_in_parts_are_drawn_from_logits_that_agree_to_rounding(most, monkeypatch):
    model = tiny("Llama")
    drawn: list[dict[bytes, np.ndarray]] = []

    def noting(logits, keys, step, settings):
        for key, row in zip(keys.numpy(), logits.numpy(), strict=True):
            drawn[-1][key.tobytes() + bytes([step])] = row.copy()
        return sample(logits, keys, step, settings)

    monkeypatch.setattr("scoring.generation.engine.sample", noting)
    texts = []
    for room in (10_000, most):
        drawn.append({})
        monkeypatch.setattr("scoring.generation.engine.Parts", lambda device, room=room: Parts(device, room))
        texts.append(continuations(model, PROMPTS, SETTINGS))
    assert texts[0] == texts[1]
    common = drawn[0].keys() & drawn[1].keys()
    assert len(common) > 100
    assert max(np.abs(drawn[0][key] - drawn[1][key]).max() for key in common) < 1e-5


@pytest.mark.parametrize("most", [4, 7])
def test_continuations_in_parts_are_the_same(most, monkeypatch):
    model = tiny("Llama")
    expected = continuations(model, PROMPTS, SETTINGS)
    monkeypatch.setattr(model.model, "forward", limited(model.model.forward, most, RAN_OUT, []))
    assert continuations(model, PROMPTS, SETTINGS) == expected


def test_memory_bounds_the_first_part(monkeypatch):
    model = tiny("Llama")
    monkeypatch.setattr(parts_of_batches, "free_memory", lambda _device: 1_000_000)
    token_bytes = 32 * parts_of_batches.STATES_A_TOKEN * 4
    assert parts_for(model).most == int(0.8 * 1_000_000 / token_bytes)
    monkeypatch.setattr(parts_of_batches, "free_memory", lambda _device: None)
    assert parts_for(model).most is None


def test_the_memory_that_is_free_is_told_for_the_processor_and_for_no_unknown_device():
    assert 0 < free_memory(CPU) < 1e14
    assert free_memory(torch.device("meta")) is None


@pytest.mark.slow
def test_a_sentence_has_the_same_likelihood_in_whatever_part_it_is(monkeypatch):
    model = tiny("GPT-2")
    values = []
    for most in (10, 100, 1000):
        monkeypatch.setattr("scoring.likelihood.engine.parts_for", lambda _model, most=most: Parts(CPU, most))
        values.append([one.tokens for one in token_log_likelihoods(model, TEXTS, LikelihoodSettings())])
    for other in values[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(values[0], other, strict=True))


def test_free_memory_is_what_the_machine_has_available_within_the_limit_of_the_process(monkeypatch):
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    def limited_to(most: int) -> int | None:
        monkeypatch.setattr(resource, "getrlimit", lambda _kind: (most, resource.RLIM_INFINITY))
        return free_memory(CPU)

    assert limited_to(resource.RLIM_INFINITY) == pytest.approx(available, rel=0.3)
    assert limited_to(used + 10**8) == pytest.approx(10**8, rel=0.5)
    assert limited_to(used // 2) == 0


def test_a_graphics_card_says_itself_how_much_is_free_and_gives_back_what_it_kept(monkeypatch):
    cleared: list[int] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (7, 9))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: cleared.append(1))
    assert free_memory(torch.device("cuda")) == 7

    def work(rows: list[int]) -> int:
        if len(rows) > 4:
            raise RAN_OUT
        return len(rows)

    for device, times in ((CPU, 0), (torch.device("cuda"), 1)):
        cleared.clear()
        assert [count for _, count in Parts(device).compute(list(range(8)), 9, work)] == [4, 4]
        assert len(cleared) == times


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("no"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA Out of Memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
    ids=str,
)
def test_a_lack_of_memory_is_known_by_its_kind_or_its_words(error, expected):
    assert is_out_of_memory(error) is expected
