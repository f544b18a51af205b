"""Examples to learn from, by position: what a run sees at a position does not depend on what it saw before.

A run that was killed therefore goes on with the examples and the masks that it would have seen.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from scoring.refusals import Refused
from scoring.training.pretraining import IGNORED

Example = dict[str, torch.Tensor]  # input_ids, attention_mask, labels: [tokens]
_ORDER, _MASKS = 0, 1  # streams of random numbers


def pack_documents(
    documents: Sequence[str], tokenizer: PreTrainedTokenizerBase, context: int
) -> list[NDArray[np.int64]]:
    """Rows of exactly `context` tokens: the documents end to end, an end-of-text token before each.

    Raises Refused where they make less than a row, or where the tokenizer has no such token.
    """
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.bos_token_id
    if end is None:
        raise Refused.of_field("model", "its tokenizer has no end-of-text token; give a model with one")
    token_ids = tokenizer(list(documents), add_special_tokens=False)["input_ids"]
    stream = np.concatenate([[end, *ids] for ids in token_ids]).astype(np.int64)
    if len(stream) < context:
        raise Refused.of_field(
            "texts", f"they hold {len(stream)} tokens, fewer than the {context} of a row; give more, or less context"
        )
    rows = len(stream) // context
    return list(stream[: rows * context].reshape(rows, context))


def cut_documents(
    documents: Sequence[str], tokenizer: PreTrainedTokenizerBase, context: int
) -> list[NDArray[np.int64]]:
    """Rows of at most `context` tokens, special ones included: each document, a long one in several."""
    encodings = tokenizer(list(documents), truncation=True, max_length=context, return_overflowing_tokens=True)
    return [np.array(ids, dtype=np.int64) for ids in encodings["input_ids"]]


class Examples(Dataset[Example]):
    """`count` examples of `rows`, each epoch of them in an order of its own.

    Without `mask_id` every token is to be predicted from those before it; with it, `masked_share` of the tokens that
    are not special, at least one a row, are replaced by it and to be predicted.
    """

    def __init__(
        self,
        rows: Sequence[NDArray[np.int64]],
        count: int,
        seed: int,
        *,
        mask_id: int | None = None,
        special_ids: Sequence[int] = (),
        masked_share: float = 0.0,
    ) -> None:
        self.count, self.seed, self.mask_id, self.masked_share = count, seed, mask_id, masked_share
        self.special_ids = np.array(special_ids, dtype=np.int64)
        self.rows = rows if mask_id is None else [row for row in rows if not np.isin(row, self.special_ids).all()]
        if not self.rows:
            raise Refused.of_field("texts", "no text has a token to learn from; give texts with words")
        self.order = lru_cache(maxsize=1)(self._order)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> Example:
        epoch, place = divmod(position, len(self.rows))
        ids = self.rows[self.order(epoch)[place]].copy()
        labels = np.full_like(ids, IGNORED)
        if self.mask_id is None:
            labels[:-1] = ids[1:]
        else:
            ordinary = np.flatnonzero(~np.isin(ids, self.special_ids))
            generator = np.random.default_rng([self.seed, _MASKS, position])
            places = generator.choice(ordinary, max(1, round(self.masked_share * len(ordinary))), replace=False)
            labels[places] = ids[places]
            ids[places] = self.mask_id
        arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids), "labels": labels}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _order(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self.seed, _ORDER, epoch]).permutation(len(self.rows))


def collate(examples: Sequence[Example], padding: int) -> dict[str, Any]:
    """A batch [examples, longest]: shorter ones are filled up with `padding`, which is neither seen nor predicted."""
    fill = {"input_ids": padding, "attention_mask": 0, "labels": IGNORED}
    return {
        name: torch.nn.utils.rnn.pad_sequence([example[name] for example in examples], True, float(value))
        for name, value in fill.items()
    }
