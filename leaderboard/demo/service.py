"""A language model behind a URL that is replaced while the URL and its name stay the same, as such services are."""

import hashlib
from typing import Any

WORDS = (
    "the",
    "a",
    "house",
    "street",
    "work",
    "office",
    "family",
    "people",
    "morning",
    "and",
    "of",
    "went",
    "saw",
    "new",
)
NEW_WORDS = (*WORDS[:-2], "job", "found")  # of the model that takes its place
MOST_WORDS = 8


class ReplacedService:
    """Speaks OpenAI's completions. What it writes depends on prompt, seed and temperature, until it is replaced."""

    def __init__(self) -> None:
        self.address = ""
        self._words = WORDS

    def replace(self) -> None:
        """Put another model in its place, and tell nobody."""
        self._words = NEW_WORDS

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request for continuations."""
        choices = [
            {"index": index, "text": self._write(request, index), "finish_reason": "length"}
            for index in range(request["n"])
        ]
        return {"object": "text_completion", "model": request["model"], "choices": choices}

    def _write(self, request: dict[str, Any], index: int) -> str:
        draw = f"{request['seed']}-{index}" if request["temperature"] else "likeliest"
        digest = hashlib.sha256(f"{request['prompt']}|{draw}".encode()).digest()
        count = min(MOST_WORDS, request["max_tokens"])
        return "".join(f" {self._words[byte % len(self._words)]}" for byte in digest[:count])
