"""Pre-trains small causal and masked language models on documents.

Seeded: start, order of text and masks are the same each time. Weights are not, to the last bit: threads round sums
differently, and WordPiece training breaks ties between equally frequent pieces in no fixed order.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerFast

MASKED_SHARE = 0.4  # of the tokens: more of them teach faster than BERT's 15% (Wettig et al. 2023)
WEIGHT_DECAY = 0.05
WARMUP_SHARE = 0.06

Batch = tuple[torch.Tensor, torch.Tensor]  # input ids, labels with IGNORED where nothing is predicted
IGNORED = -100


def best_device() -> torch.device:
    """The GPU when there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def causal_batches(
    documents: list[str], tokenizer: PreTrainedTokenizerFast, context: int, tokens: int, seed: int
) -> Iterator[Batch]:
    """Yield endless [tokens / context, context] batches of documents packed end to end, reshuffled every epoch."""
    generator = np.random.default_rng(seed)
    token_ids = tokenizer(documents, add_special_tokens=False)["input_ids"]
    rows = tokens // context
    while True:
        order = generator.permutation(len(token_ids))
        stream = np.concatenate([[tokenizer.eos_token_id, *token_ids[index]] for index in order])
        for start in range(0, len(stream) - rows * context, rows * context):
            ids = torch.from_numpy(stream[start : start + rows * context].reshape(rows, context))
            labels = torch.full_like(ids, IGNORED)
            labels[:, :-1] = ids[:, 1:]
            yield ids, labels


def masked_batches(
    documents: list[str], tokenizer: PreTrainedTokenizerFast, context: int, tokens: int, seed: int
) -> Iterator[Batch]:
    """Yield endless batches of about `tokens` tokens: documents of like length, a share of their tokens masked."""
    generator = np.random.default_rng(seed)
    token_ids = tokenizer(documents, truncation=True, max_length=context)["input_ids"]
    lengths = np.array([len(ids) for ids in token_ids])
    while True:
        # Like lengths together, but other neighbours every epoch.
        order = np.argsort(lengths + generator.uniform(-4, 4, len(lengths)))
        bounds = [0]
        widest = 0
        for position, index in enumerate(order):
            widest = max(widest, lengths[index])
            if (position + 1 - bounds[-1]) * widest > tokens:
                bounds.append(position)
                widest = lengths[index]
        for number in generator.permutation(len(bounds) - 1):
            batch_indices = order[bounds[number] : bounds[number + 1]]
            ids = torch.full((len(batch_indices), int(lengths[batch_indices].max())), tokenizer.pad_token_id)
            for row, index in enumerate(batch_indices):
                ids[row, : lengths[index]] = torch.tensor(token_ids[index])
            ordinary = ids >= len(tokenizer.all_special_ids)
            is_masked = ordinary & torch.from_numpy(generator.random(ids.shape) < MASKED_SHARE)
            labels = torch.where(is_masked, ids, IGNORED)
            yield torch.where(is_masked, tokenizer.mask_token_id, ids), labels


def prediction_loss(
    model: PreTrainedModel, ids: torch.Tensor, labels: torch.Tensor, padding: int | None
) -> torch.Tensor:
    """Mean cross-entropy, in nats, where `labels` asks for a token; the vocabulary head sees only those positions."""
    attention = None if padding is None else (ids != padding).long()
    states = model.base_model(input_ids=ids, attention_mask=attention).last_hidden_state
    is_target = labels != IGNORED
    head = model.get_output_embeddings() if padding is None else model.cls
    return cross_entropy(head(states[is_target]).float(), labels[is_target])


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then cosine to a twentieth, as a factor of the peak."""
    warmup = max(1, int(steps * WARMUP_SHARE))
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))


def pretrain(
    model: PreTrainedModel,
    batches: Iterator[Batch],
    *,
    steps: int,
    peak_rate: float,
    padding: int | None,
    device: torch.device,
    title: str,
    report: Callable[[str], None] = tqdm.write,
) -> None:
    """Train `model` in place with AdamW for `steps` batches, with a progress bar.

    Raises FloatingPointError when the loss is no longer a number.
    """
    model.to(device).train()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=peak_rate, betas=(0.9, 0.98), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: learning_rate(step, steps))
    smooth_loss: float | None = None
    with tqdm(total=steps, desc=title, unit="step", mininterval=1.0) as bar:
        for step in range(steps):
            ids, labels = (tensor.to(device) for tensor in next(batches))
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = prediction_loss(model, ids, labels, padding)
            value = loss.item()
            if not math.isfinite(value):
                raise FloatingPointError(f"{title}: the loss is {value} at step {step}: lower the learning rate")
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            smooth_loss = value if smooth_loss is None else 0.98 * smooth_loss + 0.02 * value
            bar.set_postfix(loss=f"{smooth_loss:.3f}", refresh=False)
            bar.update()
            if (step + 1) % max(1, steps // 10) == 0:
                report(f"{title}: step {step + 1}/{steps}, loss {smooth_loss:.3f} nats a token")
    model.to("cpu").eval()
