"""Steps of distillation, through Trainer with its checkpoints and log, against a plain loop over the same batches."""

import tempfile
from functools import partial
from pathlib import Path

import torch

from scoring.evaluation_sets import build_starter
from scoring.language_models import BUNDLED, LoadedModel
from scoring.training.distillation import DistillationLoss
from scoring.training.examples import Examples, collate, cut_documents, pack_documents
from scoring.training.loop import train
from scoring.training.settings import Distillation
from scoring.training.students import build_student
from tests.bench.likelihood import loaded, row
from tests.bench.timing import seconds

STEPS, CONTEXT, DEPTH, WIDTH = 120, 64, 2, 128  # steps enough that the start of Trainer does not weigh
SETTINGS = Distillation(pretraining_steps=1, steps=STEPS - 1, context=CONTEXT, checkpoint_every=10 * STEPS)


def examples_of(teacher: LoadedModel, batches: int) -> Examples:
    """Texts of the starter set, cut or packed as the teacher's kind needs, masked where it is masked."""
    texts = [sentence.text for sentence in build_starter()]
    masked = teacher.architecture.kind == "masked"
    rows = (cut_documents if masked else pack_documents)(texts, teacher.tokenizer, CONTEXT)
    masks = {
        "mask_id": teacher.tokenizer.mask_token_id,
        "special_ids": teacher.tokenizer.all_special_ids,
        "masked_share": SETTINGS.masked_share,
    }
    return Examples(rows, batches * SETTINGS.batch, SETTINGS.seed, **(masks if masked else {}))


def through_trainer(teacher: LoadedModel) -> None:
    """As `python -m scoring.training distill` trains a student."""
    student = build_student(teacher.model, teacher.architecture, DEPTH, WIDTH, SETTINGS.seed)
    objective = DistillationLoss(teacher.model, SETTINGS.pretraining_steps or 0, SETTINGS)
    with tempfile.TemporaryDirectory() as folder:
        padding = teacher.tokenizer.pad_token_id or 0
        train(
            student, examples_of(teacher, STEPS), objective, SETTINGS.loop(STEPS), folder=Path(folder), padding=padding
        )


def plain_loop(teacher: LoadedModel) -> None:
    """The same steps without anything around them."""
    student = build_student(teacher.model, teacher.architecture, DEPTH, WIDTH, SETTINGS.seed).train()
    objective = DistillationLoss(teacher.model, SETTINGS.pretraining_steps or 0, SETTINGS)
    optimizer = torch.optim.AdamW(student.parameters(), lr=SETTINGS.learning_rate)
    examples = examples_of(teacher, STEPS)
    for step in range(STEPS):
        places = range(step * SETTINGS.batch, (step + 1) * SETTINGS.batch)
        batch = collate([examples[place] for place in places], padding=teacher.tokenizer.pad_token_id or 0)
        objective(student, batch, step).backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def distillation_table() -> None:
    """Print the table."""
    for title, name in (("causal", "plumb-gpt2-l4-h256"), ("masked", "plumb-bert-l4-h128")):
        teacher = loaded(BUNDLED / name)
        plain_loop(teacher)
        duration = seconds(partial(through_trainer, teacher))
        row(f"{title} student, {STEPS} steps", duration, {"a plain loop": seconds(partial(plain_loop, teacher))}, None)
