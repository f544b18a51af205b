"""Where cages come from that read any tokenizer: for tests of what a cage does with one that no review would let in."""

from scoring.cage import zygote
from scoring.language_models import loading, package


def accept_tokenizer(*_: object) -> None:
    """Review nothing."""


if __name__ == "__main__":
    loading.check_tokenizer = package.check_tokenizer_json = package.check_tokenizer_config = accept_tokenizer
    zygote.main()
