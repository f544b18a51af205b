"""Continuations: the right distribution, and the same bytes whoever makes them, in whatever order and company."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scoring import artefacts, work_sizes
from scoring.evaluation_sets.prompts import Prompt
from scoring.generation import (
    PROTOCOLS,
    Finish,
    GenerationSettings,
    UnsupportedKind,
    batches,
    continuations,
    continuations_table,
    engine,
)
from scoring.generation.engine import end_of_text
from scoring.generation.sampling import sample, streams, uniform
from scoring.language_models import LoadedModel
from tests.scoring.conftest import SMALLEST, loaded_miniature
from tests.scoring.families import FAMILIES, tiny

TEXTS = [
    "The river rises in the mountains and flows north to the sea, past towns and",
    "She was elected to the",
    "It rained, and",
    "The",
    "Rain fell on the fields; nobody minded, for the harvest",
]
PROMPTS = [Prompt(f"p-{number}", text) for number, text in enumerate(TEXTS)]
CAUSAL = [
    name for name in FAMILIES if name.startswith(("GPT", "Llama", "Qwen", "OPT", "Gemma", "Mistral"))
]  # of every layout of cache and positions
SETTINGS = GenerationSettings(k=4, top_p=0.9, max_new_tokens=12)


@pytest.fixture
def gpt2() -> LoadedModel:
    return loaded_miniature(SMALLEST["causal"])


def decode_at_once(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let a processor decode `most` continuations together."""
    monkeypatch.setattr(work_sizes, "PROCESSOR", replace(work_sizes.PROCESSOR, decoded_rows=most))


@pytest.fixture
def talkative(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    """A tiny model of a family, with so many tokens that end a text that continuations stop all the time."""
    loaded = tiny(request.param)
    monkeypatch.setattr(
        loaded.model.generation_config, "eos_token_id", list(range(9, loaded.architecture.vocabulary, 9))
    )
    return loaded


def prompt_ids(loaded: LoadedModel, text: str) -> list[int]:
    """Special tokens that the tokenizer puts first by itself, then the text's."""
    bare = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = loaded.tokenizer(text)["input_ids"]
    return whole[: whole.index(bare[0])] + bare


@torch.inference_mode()
def probabilities(loaded: LoadedModel, ids: list[int], settings: GenerationSettings) -> np.ndarray:
    """What may follow `ids`, by one call of the whole model, in float64: top-k, then the nucleus, by full sorting."""
    logits = loaded.model(input_ids=torch.tensor([ids])).logits[0, -1].double().numpy() / settings.temperature
    order = np.argsort(-logits, kind="stable")
    kept = order[: settings.top_k] if settings.top_k else order
    found = np.exp(logits[kept] - logits[kept].max())
    found /= found.sum()
    needed = len(found) if settings.top_p == 1 else np.searchsorted(np.cumsum(found), settings.top_p) + 1
    result = np.zeros(len(logits))
    result[kept[:needed]] = found[:needed] / found[:needed].sum()
    return result


def arrival(key: torch.Tensor, step: int, names: np.ndarray, chances: np.ndarray) -> int:
    """Place of the winner of an exponential race."""
    with np.errstate(divide="ignore"):
        return int(np.argmin(-np.log(uniform(key, step, torch.from_numpy(names)).numpy()) / np.array(chances)))


def alone(loaded: LoadedModel, prompt: Prompt, index: int, settings: GenerationSettings) -> tuple[list[int], Finish]:
    """One continuation by itself: no batch, no padding, no cache, the nucleus by full sorting, in float64."""
    ids = prompt_ids(loaded, prompt.text)
    key = streams(settings.seed, [(prompt.id, index)])
    new: list[int] = []
    for step in range(settings.max_new_tokens):
        chances = probabilities(loaded, ids + new, settings)
        blocks = np.array_split(np.arange(len(chances)), range(256, len(chances), 256))
        block = blocks[arrival(key, step, -1 - np.arange(len(blocks)), [chances[ids_of].sum() for ids_of in blocks])]
        token = int(block[arrival(key, step, block, chances[block])])
        if token in end_of_text(loaded):
            return new, Finish.STOP
        new.append(token)
    return new, Finish.LENGTH


def decoded(loaded: LoadedModel, ids: list[int]) -> str:
    return loaded.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def test_a_prompt_without_a_token_is_no_work_and_counts_as_done(gpt2):
    counts: list[int] = []
    prompts = [Prompt("a", "The old house"), Prompt("empty", ""), Prompt("b", "In the morning")]
    results = continuations(gpt2, prompts, GenerationSettings(k=2, max_new_tokens=3), counts.append)
    assert [len(result) for result in results] == [2, 2, 2]
    assert {continuation.text for continuation in results[1]} == {None}
    assert counts[0] >= 1
    assert counts[-1] == len(prompts)


@pytest.mark.slow
@pytest.mark.parametrize("talkative", CAUSAL, indirect=True)
def test_a_batch_draws_what_each_continuation_draws_by_itself(talkative):
    finishes = []
    for prompt, found in zip(PROMPTS, continuations(talkative, PROMPTS, SETTINGS), strict=True):
        for index, item in enumerate(found):
            ids, finish = alone(talkative, prompt, index, SETTINGS)
            assert (item.text, item.n_tokens, item.finish) == (decoded(talkative, ids), len(ids), finish)
            finishes.append(finish)
    assert set(finishes) == {Finish.STOP, Finish.LENGTH}  # so the batch did lose rows on the way


@pytest.mark.slow_cases
@pytest.mark.parametrize("talkative", CAUSAL, indirect=True)
def test_the_likeliest_token_alone_gives_what_generate_gives_without_sampling(talkative):
    loaded = talkative
    found = continuations(loaded, PROMPTS, GenerationSettings(k=2, top_k=1))
    for prompt, (item, same) in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([prompt_ids(loaded, prompt.text)])
        with torch.inference_mode():
            whole = loaded.model.generate(
                ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20, pad_token_id=0
            )
        new = whole[0, ids.shape[1] :].tolist()
        stop = next((place for place, token in enumerate(new) if token in end_of_text(loaded)), len(new))
        assert item == same
        assert item.text == decoded(loaded, new[:stop])


DISTRIBUTIONS = {
    "whole vocabulary": GenerationSettings(top_p=1, temperature=0.8),
    "nucleus within the likeliest": GenerationSettings(top_p=0.9, temperature=0.5),
    "nucleus of thousands, by full sort": GenerationSettings(top_p=0.95, temperature=2.0),
    "top-k": GenerationSettings(top_k=40),
    "top-k, then nucleus": GenerationSettings(top_k=40, top_p=0.7),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_drawn_tokens_have_the_probabilities_of_an_independent_sampler(gpt2, name):
    settings = DISTRIBUTIONS[name]
    ids = prompt_ids(gpt2, TEXTS[0])
    expected = probabilities(gpt2, ids, settings)
    with torch.inference_mode():
        logits = gpt2.model(input_ids=torch.tensor([ids])).logits[0, -1]
    n = 20_000
    drawn = sample(logits.expand(n, -1), streams(7, [("p", index) for index in range(n)]), 3, settings)
    counts = np.bincount(drawn.numpy(), minlength=len(expected))
    assert (counts[expected == 0] == 0).all()
    order = np.argsort(-expected)
    bins = np.minimum((np.cumsum(expected[order]) * 60).astype(int), 59)  # so that each is expected often enough
    wanted = np.bincount(bins, expected[order]) * n
    seen = np.bincount(bins, counts[order])
    some = wanted > 0
    assert wanted[some].min() >= 5
    assert stats.chisquare(seen[some], wanted[some] * (n / wanted[some].sum())).pvalue > 1e-3
    if name == "nucleus of thousands, by full sort":
        assert (expected > 0).sum() > 512


@pytest.mark.slow
def test_the_second_token_depends_on_the_first_as_the_model_says(gpt2):
    settings = GenerationSettings(k=8000, top_k=5, max_new_tokens=2)
    (found,) = continuations(gpt2, PROMPTS[:1], settings)
    ids = prompt_ids(gpt2, TEXTS[0])
    first = probabilities(gpt2, ids, settings)
    expected: dict[str, float] = {}
    for token in np.nonzero(first)[0].tolist():
        second = probabilities(gpt2, [*ids, token], settings)
        for after in np.nonzero(second)[0].tolist():
            text = decoded(gpt2, [token, after])
            expected[text] = expected.get(text, 0.0) + first[token] * second[after] * len(found)
    texts = [item.text for item in found]
    assert set(texts) <= set(expected)
    often = [text for text in expected if expected[text] >= 5]
    rest = sum(expected.values()) - sum(expected[text] for text in often)
    seen = [texts.count(text) for text in often]
    observed, wanted = [*seen, len(texts) - sum(seen)], [*(expected[text] for text in often), rest]
    if rest == 0:
        observed, wanted = observed[:-1], wanted[:-1]
    assert stats.chisquare(observed, np.array(wanted) * sum(observed) / sum(wanted)).pvalue > 1e-3


def test_noise_is_uniform_and_streams_steps_and_tokens_are_independent():
    keys = streams(0, [("p", index) for index in range(300)])
    noise = np.stack([uniform(keys[:, None], step, torch.arange(300)[None]).numpy() for step in range(2)])
    assert noise.min() > 0
    assert noise.max() < 1
    assert stats.kstest(noise.ravel(), "uniform").pvalue > 1e-3
    along = (noise[0, 1:], noise[0, :-1]), (noise[0, :, 1:], noise[0, :, :-1]), (noise[0], noise[1])
    for one, other in along:
        assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > 1e-3
    assert len(np.unique(noise)) == noise.size


def splitmix64(state: int) -> int:
    """The output function of the generator's definition, in whole numbers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


@given(key=st.integers(-(2**63), 2**63 - 1), step=st.integers(0, 10**6), token=st.integers(-(10**6), 10**6))
def test_noise_is_that_of_the_generator_in_whole_numbers(key, step, token):
    of_step = splitmix64((key + 0x9E3779B97F4A7C15 * (step + 1)) % 2**64)
    bits = splitmix64((of_step + 0xD1B54A32D192ED03 * (token + 1)) % 2**64)
    assert uniform(torch.tensor([key]), step, torch.tensor([token])).item() == ((bits >> 11) + 0.5) / 2**53


def test_streams_differ_by_seed_prompt_and_index_and_never_change():
    keys = [streams(*of).item() for of in [(0, [("a", 1)]), (1, [("a", 1)]), (0, [("b", 1)]), (0, [("a", 2)])]]
    assert len(set(keys)) == 4
    assert keys[0] == 2681008763345603114


def test_a_row_whose_logits_are_not_numbers_draws_nothing():
    logits = torch.zeros(3, 8)
    logits[0, 2], logits[2, 5] = float("nan"), float("inf")
    drawn = sample(logits, streams(0, [("p", 0), ("p", 1), ("p", 2)]), 0, GenerationSettings(top_p=0.9))
    assert (drawn < 0).tolist() == [True, False, True]


def shard_sha256(loaded, prompts, path) -> str:
    artefacts.write(continuations_table(prompts, continuations(loaded, prompts, SETTINGS)), "continuations", path)
    return artefacts.sha256(path)


@pytest.mark.slow
def test_shards_give_the_same_bytes_in_any_order_and_after_a_restart(gpt2, tmp_path):
    prompts = [Prompt(f"{prompt.id}-{copy}", prompt.text) for copy in range(6) for prompt in PROMPTS]
    shards = [prompts[start : start + 10] for start in range(0, 30, 10)]
    forwards = [shard_sha256(gpt2, shard, tmp_path / "a") for shard in shards]

    class KilledError(Exception):
        pass

    def kill(_finished: int) -> None:
        raise KilledError

    with pytest.raises(KilledError):  # a run is cut short in the middle of a shard, and another worker takes over
        continuations(gpt2, shards[1], SETTINGS, progress=kill)
    backwards = [shard_sha256(gpt2, shard, tmp_path / "b") for shard in reversed(shards)]
    assert backwards[::-1] == forwards
    assert len(set(forwards)) == 3


def test_the_order_of_prompts_within_a_shard_changes_nothing(gpt2):
    forwards = continuations(gpt2, PROMPTS, SETTINGS)
    assert continuations(gpt2, PROMPTS[::-1], SETTINGS)[::-1] == forwards


@pytest.mark.slow
def test_every_continuation_has_a_stream_of_its_own(gpt2):
    few, many = (continuations(gpt2, PROMPTS, replace(SETTINGS, k=k)) for k in (2, 6))
    assert [found[:2] for found in many] == few
    other = continuations(gpt2, PROMPTS, replace(SETTINGS, k=2, seed=1))
    assert all(found != before for found, before in zip(other, few, strict=True))


@pytest.mark.slow
def test_another_batch_size_changes_fewer_than_one_draw_in_100_000(gpt2, monkeypatch):
    words = ["river", "mountain", "council", "winter", "harvest", "library", "railway", "school", "garden", "island"]
    prompts = [
        Prompt(f"{one}-{other}", f"The {one} near the {other} was" + " very" * (n % 4) + " old and")
        for n, one in enumerate(words)
        for other in words
    ]
    settings = replace(PROTOCOLS["rtp"], k=56, max_new_tokens=40)
    large = continuations(gpt2, prompts, settings)
    decode_at_once(monkeypatch, 64)
    small = continuations(gpt2, prompts, settings)
    pairs = [(a, b) for one, other in zip(large, small, strict=True) for a, b in zip(one, other, strict=True)]
    tokens = sum(item.n_tokens for item, _ in pairs)
    assert tokens > 100_000
    assert sum(a != b for a, b in pairs) <= tokens / 100_000


@pytest.mark.slow
def test_a_continuation_stops_at_the_end_of_text(gpt2):
    found = [item for items in continuations(gpt2, PROMPTS, replace(SETTINGS, k=40)) for item in items]
    special = gpt2.tokenizer.all_special_tokens
    assert {item.finish for item in found} == {Finish.STOP, Finish.LENGTH}
    assert all(item.n_tokens == 12 for item in found if item.finish is Finish.LENGTH)
    assert all(item.n_tokens < 12 for item in found if item.finish is Finish.STOP)
    assert not any(token in item.text for item in found for token in special)


def limited(forward, most: int, error: Exception, seen: list[int]):
    """The model's forward on a device with room for `most` rows."""

    @functools.wraps(forward)
    def run(*args, **options):
        rows = options["input_ids"].shape[0]
        if rows > most:
            raise error
        seen.append(rows)
        return forward(*args, **options)

    return run


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        MemoryError(),
    ],
    ids=["cuda", "cpu", "python"],
)
def test_where_memory_runs_out_the_batch_is_halved_and_the_draws_stay(gpt2, monkeypatch, error):
    expected = continuations(gpt2, PROMPTS, SETTINGS)  # 20 rows
    seen: list[int] = []
    monkeypatch.setattr(gpt2.model, "forward", limited(gpt2.model.forward, 6, error, seen))
    assert continuations(gpt2, PROMPTS, SETTINGS) == expected
    assert max(seen) == 5  # 20, 10 and 5 rows


def test_memory_for_less_than_one_continuation_is_an_error(gpt2, monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(gpt2.model, "forward", limited(gpt2.model.forward, 0, error, []))
    with pytest.raises(torch.OutOfMemoryError):
        continuations(gpt2, PROMPTS, SETTINGS)


def test_an_error_that_has_nothing_to_do_with_memory_passes_through(gpt2, monkeypatch):
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    monkeypatch.setattr(gpt2.model, "forward", limited(gpt2.model.forward, 0, error, []))
    with pytest.raises(RuntimeError, match="mat1"):
        continuations(gpt2, PROMPTS, SETTINGS)


def test_logits_that_are_not_numbers_are_a_reason_and_no_text(gpt2, monkeypatch):
    forward = gpt2.model.forward

    @functools.wraps(forward)
    def broken(*args, **options):
        output = forward(*args, **options)
        output.logits[0] = float("nan")
        return output

    monkeypatch.setattr(gpt2.model, "forward", broken)
    found = continuations(gpt2, PROMPTS, SETTINGS)
    assert found[0][0].error == engine.NOT_FINITE  # the longest prompt comes first
    assert found[0][0].text is None
    assert all(item.error is None for item in found[3])


def test_a_long_prompt_loses_its_beginning_and_is_counted(gpt2):
    long = Prompt("long", " ".join(TEXTS) * 20)
    (found,) = continuations(gpt2, [long], SETTINGS)
    context = gpt2.architecture.context
    ids = gpt2.tokenizer(long.text, add_special_tokens=False, verbose=False)["input_ids"]
    assert len(ids) > context
    assert all(item.truncated and item.error is None for item in found)
    assert engine.encode(gpt2, [long], SETTINGS)[0].ids == ids[-(context - SETTINGS.max_new_tokens) :]
    assert not any(item.truncated for items in continuations(gpt2, PROMPTS, SETTINGS) for item in items)
    table = continuations_table([long], [found])
    assert sum(table["truncated"].to_pylist()) == SETTINGS.k


@pytest.mark.parametrize(("k", "counts"), [(4, [0, 2, 4, 5]), (1, [0, 5])])
def test_progress_counts_finished_prompts_to_the_end(gpt2, monkeypatch, k, counts):
    decode_at_once(monkeypatch, 8)
    seen: list[int] = []
    continuations(gpt2, PROMPTS, replace(SETTINGS, k=k), progress=seen.append)
    assert list(dict.fromkeys(seen)) == counts


@pytest.mark.slow
def test_k_too_many_for_a_batch_are_cut_apart(gpt2, monkeypatch):
    expected = continuations(gpt2, PROMPTS[:2], replace(SETTINGS, k=10))
    decode_at_once(monkeypatch, 4)
    assert continuations(gpt2, PROMPTS[:2], replace(SETTINGS, k=10)) == expected


@pytest.mark.parametrize("most", [1, 7, 16, 1000])
def test_batches_hold_every_continuation_once_whatever_the_order(gpt2, monkeypatch, most):
    decode_at_once(monkeypatch, most)
    lengths = [9, 3, 0, 1, 9]
    cut = batches.canonical_batches(gpt2, PROMPTS, lengths, 4, 20)
    rows = [row for batch in cut for row in batch]
    assert sorted(rows) == [(number, index) for number in (0, 1, 3, 4) for index in range(4)]
    assert max(map(len, cut)) <= max(most, 1)
    turned = batches.canonical_batches(gpt2, PROMPTS[::-1], lengths[::-1], 4, 20)
    assert [[(4 - number, index) for number, index in batch] for batch in turned] == cut


def test_batches_keep_the_keys_and_values_of_their_tokens_within_the_budget(gpt2, monkeypatch):
    architecture = gpt2.architecture
    token_bytes = 2 * 4 * architecture.layers * architecture.hidden_size  # keys and values, in float32
    budget = 5 * (3 + 20) * token_bytes
    monkeypatch.setattr(work_sizes, "PROCESSOR", replace(work_sizes.PROCESSOR, cache_bytes=budget))
    cut = batches.canonical_batches(gpt2, PROMPTS[:2], [3, 3], 4, 20)
    assert list(map(len, cut)) == [4, 4], "a second prompt's continuations would be 8"
    monkeypatch.setattr(work_sizes, "PROCESSOR", replace(work_sizes.PROCESSOR, cache_bytes=2 * budget))
    assert list(map(len, batches.canonical_batches(gpt2, PROMPTS[:2], [3, 3], 4, 20))) == [8]


def test_a_model_that_is_not_causal_is_refused_by_name():
    with pytest.raises(UnsupportedKind, match="BertForMaskedLM is a masked model"):
        continuations(loaded_miniature(SMALLEST["masked"]), PROMPTS, SETTINGS)


def test_settings_that_do_not_fit_are_refused(gpt2):
    with pytest.raises(ValueError, match="same id"):
        continuations(gpt2, [PROMPTS[0], PROMPTS[0]], SETTINGS)
    with pytest.raises(ValueError, match="loaded in float32"):
        continuations(gpt2, PROMPTS, replace(SETTINGS, precision="bfloat16"))
    with pytest.raises(ValueError, match="no room for a prompt"):
        continuations(gpt2, PROMPTS, replace(SETTINGS, max_new_tokens=gpt2.architecture.context))


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": -1},
        {"max_new_tokens": 0},
        {"seed": -1},
        {"precision": "int3"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GenerationSettings(**wrong)


def test_no_prompts_give_no_continuations(gpt2):
    assert continuations(gpt2, [], SETTINGS) == []


def test_the_protocols_are_those_of_the_papers():
    assert (PROTOCOLS["rtp"].k, PROTOCOLS["rtp"].top_p, PROTOCOLS["rtp"].max_new_tokens) == (25, 0.9, 20)
    assert (PROTOCOLS["rtp-helm"].k, PROTOCOLS["rtp-helm"].top_p, PROTOCOLS["rtp-helm"].temperature) == (5, 1, 1)
    assert PROTOCOLS["regard"].top_k == 40


def test_a_prompt_with_one_token_that_has_no_embedding_gets_a_reason_and_the_others_go_on(gpt2):
    highest = [max(gpt2.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    architecture = replace(gpt2.architecture, vocabulary=max(highest))  # all but the highest token of one prompt
    by_prompt = continuations(replace(gpt2, architecture=architecture), PROMPTS, SETTINGS)
    errors = [{continuation.error for continuation in rows} for rows in by_prompt]
    lacking = highest.index(max(highest))
    assert errors[lacking] == {"the prompt has a token that the model has no embedding for"}
    assert all(reasons == {None} for place, reasons in enumerate(errors) if place != lacking)
