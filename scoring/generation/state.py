"""A batch between two steps of decoding: each prompt is prefilled once, and its continuations start from copies."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

from scoring.generation.protocols import UnsupportedKind
from scoring.language_models import LoadedModel
from scoring.language_models.architecture import first_position


class DecodingState:
    """The keys and values of a batch, and `logits` [rows, vocabulary] of the next token.

    Rows are padded on the left, so that all get their next token at the same position.
    """

    logits: torch.Tensor

    def __init__(
        self, model: LoadedModel, prompts: Sequence[list[int]], owners: torch.Tensor, room: int, width: int = 0
    ) -> None:
        """Prefill the prompts; row i continues the ids of prompt `owners[i]` (int64 [rows]) by at most `room` tokens.

        width: what prompts are padded to, if that is more than the longest.

        Raises UnsupportedKind where the model does not use transformers' cache.
        """
        self._model = model.model
        forward_parameters = inspect.signature(model.model.forward).parameters
        self._takes_positions = "position_ids" in forward_parameters
        self._options = {"use_cache": True, **({"logits_to_keep": 1} if "logits_to_keep" in forward_parameters else {})}
        self._width = max(width, *(len(ids) for ids in prompts))
        pad_counts = torch.tensor([self._width - len(ids) for ids in prompts], device=model.device)[:, None]
        ids = torch.tensor([[0] * (self._width - len(ids)) + ids for ids in prompts], device=model.device)
        places = torch.arange(self._width, device=model.device)
        self._mask = (places >= pad_counts).long()
        self._positions = (places - pad_counts).clamp(min=0) + first_position(model.model.config)
        cache = self._run(ids, None)
        if not isinstance(cache, Cache) or isinstance(cache, EncoderDecoderCache):
            raise UnsupportedKind(f"{model.architecture.class_name} has no cache of a known kind to go on from")
        self._cache = cache
        expand(self._cache, owners, room)
        self.logits = self.logits[owners]
        self._mask = torch.nn.functional.pad(self._mask[owners], (0, room), value=1)
        self._positions = self._positions[owners, -1:]

    def advance(self, tokens: torch.Tensor) -> None:
        """Append `tokens` int64 [rows], and compute the logits of the next ones."""
        self._width += 1
        self._positions = self._positions + 1
        self._run(tokens[:, None], self._cache)

    def keep(self, rows: torch.Tensor) -> None:
        """Drop all rows but `rows` int64 [n]."""
        self._cache.reorder_cache(rows)
        self.logits, self._mask, self._positions = self.logits[rows], self._mask[rows], self._positions[rows]

    def _run(self, ids: torch.Tensor, cache: Cache | None) -> object:
        positions = {"position_ids": self._positions} if self._takes_positions else {}
        output = self._model(
            input_ids=ids,
            attention_mask=self._mask[:, : self._width],
            past_key_values=cache,
            **positions,
            **self._options,
        )
        self.logits = output.logits[:, -1]
        return getattr(output, "past_key_values", None)


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A DynamicLayer with room for more tokens, which it writes in place instead of copying all earlier ones."""

    def __init__(self, layer: DynamicLayer, rows: torch.Tensor, room: int) -> None:
        """Copy `rows` [n] of `layer`, repeats included, with room for `room` more tokens."""
        super().__init__()
        self.dtype, self.device, self.is_initialized = layer.dtype, layer.device, True
        self._room = room
        self._keys, self.keys = _roomy(layer.keys, rows, room)
        self._values, self.values = _roomy(layer.values, rows, room)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens, and return the states of all tokens."""
        have = self.keys.shape[-2]
        self.keys, self.values = (whole[:, :, : have + key_states.shape[-2]] for whole in (self._keys, self._values))
        self.keys[:, :, have:] = key_states
        self.values[:, :, have:] = value_states
        self._room -= key_states.shape[-2]
        return self.keys, self.values

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Keep the rows `beam_idx` [n] only."""
        self._keys, self.keys = _roomy(self.keys, beam_idx, self._room)
        self._values, self.values = _roomy(self.values, beam_idx, self._room)


def _roomy(states: torch.Tensor, rows: torch.Tensor, room: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy `rows` of `states` [rows, heads, tokens, size] with room for more; return the whole and its part in use."""
    _, heads, tokens, size = states.shape
    whole = states.new_empty(len(rows), heads, tokens + room, size)
    used = whole[:, :, :tokens]
    torch.index_select(states, 0, rows.to(states.device), out=used)  # a spread model has them on several devices
    return whole, used


def expand(cache: Cache, rows: torch.Tensor, room: int) -> None:
    """Turn a cache of prompts into one of continuations: row i becomes that of prompt `rows[i]`, with room to grow.

    Layers that do not simply grow (sliding windows, recurrent states) keep their type and repeat their rows.
    """
    for number, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer and layer.is_initialized:
            cache.layers[number] = RoomyLayer(layer, rows, room)
        else:
            layer.reorder_cache(rows)
