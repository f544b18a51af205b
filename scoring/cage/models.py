"""Models in a cage: described, opened, and asked for likelihoods and continuations."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scoring.artefacts import SCHEMAS
from scoring.cage.limits import LOOK_UP, CageBroken, CageDied, CageLimits, CageOutOfMemory, CageTimeout
from scoring.cage.schemas import CONTINUATIONS, LIKELIHOODS, READINGS, TEXTS, TOKENS, passages_table
from scoring.cage.supervisor import Cage, WorkRefused, open_cage
from scoring.generation import ChatSettings, GenerationSettings, UnsupportedKind
from scoring.generation.answers import OPENING
from scoring.generation.messages import SYSTEM_ROLES
from scoring.language_models import Architecture, FailedSelfTest, ModelRefused, Precision
from scoring.language_models.description import Describe, Description
from scoring.language_models.tokenizer_report import TEXT_ENDS, TokenizerReading
from scoring.likelihood import LikelihoodSettings, NotApplicable, Passage, Unscorable
from scoring.self_test_result import SelfTest

Progress = Callable[[int], None]

# What a cage may say went wrong, by name; anything else becomes `WorkRefused`.
ERRORS: dict[str, type[Exception]] = {
    error.__name__: error for error in (ModelRefused, FailedSelfTest, NotApplicable, UnsupportedKind)
}
DEVICE_IS_FULL = "OutOfMemoryError"  # as torch names it where others use the device too
# At these a library reads what the submitter wrote: a death there is for the submitter to repair.
READING = (
    "reading the configuration",
    "loading the model",
    "trying the tokenizer",
    "reading the texts with the tokenizer",
    "rendering the chat template",
)
FORMAT = re.compile(r"[A-Za-z0-9 ._+-]{0,40}", re.ASCII)
FINISHES = {"stop", "length"}


@contextmanager
def open_reader(paths: Iterable[Path], limits: CageLimits = LOOK_UP, *, strict: bool = False) -> Iterator[Describe]:
    """`scoring.language_models.description.describe` in a cage, for the models at these paths, for the block.

    It raises ModelRefused, and CageError.
    """
    with open_cage(limits, [file for path in paths for file in files_of(path)], strict=strict) as cage:

        def describe(path: Path, name: str, files: list[str]) -> Description:
            try:
                with _translate_errors(name):
                    values = cage.ask("describe", {"path": str(path), "name": name, "files": files}).values
            except (CageOutOfMemory, MemoryError, WorkRefused) as error:
                kind = error.kind if isinstance(error, WorkRefused) else MemoryError.__name__
                raise ModelRefused(
                    f"{name} has a configuration that cannot be read ({kind}): look for sizes in config.json that no "
                    "model of its kind has"
                ) from error
            weights = _names(values.get("weights"), files)
            template = _hash_or_none(values.get("chat_template"))
            licence = str(values.get("licence", ""))[:200]
            return Description(_architecture(values), licence, weights, template, _format(values))

        yield describe


class CagedModel:
    """A model that was opened in a cage. `architecture` and `device` are what it says of itself.

    `files`: the names of those that it was loaded from.
    """

    def __init__(self, cage: Cage, path: Path, name: str, values: dict[str, Any]) -> None:
        self._cage, self._name = cage, name
        present = [file.name for file in path.iterdir() if file.is_file()] if path.is_dir() else [path.name]
        self.files = _names(values.get("files"), present)
        self.architecture = _architecture(values)
        self.device = str(values.get("device", ""))[:40]

    def resume(self, limits: CageLimits, check: Callable[[], None]) -> None:
        """Go on with other work within these limits, which `check` may end: see `Cage.resume`."""
        self._cage.resume(limits, check)

    def self_test(self) -> SelfTest:
        """The self-test, which the model passes now. Raises ModelRefused, CageError."""
        with _translate_errors(self._name):
            values = self._cage.ask("self test", {}).values
        return _whole_self_test(values)

    def special_tokens(self, settings: LikelihoodSettings) -> str:
        """What stands around a text, as in "[CLS] text [SEP]". Raises NotApplicable."""
        with _translate_errors(self._name):
            answer = self._cage.ask("special tokens", {"settings": asdict(settings)})
        return str(answer.values.get("shown", ""))[:1000]

    def read_texts(self, texts: list[str]) -> TokenizerReading:
        """What its tokenizer makes of texts. Raises ModelRefused, CageError."""
        table = pa.table({"text": pa.array(texts, pa.string())}, schema=TEXTS)
        with _translate_errors(self._name):
            answer = self._cage.ask("read texts", {}, table, READINGS)
        pieces, ordinary = answer.values.get("pieces"), _names(answer.values.get("ordinary"), TEXT_ENDS)
        is_changed = answer.rows["changed"].to_numpy()
        rates = answer.rows["rate"].to_numpy()
        whole = is_changed.dtype == bool and len(is_changed) == len(texts) and bool(np.isfinite(rates).all())
        if not whole or type(pieces) is not int or not 0 <= pieces < 2**31:
            raise CageBroken("a reading of other texts, or without numbers", self._cage.stage)
        return TokenizerReading(is_changed, rates, pieces, ordinary)

    def likelihoods(
        self,
        ids: Sequence[str],
        texts: Sequence[str | Passage],
        settings: LikelihoodSettings,
        progress: Progress = lambda _count: None,
    ) -> pa.Table:
        """Rows of the `likelihoods` schema, for these texts or passages. `progress` gets the texts finished so far.

        Raises ModelRefused, NotApplicable, CageError.
        """
        arguments = {"settings": asdict(settings)}
        with _translate_errors(self._name):
            answer = self._cage.ask("likelihoods", arguments, passages_table(texts), LIKELIHOODS, progress)
        table = answer.rows
        reasons = set(table["unscorable"].unique().to_pylist()) - {None, *Unscorable}
        if table.num_rows != len(ids) or reasons:
            raise CageBroken("likelihoods of other texts, or with reasons that are none", self._cage.stage)
        return table.add_column(0, "id", pa.array(ids, pa.string())).cast(SCHEMAS["likelihoods"])

    def token_ids(self, texts: list[str], settings: LikelihoodSettings) -> pa.Array:
        """The ids of the tokens of each text, a list each, without special tokens. Raises ModelRefused, CageError."""
        table = pa.table({"text": pa.array(texts, pa.string())}, schema=TEXTS)
        with _translate_errors(self._name):
            answer = self._cage.ask("token ids", {"settings": asdict(settings)}, table, TOKENS)
        tokens = answer.rows["tokens"].combine_chunks()
        ids = tokens.flatten()
        if len(tokens) != len(texts) or tokens.null_count or ids.null_count or pc.any(pc.less(ids, 0)).as_py():
            raise CageBroken("tokens of other texts, or that are none", self._cage.stage)
        return tokens

    def chat_format(self, settings: ChatSettings) -> dict[str, str]:
        """The sha256 of its chat template, where the system prompt stands in it, and what it begins of an answer.

        Raises ModelRefused, CageError.
        """
        with _translate_errors(self._name):
            values = self._cage.ask("chat format", {"settings": asdict(settings)}).values
        template, role, opening = (values.get(name) for name in ("template", "system_role", "opening"))
        if role not in SYSTEM_ROLES or opening not in ("", OPENING):
            raise CageBroken("a chat that begins in no known way", self._cage.stage)
        return {"template": _hash_or_none(template), "system_role": str(role), "opening": str(opening)}

    def continuations(
        self, prompts: pa.Table, settings: GenerationSettings, log_perplexities: bool, progress: Progress
    ) -> pa.Table:
        """Rows of the `continuations` schema: k of each prompt (columns id, text), in their order.

        `log_perplexities`: those of prompt and continuation too. Raises ModelRefused, UnsupportedKind, CageError.
        """
        arguments = {"settings": asdict(settings), "log_perplexities": log_perplexities}
        with _translate_errors(self._name):
            table = self._cage.ask(
                "continuations", arguments, prompts.select(["id", "text"]), CONTINUATIONS, progress
            ).rows
        if table.num_rows != prompts.num_rows * settings.k:
            raise CageBroken("continuations of other prompts", self._cage.stage)
        if set(table["finish"].unique().to_pylist()) - {None, *FINISHES}:
            raise CageBroken("continuations that ended in no known way", self._cage.stage)
        ids = [id_ for id_ in prompts["id"].to_pylist() for _ in range(settings.k)]
        indexes = pa.array(list(range(settings.k)) * prompts.num_rows, pa.int32())
        table_with_ids = table.append_column("prompt_id", pa.array(ids, pa.string())).append_column("index", indexes)
        return table_with_ids.select(SCHEMAS["continuations"].names).cast(SCHEMAS["continuations"])


@contextmanager
def open_model(
    path: Path,
    name: str,
    precision: Precision,
    limits: CageLimits,
    *,
    check: Callable[[], None] = lambda: None,
    strict: bool = False,
    cuda: bool = False,
) -> Iterator[CagedModel]:
    """The model in a folder or a GGUF file, in a cage for the block. `check` is called several times a second.

    Raises ModelRefused, CageError, and what `check` raises.
    """
    with open_cage(limits, files_of(path), check=check, strict=strict, cuda=cuda) as cage:
        with _translate_errors(name):
            answer = cage.ask("open", {"path": str(path), "name": name, "precision": precision})
        yield CagedModel(cage, path, name, answer.values)


def files_of(path: Path) -> Iterable[Path]:
    """What has to be readable: a folder of a hub's cache holds links to files that lie elsewhere."""
    if not path.is_dir():
        return [path.resolve()]
    return [path, *(file.resolve() for file in path.iterdir() if file.is_symlink())]


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """What goes wrong in a cage, as the error that it would be outside of one."""
    try:
        yield
    except WorkRefused as refused:
        _raise(name, refused)
    except (CageDied, CageOutOfMemory, CageTimeout) as error:
        if error.stage not in READING:
            raise
        raise ModelRefused(
            f"{name} ended the process that was {error.stage}: {error}. Its files ask for more than a model of its "
            "kind needs: look for what makes texts longer in tokenizer.json (normalizers that replace), and for sizes "
            "in config.json"
        ) from error


def _raise(name: str, refusal: WorkRefused) -> NoReturn:
    if refusal.kind == "PanicException":
        raise ModelRefused(
            f"{name} makes a library panic ({refusal.message[:160]}): save its tokenizer and weights again with "
            "transformers"
        ) from refusal
    if refusal.kind == MemoryError.__name__:  # its own limit: no fault of this host
        raise CageOutOfMemory("it asked for more memory than it may take") from refusal
    if refusal.kind == DEVICE_IS_FULL:
        raise MemoryError(refusal.message) from refusal
    if refusal.kind in ERRORS:
        raise ERRORS[refusal.kind](refusal.message) from refusal
    raise refusal


def _names(names: object, known_names: Iterable[str]) -> tuple[str, ...]:
    """Some of `known_names`. Raises CageBroken for anything else."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or set(names) - set(known_names):
        raise CageBroken("names of what there is not")
    return tuple(sorted(set(names)))


def _hash_or_none(value: object) -> str:
    """A sha256 in hex, or "". Raises CageBroken for anything else."""
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}|", value):
        raise CageBroken("a hash that is none")
    return value


def _format(values: dict[str, Any]) -> str:
    """What it calls the format of weights. Raises CageBroken for anything that is no such name."""
    name = values.get("weight_format")
    if not isinstance(name, str) or not FORMAT.fullmatch(name):
        raise CageBroken("a format of weights that is none")
    return name


def _architecture(values: dict[str, Any]) -> Architecture:
    """As a cage describes it. Raises CageBroken for anything that is no architecture."""
    row = values.get("architecture")
    fields = Architecture.__dataclass_fields__
    if not isinstance(row, dict) or set(row) != set(fields):
        raise CageBroken("an architecture without its fields")
    for name, value in row.items():
        texts = name in ("kind", "model_type", "class_name", "family")
        valid = isinstance(value, str) and len(value) < 200 if texts else type(value) is int and 0 <= value < 2**53
        if not valid:
            raise CageBroken(f"an architecture whose {name} is none")
    return Architecture(**row)


def _whole_self_test(values: dict[str, Any]) -> SelfTest:
    """As a cage reports it. Raises CageBroken for anything that is no report of a passed test."""
    fields = SelfTest.__dataclass_fields__
    if set(values) != set(fields):
        raise CageBroken("a self-test without its fields")
    for name, value in values.items():
        if name == "precision":
            valid = isinstance(value, str) and len(value) < 40
        else:
            valid = type(value) in (int, float) and 0 <= value < 2**53
        if not valid:
            raise CageBroken(f"a self-test whose {name} is none")
    return SelfTest(**values)
