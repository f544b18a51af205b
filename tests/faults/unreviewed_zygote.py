"""Where cages come from that read any tokenizer: for tests of what a cage does with one that no review would let in.

Models that are called "endless", "large" and "broken" are described as no library should.
"""

import time
from pathlib import Path

import scoring.cage.model_work
from scoring.cage import zygote
from scoring.language_models import loading, package


def accept_tokenizer(*_: object) -> None:
    """Review nothing."""


def describe(_path: Path, name: str, _files: list[str]) -> None:
    """Take too long, too much memory, or fail in an unforeseen way."""
    kept = []
    while name == "large":
        kept.append(bytearray(2**20))
    while name == "endless":
        time.sleep(1)
    raise KeyError("an error of a library")


if __name__ == "__main__":
    loading.check_tokenizer = package.check_tokenizer_json = package.check_tokenizer_config = accept_tokenizer
    scoring.cage.model_work.describe = describe
    zygote.main()
