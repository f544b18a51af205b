"""Trains a model with transformers' Trainer so that a run that was killed goes on and ends with the same weights."""

import json
import math
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedModel, Trainer, TrainerCallback, TrainingArguments

from scoring.training.examples import Examples, collate
from scoring.training.pretraining import learning_rate
from scoring.training.settings import Loop

Batch = dict[str, torch.Tensor]
Objective = Callable[[PreTrainedModel, Batch, int], torch.Tensor]  # model, batch, step -> loss


def scale_rate(loop: Loop, step: int) -> float:
    """The learning rate at a step, as a factor of the peak: each stage has its own warm-up and decay."""
    for steps in loop.stages:
        if step < steps:
            return learning_rate(step, steps)
        step -= steps
    return 0.0


def trainer_arguments(loop: Loop, folder: Path) -> TrainingArguments:
    """What Trainer takes of a loop; checkpoints go to `folder`."""
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=loop.steps,
        per_device_train_batch_size=loop.batch,
        gradient_accumulation_steps=loop.accumulation,
        learning_rate=loop.peak_rate,
        weight_decay=loop.weight_decay,
        optim="adamw_torch",
        max_grad_norm=1.0,
        seed=loop.seed,
        bf16=loop.precision == "bfloat16",
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        activation_checkpointing=loop.gradient_checkpointing,
        activation_checkpointing_kwargs={"use_reentrant": False} if loop.gradient_checkpointing else None,
        deepspeed=str(loop.deepspeed) if loop.deepspeed else None,
        save_strategy="steps",
        save_steps=loop.checkpoint_every,
        save_total_limit=1,
        logging_steps=max(1, min(50, loop.steps // 10)),
        logging_nan_inf_filter=False,
        train_sampling_strategy="sequential",  # the order is that of Examples, which resuming does not change
        remove_unused_columns=False,
        report_to="none",
    )


class LoopTrainer(Trainer):
    """Trainer with an objective that knows the step, and the rates of a Loop."""

    lr_scheduler: LambdaLR | None

    def __init__(self, loop: Loop, objective: Objective, **options: Any) -> None:
        super().__init__(**options)
        self.loop, self.objective = loop, objective
        self.model_accepts_loss_kwargs = False  # the loss is a mean over a batch: Trainer divides by the accumulation

    def compute_loss(
        self, model: PreTrainedModel, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> torch.Tensor:
        """The objective at this step."""
        return self.objective(model, inputs, self.state.global_step)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        """The rates of the loop."""
        if self.lr_scheduler is None:
            self.lr_scheduler = LambdaLR(optimizer or self.optimizer, partial(scale_rate, self.loop))
        return self.lr_scheduler


class FiniteLoss(TrainerCallback):
    """Ends a run whose loss is no longer a number."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        """Raises FloatingPointError."""
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at step {state.global_step}: lower the learning rate")


def train(
    model: PreTrainedModel, examples: Examples, objective: Objective, loop: Loop, *, folder: Path, padding: int
) -> list[dict[str, float]]:
    """Train `model` in place, from the newest whole checkpoint in `folder` where there is one.

    Returns Trainer's log: step, loss, learning_rate. Raises FloatingPointError when the loss is no longer a number.
    """
    trainer = LoopTrainer(
        loop,
        objective,
        model=model,
        args=trainer_arguments(loop, folder),
        train_dataset=examples,
        data_collator=partial(collate, padding=padding),
        callbacks=[FiniteLoss()],
    )
    checkpoint = newest_checkpoint(folder)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    model.to("cpu").eval()
    return [entry for entry in trainer.state.log_history if "loss" in entry]


def newest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint of most steps that was written to its end; what a kill left half written is removed."""
    by_step = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in by_step:
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))  # Trainer writes it last
        except (OSError, ValueError):
            shutil.rmtree(path)
        else:
            return path
    return None
