"""A server with the real answers of a bundled miniature, as vLLM gives them and by `echo`, with faults on demand."""

from collections import Counter
from functools import cache
from typing import Any

import torch

from scoring.language_models import BUNDLED, LoadedModel, load_files
from tests.scoring.completions_server import Answer, CompletionsStage, as_json

MODEL = "plumb-gpt2-l2-h128"
VLLM, ECHO = "prompt_logprobs", "echo"


@cache
def miniature(name: str = MODEL) -> LoadedModel:
    """A bundled model, loaded once."""
    return load_files(BUNDLED / name, name)


class ModelServer:
    """Answers of a miniature. form: how it gives likelihoods, "" for not at all. leads: it puts EOS before texts;
    obeys: where it is asked to add special tokens.

    Faults: digits, to which values are rounded; wrong_tokenizer, a token a character; shifted, each value that of the
    token before; without_first, the first token is left out; cut, all but so many of the last tokens are dropped.
    `fingerprints` are those of its next answers, the last for ever.
    """

    def __init__(self, form: str = VLLM, name: str = MODEL) -> None:
        self.form, self.name = form, name
        self.leads = self.obeys = self.wrong_tokenizer = self.shifted = self.without_first = False
        self.digits: int | None = None
        self.cut: int | None = None
        self.longest = 10_000
        self.fingerprints: list[str] = []
        self.changed_texts: set[str] = set()
        self.flickering_texts: set[str] = set()
        self.askings: Counter[str] = Counter()  # of each text

    def respond(self, request: dict[str, Any]) -> Answer:
        """The answer to a request for completions."""
        ids = self.encode(
            request["prompt"], leads=self.leads or (self.obeys and request.get("add_special_tokens", True))
        )
        if len(ids) > self.longest:
            return as_json({"error": {"message": "maximum context length"}}, 400)
        if request.get("prompt_logprobs") is not None and self.form == VLLM:
            choice = {"prompt_logprobs": self.vllm_entries(ids)}
        elif request.get("echo") and self.form == ECHO:
            choice = {"logprobs": self.echoed(ids)}
        else:
            choice = {}
        text = self.continuation(request["prompt"], ids, request["max_tokens"])
        choices = [{"index": n, "text": text, "finish_reason": "length", **choice} for n in range(request.get("n", 1))]
        fingerprint = self.fingerprints.pop(0) if len(self.fingerprints) > 1 else next(iter(self.fingerprints), None)
        return as_json({"model": request["model"], "system_fingerprint": fingerprint, "choices": choices})

    def encode(self, text: str, *, leads: bool) -> list[int]:
        tokenizer = miniature(self.name).tokenizer
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if self.wrong_tokenizer:
            letters = "".join(tokenizer.convert_ids_to_tokens(ids[1:]))
            ids = [*ids[:1], *tokenizer.convert_tokens_to_ids(list(letters))]
        ids = ids[-self.cut :] if self.cut else ids
        return [tokenizer.eos_token_id, *ids] if leads else ids

    def log_likelihoods(self, ids: list[int]) -> list[float | None]:
        values: list[float | None] = [None, *token_values(self.name, tuple(ids))]
        if self.shifted:
            values = [None, *values[2:], -1.0]
        if self.digits is not None:
            values = [value if value is None else round(value, self.digits) for value in values]
        return values

    def vllm_entries(self, ids: list[int]) -> list[dict[str, Any] | None]:
        decode = miniature(self.name).tokenizer.decode
        rows = zip(ids, self.log_likelihoods(ids), strict=True)
        entries: list[dict[str, Any] | None] = [
            None if value is None else {str(number): {"logprob": value, "rank": 1, "decoded_token": decode([number])}}
            for number, value in rows
        ]
        return entries[1:] if self.without_first else entries

    def echoed(self, ids: list[int]) -> dict[str, Any]:
        decode = miniature(self.name).tokenizer.decode
        tokens, values = [decode([number]) for number in ids] + [" and"], [*self.log_likelihoods(ids), -0.5]
        start = 1 if self.without_first else 0
        return {"tokens": tokens[start:], "token_logprobs": values[start:]}

    def continuation(self, text: str, ids: list[int], most: int) -> str:
        words = greedy(self.name, tuple(ids), min(most, 8))
        self.askings[text] += 1
        is_other = text in self.changed_texts or (text in self.flickering_texts and self.askings[text] % 2)
        return f"{words} indeed" if is_other else words


@cache
def token_values(name: str, ids: tuple[int, ...]) -> tuple[float, ...]:
    """The log-likelihood of each token but the first, by the model's plain forward."""
    with torch.inference_mode():
        logits = miniature(name).model(torch.tensor([ids])).logits[0].float().log_softmax(-1)
    return tuple(logits[place - 1, number].item() for place, number in enumerate(ids) if place)


@cache
def greedy(name: str, ids: tuple[int, ...], most: int) -> str:
    """The likeliest continuation."""
    model = miniature(name)
    with torch.inference_mode():
        output = model.model.generate(torch.tensor([ids]), max_new_tokens=most, do_sample=False, pad_token_id=0)
    return str(model.tokenizer.decode(output[0, len(ids) :], skip_special_tokens=True))


def stand_in(stage: CompletionsStage, server: ModelServer, name: str = "small/one") -> ModelServer:
    """Let a stage answer as `server` does."""
    stage.respond = server.respond
    other = {"id": f"not-{name}", "root": "/models/large", "created": 1}
    stage.places = {"/v1/models": {"data": [other, {"id": name, "root": "/models/small", "created": 1}]}}
    return server
