"""What local classifiers share: a model and its tokenizer, run over texts in batches of like lengths."""

import hashlib
import json
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.data.data_collator import pad_without_fast_tokenizer_warning

from scoring.artefacts import sha256
from scoring.attributes import Attribute
from scoring.language_models.architecture import context_of
from scoring.likelihood.batches import token_budget_batches
from scoring.scorers.base import Progress, Scorer, Scores, fingerprint_of
from scoring.scorers.precision import Precision, convert, require_fast_precision
from scoring.work_sizes import sizes_for

LIBRARIES = ("torch", "transformers", "tokenizers")
NO_TOKENS = "no tokens"  # as an empty text has none where the tokenizer adds nothing
# Encoders of the layout .encoder.layer[-1].attention.output whose heads read nothing but the first token.
_FIRST_TOKEN_DECIDES = {"bert", "camembert", "electra", "roberta", "xlm-roberta"}
# Where files lay and which version wrote them changes no score.
_IRRELEVANT_SETTINGS = {"_name_or_path", "name_or_path", "transformers_version"}


class Activation(StrEnum):
    """From a model's outputs to scores: each label for itself, or shares that sum to 1."""

    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"


class EncoderScorer(Scorer):
    """A sequence classifier of transformers as a scorer.

    A text longer than the model can read is cut at its end, as the model's own tokenizer cuts it, and counted as
    truncated. The model has as many outputs as attributes, or more, of which the first are used. It belongs to the
    scorer from now on.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        attributes: tuple[Attribute, ...],
        activation: Activation,
        *,
        precision: str = Precision.FLOAT32,
        device: torch.device | None = None,
        libraries: tuple[str, ...] = LIBRARIES,
    ) -> None:
        """Raises ValueError for an unknown precision, or one that `device` does not have; ScorerUnavailable where
        this host is slow in it."""
        if precision not in list(Precision):
            raise ValueError(f"precision = {precision!r}: use one of {', '.join(Precision)}")
        self.attributes = attributes
        self.activation = activation
        self.precision = Precision(precision)
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.longest = min(tokenizer.model_max_length, context_of(model.config))
        self._tokenizer = tokenizer
        self._fingerprint = fingerprint_of(
            scorer="encoder",
            weights=_weights_digest(model),
            config=_settings(model.config.to_dict()),
            tokenizer=_tokenizer_digests(tokenizer),
            attributes=self.attribute_names,
            activation=activation,
            precision=self.precision,
            longest=self.longest,
            truncation="end",
            device=self.device.type,
            libraries={name: version(name) for name in libraries},
        )
        require_fast_precision(self.precision)
        self._model = model.eval().to(self.device)
        if model.config.model_type in _FIRST_TOKEN_DECIDES:
            # What the last layer makes of the other tokens is never read: a sixteenth of all work.
            last = model.base_model.encoder.layer[-1].attention.output
            last.register_forward_pre_hook(lambda _module, arguments: tuple(tensor[:, :1] for tensor in arguments))
        self._sizes = sizes_for(self.device)
        # 0: each text is a batch of its own.
        self._budget = self._sizes.classifier_tokens if self._padding_is_harmless() else 0
        convert(self._model, self.precision, self.device)

    def fingerprint(self) -> str:
        """Covers weights, configuration, tokenizer, precision, truncation, kind of device and library versions."""
        return self._fingerprint

    @torch.inference_mode()
    def _score_distinct(self, texts: list[str], progress: Progress) -> Scores:
        encoding = self._tokenizer(texts, truncation=True, max_length=self.longest, verbose=False)
        lengths = [len(ids) for ids in encoding["input_ids"]]
        values = np.full((len(texts), len(self.attributes)), np.nan, dtype=np.float32)
        scorable = np.flatnonzero(lengths).tolist()
        count = len(texts) - len(scorable)
        scorable_lengths = [lengths[index] for index in scorable]
        for members in token_budget_batches(scorable_lengths, self._budget, self._sizes.call_cost):
            batch = [scorable[member] for member in members]
            rows = {name: [column[index] for index in batch] for name, column in encoding.items()}
            values[batch] = self._batch(rows)
            count += len(batch)
            progress(count)
        reasons = tuple(None if length else NO_TOKENS for length in lengths)
        return Scores(values, reasons, self._find_truncated(texts, lengths))

    def _batch(self, rows: dict[str, list[list[int]]]) -> np.ndarray:
        """Scores of a batch, float32 [n_texts, n_attributes]."""
        logits = self._logits(rows)
        scores = logits.sigmoid() if self.activation is Activation.SIGMOID else logits.softmax(dim=-1)
        values: np.ndarray = scores[:, : len(self.attributes)].cpu().numpy()
        return values

    def _logits(self, rows: dict[str, list[list[int]]]) -> torch.Tensor:
        """Outputs for a batch, float32 [n_texts, n_outputs]."""
        if len(rows["input_ids"]) == 1:
            inputs = {name: torch.tensor(column) for name, column in rows.items()}
        else:
            inputs = pad_without_fast_tokenizer_warning(self._tokenizer, rows, return_tensors="pt")
        logits: torch.Tensor = self._model(**{name: tensor.to(self.device) for name, tensor in inputs.items()}).logits
        return logits.float()

    @torch.inference_mode()
    def _padding_is_harmless(self) -> bool:
        """Whether a text gets the same outputs beside a longer one as alone.

        Not so where a model has no mask (FNet), or looks for the last token on the side that the tokenizer pads
        (XLNet), or by another padding token.
        """
        if self._tokenizer.pad_token_id is None or self._model.config.pad_token_id is None:
            return False
        alone, together = dict(self._tokenizer(["a"])), dict(self._tokenizer(["a", "a a a a"]))
        return torch.allclose(self._logits(together)[:1], self._logits(alone), rtol=1e-4, atol=1e-4)

    def _find_truncated(self, texts: list[str], lengths: list[int]) -> np.ndarray:
        """Which texts were cut, bool [n_texts]: of those that fill the model, those that are longer."""
        is_truncated = np.zeros(len(texts), dtype=bool)
        for index in np.flatnonzero(np.array(lengths) >= self.longest).tolist():
            is_truncated[index] = len(self._tokenizer(texts[index], verbose=False)["input_ids"]) > self.longest
        return is_truncated


def _weights_digest(model: PreTrainedModel) -> str:
    """One hash over names, types, shapes and bytes of all parameters and buffers that are saved with the model."""
    content = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return content.hexdigest()


def _tokenizer_digests(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The files that the tokenizer saves: their hashes, or their settings where files hold settings."""
    with TemporaryDirectory(prefix="plumbline-") as folder:
        tokenizer.save_pretrained(folder)
        return {
            path.name: _settings(json.loads(path.read_text(encoding="utf-8")))
            if path.name == "tokenizer_config.json"
            else sha256(path)
            for path in Path(folder).iterdir()
        }


def _settings(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in _IRRELEVANT_SETTINGS}
