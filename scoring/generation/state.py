"""A batch between two steps of decoding: each prompt is prefilled once, and its continuations go on from copies."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache

from scoring.generation.protocols import UnsupportedKind
from scoring.language_models import LoadedModel
from scoring.language_models.architecture import first_position


class State:
    """The keys and values of a batch, and `logits` [rows, vocabulary] of the token to come.

    Rows are padded on the left, so that all get their next token at the same place.
    """

    logits: torch.Tensor

    def __init__(self, loaded: LoadedModel, prompts: Sequence[list[int]], owners: torch.Tensor, room: int) -> None:
        """Row i continues the ids of prompt `owners[i]` (int64 [rows]), by at most `room` more tokens.

        Raises UnsupportedKind where the model keeps something other than transformers' cache.
        """
        self._model = loaded.model
        taken = inspect.signature(loaded.model.forward).parameters
        self._takes_positions = "position_ids" in taken
        self._options = {"use_cache": True, **({"logits_to_keep": 1} if "logits_to_keep" in taken else {})}
        self._width = max(len(ids) for ids in prompts)
        missing = torch.tensor([self._width - len(ids) for ids in prompts], device=loaded.device)[:, None]
        ids = torch.tensor([[0] * (self._width - len(ids)) + ids for ids in prompts], device=loaded.device)
        places = torch.arange(self._width, device=loaded.device)
        self._mask = (places >= missing).long()
        self._positions = (places - missing).clamp(min=0) + first_position(loaded.model.config)
        cache = self._run(ids, None)
        if not isinstance(cache, Cache) or isinstance(cache, EncoderDecoderCache):
            raise UnsupportedKind(f"{loaded.architecture.class_name} has no cache of a known kind to go on from")
        self._cache = cache
        expand(self._cache, owners, room)
        self.logits = self.logits[owners]
        self._mask = torch.nn.functional.pad(self._mask[owners], (0, room), value=1)
        self._positions = self._positions[owners, -1:]

    def advance(self, tokens: torch.Tensor) -> None:
        """Append `tokens` int64 [rows], and make the logits of those to follow."""
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
    """A DynamicLayer with room for more tokens: they are written in place, where it would copy all that came before."""

    def __init__(self, layer: DynamicLayer, rows: torch.Tensor, room: int) -> None:
        """Take `rows` [n] of `layer` (one may come again and again), and make room for `room` more tokens."""
        super().__init__()
        self.dtype, self.device, self.is_initialized = layer.dtype, layer.device, True
        self._room = room
        self._keys, self.keys = _roomy(layer.keys, rows, room)
        self._values, self.values = _roomy(layer.values, rows, room)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_options: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states of new tokens; return all there are."""
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
    """A tensor of `rows` of `states` [rows, heads, tokens, size] with room for more tokens, and its part in use."""
    _, heads, tokens, size = states.shape
    whole = states.new_empty(len(rows), heads, tokens + room, size)
    used = whole[:, :, :tokens]
    torch.index_select(states, 0, rows, out=used)
    return whole, used


def expand(cache: Cache, rows: torch.Tensor, room: int) -> None:
    """Make a cache of prompts into one of continuations: row i becomes that of prompt `rows[i]`, with room to grow.

    Layers that do not simply grow (sliding windows, recurrent states) stay as they are and repeat their rows.
    """
    for number, layer in enumerate(cache.layers):
        if type(layer) is DynamicLayer and layer.is_initialized:
            cache.layers[number] = RoomyLayer(layer, rows, room)
        else:
            layer.reorder_cache(rows)
