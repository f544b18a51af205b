"""What is left of a model when its training has ended."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from scoring.refusals import Refused
from scoring.training.examples import Examples
from scoring.training.loop import Batch, FiniteLoss, scale_rate, train, trainer_arguments
from scoring.training.pretraining import learning_rate
from scoring.training.saving import keep_settings, save_model
from scoring.training.settings import Loop
from tests.scoring.families import tiny


def predict_next(model: PreTrainedModel, batch: Batch, _step: int) -> torch.Tensor:
    return model(**batch).loss


@pytest.mark.slow
def test_a_trained_model_answers_alike_each_time(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    rows = [np.arange(8, dtype=np.int64), np.arange(2, 10, dtype=np.int64)]
    loop = Loop(stages=(2,), batch=1, seed=0, peak_rate=1e-3)
    log = train(model, Examples(rows, loop.examples, 0), predict_next, loop, folder=tmp_path, padding=0)
    assert [entry["step"] for entry in log] == [1, 2]
    ids = torch.arange(8)[None]
    with torch.inference_mode():
        assert torch.equal(model(ids).logits, model(ids).logits)  # nothing is dropped out any more


def test_a_saved_model_has_its_name_when_it_is_whole_and_nothing_of_a_draft_before(tmp_path: Path) -> None:
    loaded, folder = tiny("GPT-2"), tmp_path / "model"
    draft = tmp_path / ".model.draft"
    draft.mkdir()
    (draft / "vocab.txt").write_bytes(b"of a run that was ended")
    names: list[set[str]] = []

    def describe(path: Path) -> None:
        assert not folder.exists()
        names.append({file.name for file in path.iterdir()})
        (path / "README.md").write_text("A card")

    save_model(loaded.model, loaded.tokenizer, folder, describe)
    assert {file.name for file in folder.iterdir()} == names[0] | {"README.md"}
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= names[0]
    assert "vocab.txt" not in names[0]
    assert not draft.exists()


def test_each_stage_has_a_warm_up_and_a_decay_of_its_own() -> None:
    loop = Loop(stages=(20, 40), batch=1, seed=0, peak_rate=1e-3)
    factors = [scale_rate(loop, step) for step in range(61)]
    first, second = ([learning_rate(step, steps) for step in range(steps)] for steps in (20, 40))
    assert factors == [*first, *second, 0]


def test_a_trainer_learns_as_its_loop_says_and_writes_where_it_is_asked_to(tmp_path: Path) -> None:
    loop = Loop(
        stages=(100, 20), batch=3, accumulation=4, seed=5, peak_rate=1e-3, weight_decay=0.02, checkpoint_every=7,
        precision="bfloat16", gradient_checkpointing=True,
    )  # fmt: skip
    arguments = trainer_arguments(loop, tmp_path)
    options = {
        "output_dir": str(tmp_path), "max_steps": 120, "per_device_train_batch_size": 3,
        "gradient_accumulation_steps": 4, "learning_rate": 1e-3, "weight_decay": 0.02, "max_grad_norm": 1.0, "seed": 5,
        "bf16": True, "use_cpu": not torch.cuda.is_available(), "dataloader_pin_memory": torch.cuda.is_available(),
        "activation_checkpointing": True, "activation_checkpointing_kwargs": {"use_reentrant": False},
        "deepspeed": None, "save_steps": 7, "save_total_limit": 1, "logging_steps": 12,
        "logging_nan_inf_filter": False, "train_sampling_strategy": "sequential", "remove_unused_columns": False,
        "report_to": [],
    }  # fmt: skip
    assert {name: getattr(arguments, name) for name in options} == options
    assert (arguments.optim.value, arguments.save_strategy.value) == ("adamw_torch", "steps")


@pytest.mark.parametrize(("steps", "every"), [(5, 1), (499, 49), (2000, 50)])
def test_the_loss_is_logged_ten_times_and_at_least_every_fifty_steps(steps: int, every: int, tmp_path: Path) -> None:
    loop = Loop(stages=(steps,), batch=1, seed=0, peak_rate=1e-3)
    arguments = trainer_arguments(loop, tmp_path)
    assert arguments.logging_steps == every
    assert (arguments.bf16, arguments.activation_checkpointing, arguments.activation_checkpointing_kwargs) == (
        False,
        False,
        None,
    )


def test_a_run_ends_where_its_loss_is_no_number_and_only_there() -> None:
    callback, state = FiniteLoss(), SimpleNamespace(global_step=30)
    for logs in (None, {"learning_rate": 1.0}, {"loss": 2.5}):
        callback.on_log(None, state, None, logs=logs)
    with pytest.raises(FloatingPointError, match="the loss is nan at step 30: lower the learning rate"):
        callback.on_log(None, state, None, logs={"loss": float("nan")})


@pytest.mark.parametrize("name", ["batch", "accumulation", "checkpoint_every"])
def test_a_loop_needs_one_of_each_at_least(name: str) -> None:
    options = {"stages": (2, 3), "batch": 2, "seed": 0, "peak_rate": 1e-3, "accumulation": 4}
    assert getattr(Loop(**{**options, name: 1}), name) == 1
    with pytest.raises(Refused, match=f"{name} = 0: use 1 or more"):
        Loop(**{**options, name: 0})


def test_a_loop_counts_its_steps_and_examples() -> None:
    loop = Loop(stages=(2, 3), batch=2, seed=0, peak_rate=1e-3, accumulation=4)
    assert (loop.steps, loop.examples) == (5, 40)
    plain = Loop(stages=(2,), batch=1, seed=0, peak_rate=1e-3)
    assert (plain.accumulation, plain.weight_decay, plain.checkpoint_every, plain.examples) == (1, 0.01, 100, 2)


def test_settings_are_written_once_for_people_to_read_and_others_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "output"
    settings = {"steps": 3, "deepspeed": Path("ds.json"), "corpus": "été"}
    keep_settings(folder, settings)
    path = folder / "settings.json"
    assert path.read_text(encoding="utf-8") == (
        '{\n  "corpus": "\\u00e9t\\u00e9",\n  "deepspeed": "ds.json",\n  "steps": 3\n}\n'
    )
    keep_settings(folder, settings)
    assert [file.name for file in folder.iterdir()] == ["settings.json"]
    with pytest.raises(Refused, match=r"steps = 4: .*output was begun with 3; give that, or a new output"):
        keep_settings(folder, {**settings, "steps": 4})
    with pytest.raises(Refused, match=r"batch = 2: .*output was begun with None; give that, or a new output"):
        keep_settings(folder, {**settings, "batch": 2})
    with pytest.raises(Refused, match=r"corpus = None: .*output was begun with 'été'"):
        keep_settings(folder, {"steps": 3, "deepspeed": Path("ds.json")})
    assert json.loads(path.read_text(encoding="utf-8"))["steps"] == 3
