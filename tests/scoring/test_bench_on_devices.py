"""The table of a GPU says that there is none, and its script runs whole on a device that is."""

from dataclasses import replace

import pytest
import torch

from tests.bench import generation, gpu
from tests.bench.gpu import Workload, find_driver, gpu_table, print_tables
from tests.bench.timing import describe_rates

SMALL = Workload(
    causal=(("tiny", 1, 64),),
    masked=(("tiny BERT", 1, 64),),
    generated=(("tiny", 1, 64),),
    causal_texts=8,
    masked_texts=4,
    reference_texts=2,
    compared_texts=8,
    prompts=2,
    product_size=64,
    precisions=("float32", "bfloat16"),  # float16 takes a processor a minute
)


def test_where_there_is_no_gpu_the_table_says_so_and_how_to_have_it(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu_table()
    text = capsys.readouterr().out
    assert text.startswith(f"no GPU here (torch {torch.__version__} finds none beside ")
    assert "`python -m tests.bench gpu` on a host with one" in text


@pytest.mark.slow
def test_the_script_measures_every_row_of_a_device(capsys, monkeypatch):
    monkeypatch.setattr(gpu, "find_spec", lambda _name: None)  # minicons, whose own warnings are errors in tests
    for module in (gpu, generation):  # a processor draws from a whole vocabulary a hundred times slower
        monkeypatch.setattr(module, "SETTINGS", replace(module.SETTINGS, k=3, max_new_tokens=4))
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(gpu, "classifier_table", lambda _folder, *arguments: calls.append(arguments))
    print_tables(torch.device("cpu"), SMALL)
    lines = capsys.readouterr().out.splitlines()
    titles = [line[:30].strip() for line in lines]
    for precision in SMALL.precisions:
        assert titles.count(f"causal, tiny, {precision}") == 2  # likelihoods and continuations
        assert f"tiny BERT, {precision}" in titles
    assert f"torch {torch.__version__}" in lines[0]
    assert "bfloat16" in lines[1]
    assert calls == [(torch.device("cpu"), 8)]


def test_rates_are_told_beside_what_they_are_of_float32():
    words = describe_rates({"float32": 2e11, "bfloat16": 4e10})
    assert words == "float32 200 GFLOP/s (1.00x), bfloat16 40 GFLOP/s (0.20x)"


@pytest.mark.parametrize(("answer", "driver"), [("echo 570.86.10", "570.86.10"), ("exit 9", "unknown")])
def test_the_driver_is_what_its_tool_says(answer, driver, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_driver() == "unknown"
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{answer}\n")
    tool.chmod(0o755)
    assert find_driver() == driver
