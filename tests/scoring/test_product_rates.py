"""A host measures how fast it computes in each precision, and refuses what it is slow in."""

import json
import os
import subprocess
import sys

import pytest
import torch

from scoring import __main__ as command_line
from scoring.language_models import BUNDLED, product_rates
from scoring.language_models.product_rates import ProductRates, SlowPrecision, forced_precisions, require_speed
from scoring.refusals import Refused
from scoring.scorers import ScorerUnavailable
from scoring.scorers.guard_model import GuardScorer
from scoring.scorers.precision import require_fast_precision
from tests.tiny_guards import save_guard, tiny_guard

SLOW_HOST = ProductRates("alpha (a processor, 2 cores)", {"float32": 150.0, "bfloat16": 30.0, "float16": 120.0})
FIGURES = "bfloat16 runs at 0.20x of float32 on alpha (a processor, 2 cores) (30 against 150 GFLOP/s)"
EMULATED = """
import torch
from scoring.language_models.product_rates import product_rates
print(product_rates().ratio("bfloat16"), torch.get_num_threads())
"""


@pytest.fixture
def slow_host(monkeypatch):
    """A host without units for bfloat16, which nothing forces."""
    monkeypatch.delenv("SLOW_PRECISIONS", raising=False)
    monkeypatch.setattr(product_rates, "_rates", lambda _kept_in: SLOW_HOST)


def test_a_rate_is_of_multiplications_and_additions_and_of_the_fastest_round(monkeypatch):
    monkeypatch.setitem(product_rates.SHAPES, "cpu", (2, 3, 5))
    precisions = list(product_rates.BYTES_A_NUMBER)
    looks = [0.0 for _ in precisions]  # as the first round begins, whose ends nobody looks at
    for seconds in (2.0, 0.5, *[1.0] * (product_rates.ROUNDS - 2)):
        looks += [moment for _ in precisions for moment in (0.0, seconds)]
    moments = iter(looks)
    rates = product_rates._time_products("cpu", lambda: next(moments))
    assert rates == dict.fromkeys(precisions, pytest.approx(2 * 2 * 3 * 5 / 0.5 / 1e9))


def test_the_clock_is_read_when_a_gpu_has_ended_what_it_was_given(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append("ended"))
    for device in ("cpu", "cuda"):
        product_rates._wait(device)
    assert waits == ["ended"]


def test_a_slow_precision_is_refused_with_the_figures_and_the_remedy(slow_host):
    with pytest.raises(SlowPrecision) as refusal:
        require_speed("bfloat16")
    assert str(refusal.value).startswith(FIGURES)
    assert "SLOW_PRECISIONS=bfloat16" in str(refusal.value)
    assert (refusal.value.field, refusal.value.value) == ("precision", "bfloat16")


def test_what_is_at_least_four_fifths_as_fast_as_float32_is_used(slow_host):
    for precision in ("float32", "float16", "int8"):
        require_speed(precision)
    assert [name for name in SLOW_HOST.by_precision if SLOW_HOST.is_slow(name)] == ["bfloat16"]


def test_a_forced_precision_is_used_and_a_name_that_is_none_is_refused(slow_host, monkeypatch):
    monkeypatch.setenv("SLOW_PRECISIONS", "float16, bfloat16")
    require_speed("bfloat16")
    with pytest.raises(Refused, match="SLOW_PRECISIONS = 'int3': use float32, bfloat16, float16"):
        forced_precisions("int3")


def test_a_classifier_in_a_slow_precision_is_unavailable_here_with_the_figures(slow_host):
    with pytest.raises(ScorerUnavailable, match=r"bfloat16 runs at 0\.20x of float32"):
        require_fast_precision("bfloat16")
    require_fast_precision("int8")


def test_a_guard_in_a_slow_precision_is_unavailable_here_and_not_loaded(slow_host, tmp_path):
    save_guard(tmp_path)
    with pytest.raises(ScorerUnavailable, match=r"bfloat16 runs at 0\.20x of float32"):
        GuardScorer(tiny_guard(precision="bfloat16"), folder=tmp_path)


def test_the_command_line_refuses_a_slow_precision_before_it_loads_a_model(slow_host, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("The sea.\n")
    arguments = [
        "perplexity",
        "--model",
        str(BUNDLED / "plumb-gpt2-l2-h128"),
        "--texts",
        str(texts),
        "--precision",
        "bfloat16",
    ]
    assert command_line.main(arguments) == 2
    assert FIGURES in capsys.readouterr().err


def test_each_precision_is_measured_and_the_best_rate_of_a_host_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "rates.json"
    measurements = iter([{"float32": 2.0, "bfloat16": 5.0}, {"float32": 3.0, "bfloat16": 4.0}, {"float32": 1.0}])
    monkeypatch.setattr(product_rates, "_measure", lambda _device: next(measurements))
    measure = product_rates._rates.__wrapped__
    assert measure(path).by_precision == {"float32": 2.0, "bfloat16": 5.0}
    assert measure(path).by_precision == {"float32": 3.0, "bfloat16": 5.0}
    rates = json.loads(path.read_text())
    path.write_text(json.dumps(rates | {"conditions": ["another build"]}))
    assert measure(path).by_precision == {"float32": 1.0}
    assert [entry.name for entry in tmp_path.iterdir()] == ["rates.json"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"conditions": 1, "rates": []}'])
def test_a_file_of_rates_that_cannot_be_read_is_written_anew(content, tmp_path, monkeypatch):
    path = tmp_path / "rates.json"
    path.write_text(content)
    monkeypatch.setattr(product_rates, "_measure", lambda _device: {"float32": 2.0})
    assert product_rates._rates.__wrapped__(path).by_precision == {"float32": 2.0}
    assert json.loads(path.read_text())["rates"] == {"float32": 2.0}


@pytest.mark.slow
@pytest.mark.skipif(
    "avx2" not in product_rates.Path("/proc/cpuinfo").read_text(), reason="oneDNN cannot be held to AVX2 here"
)
def test_a_processor_that_is_held_to_instructions_without_bfloat16_is_measured_as_slow():
    variables = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", EMULATED], env=variables, check=True, capture_output=True, text=True
    ).stdout
    assert 0 < float(answer.split()[0]) < 0.8


def test_a_processor_is_measured_by_one_thread_and_a_graphics_card_by_the_clock_on_the_wall(monkeypatch):
    counts: list[int] = []
    threads = torch.get_num_threads()
    monkeypatch.setattr(torch, "set_num_threads", counts.append)
    monkeypatch.setattr(product_rates, "_time_products", lambda device, clock: {device: clock})
    assert product_rates._measure("cuda") == {"cuda": product_rates.time.perf_counter}
    assert counts == []
    assert product_rates._measure("cpu") == {"cpu": product_rates.time.thread_time}
    assert counts == [1, threads]


@pytest.mark.parametrize(("count", "words"), [(1, "1 core"), (2, "2 cores"), (None, "1 core")])
def test_a_processor_is_named_with_its_cores(count, words, monkeypatch):
    monkeypatch.setattr(product_rates.os, "cpu_count", lambda: count)
    name, _, cores = product_rates.name_processor("cpu").rpartition(", ")
    assert (bool(name), cores) == (True, words)
    assert ":" not in name
