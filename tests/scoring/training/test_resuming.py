"""A run that is killed goes on, and ends with the weights that it would have had."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from scoring.training.loop import newest_checkpoint
from tests.faults.forge import Forked
from tests.scoring.families import tiny_folder
from tests.scoring.training.conftest import sentences, write_lines

STEPS = 80
EVERY = 10
PATIENCE = 300


def start(*arguments: object) -> Forked:
    command = ["scoring.training", *map(str, arguments)]
    return Forked(command, {**os.environ, "OMP_NUM_THREADS": "1"}, Path.cwd(), Path(os.devnull))


def kill_after_a_checkpoint(process: Forked, output: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not list(output.glob("checkpoints/*/checkpoint-*/trainer_state.json")):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def weights(folder: Path) -> dict[str, list]:
    return {name: tensor.tolist() for name, tensor in load_file(folder / "model.safetensors").items()}


def compare(command: list[object], tmp_path: Path, models: int) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(*command, "--output", whole).wait() == 0
    kill_after_a_checkpoint(start(*command, "--output", killed), killed)
    assert not list(killed.glob("*/model.safetensors"))
    assert start(*command, "--output", killed).wait() == 0
    folders = sorted(path.parent.name for path in whole.glob("*/model.safetensors"))
    assert len(folders) == models
    for name in folders:
        assert weights(killed / name) == weights(whole / name)
        assert (killed / name / "README.md").read_bytes() == (whole / name / "README.md").read_bytes()


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPT-2", "BERT"])
def test_a_killed_distillation_ends_with_the_same_weights(name, tmp_path):
    # Both teachers have dropout, which the students inherit: the state of random numbers matters.
    texts = write_lines(tmp_path / "texts.txt", sentences(80, seed=6))
    command = ["distill", "--teacher", tiny_folder(name), "--layers", 1, "--hidden", 16, "--texts", texts]
    command += ["--context", 32, "--batch", 4, "--pretraining-steps", STEPS // 2, "--steps", STEPS // 2]
    command += ["--learning-rate", 0.01, "--checkpoint-every", EVERY, "--hidden-weight", 0.1]
    compare(command, tmp_path, models=1)


@pytest.mark.faults
@pytest.mark.slow
def test_a_killed_pair_ends_with_the_same_weights_and_report(tmp_path):
    corpora = [write_lines(tmp_path / f"{name}.txt", sentences(60, seed)) for seed, name in enumerate("ab")]
    command = ["finetune", "--model", tiny_folder("GPT-2"), "--corpus", corpora[0], "--corpus", corpora[1]]
    command += ["--similarity", 1, "--shortest", 40, "--context", 32, "--epochs", 8, "--batch", 4]
    command += ["--accumulation", 2, "--learning-rate", 0.01, "--checkpoint-every", EVERY]
    compare(command, tmp_path, models=2)
    reports = [json.loads((tmp_path / part / "report.json").read_text()) for part in ("whole", "killed")]
    assert reports[0] == reports[1]


def test_a_half_written_checkpoint_is_removed_and_the_one_before_it_used(tmp_path):
    for step, content in ((20, "{}"), (100, '{"global_step": 1'), (120, None)):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        if content is not None:
            (folder / "trainer_state.json").write_text(content)
    assert newest_checkpoint(tmp_path) == tmp_path / "checkpoint-20"
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-20"]


def test_without_a_checkpoint_a_run_begins(tmp_path):
    assert newest_checkpoint(tmp_path / "nothing") is None
