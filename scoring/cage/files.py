"""Files that people sent, read in a cage: outputs of their models, and the logs of tools."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from scoring.artefacts import SCHEMAS
from scoring.cage import limits as cage_limits
from scoring.cage.limits import CageBroken
from scoring.cage.schemas import PROMPTS
from scoring.cage.supervisor import Cage, WorkRefused, open_cage
from scoring.contributed.cells import Text
from scoring.contributed.limits import Limits
from scoring.contributed.report import ContributionRefused, Flaw, Matched, Problem, Report
from scoring.contributed.tools.provenance import Decoding, LogProvenance, ToolOutput

Progress = Callable[[int], None]  # bytes of the file read so far


class FileReader:
    """Reads one file, as the functions of `scoring.contributed` of the same names do, and raises what they do."""

    def __init__(self, cage: Cage, path: Path, progress: Progress) -> None:
        self._cage, self._path, self._progress = cage, path, progress

    def read_generations(self, name: str, prompts: Sequence[Text], k: int, limits: Limits) -> pa.Table:
        """Rows of the `continuations` schema. Raises ContributionRefused, CageError."""
        return self._ask("read generations", "continuations", prompts, name=name, k=k, limits=asdict(limits))[1]

    def read_likelihoods(self, name: str, sentences: Sequence[Text], limits: Limits) -> pa.Table:
        """Rows of the `likelihoods` schema. Raises ContributionRefused, CageError."""
        return self._ask("read likelihoods", "likelihoods", sentences, name=name, limits=asdict(limits))[1]

    def read_log(
        self,
        name: str,
        prompts: Sequence[Text],
        k: int,
        limits: Limits,
        *,
        leave_out_others: bool = False,
        results: dict[str, Any] | None = None,
    ) -> ToolOutput:
        """The log of a tool; `results`: what `read_results` gave. Raises ContributionRefused, CageError."""
        values, table = self._ask(
            "read log",
            "continuations",
            prompts,
            name=name,
            k=k,
            limits=asdict(limits),
            leave_out_others=leave_out_others,
            results=results,
        )
        try:
            provenance, decoding = values["provenance"], values["provenance"].pop("decoding")
            decoding["stop"] = tuple(decoding["stop"])
            return ToolOutput(
                table, LogProvenance(**provenance, decoding=Decoding(**decoding)), Matched(**values["matched"])
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise CageBroken("a log that says nothing of where it comes from") from error

    def read_results(self) -> dict[str, Any]:
        """What a results_*.json says of its run. Raises ContributionRefused, CageError."""
        with _translate_errors():
            return self._cage.ask("read results", {"path": str(self._path)}).values

    def _ask(self, verb: str, kind: str, texts: Sequence[Text], **arguments: Any) -> tuple[dict[str, Any], pa.Table]:
        ids, contents = [text.id for text in texts], [text.text for text in texts]
        table = pa.table({"id": ids, "text": contents}, schema=PROMPTS)
        with _translate_errors():
            answer = self._cage.ask(verb, {"path": str(self._path), **arguments}, table, SCHEMAS[kind], self._progress)
        return answer.values, answer.rows


@contextmanager
def open_file(
    path: Path,
    limits: cage_limits.CageLimits,
    progress: Progress = lambda _bytes: None,
    *,
    check: Callable[[], None] = lambda: None,
    strict: bool = False,
) -> Iterator[FileReader]:
    """A cage in which the file at `path` can be read, for the block. `check` is called several times a second."""
    with open_cage(limits, [path], check=check, strict=strict) as cage:
        yield FileReader(cage, path, progress)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """What is wrong with a file, as the error that it would be outside of a cage."""
    try:
        yield
    except WorkRefused as refused:
        if refused.kind != ContributionRefused.__name__:
            raise
        raise ContributionRefused(_report(refused.about)) from refused


def _report(detail: dict[str, Any]) -> Report:
    """From the JSON of `Report.as_dict`. Raises CageBroken where it is none."""
    try:
        row = detail["report"]
        counts = {Flaw(kind): int(count) for kind, count in row["counts"].items()}
        problems = tuple(Problem(**{**problem, "kind": Flaw(problem["kind"])}) for problem in row["problems"])
        match_counts = Matched(**row["matched"]) if row["matched"] else None
        return Report(int(row["rows"]), bool(row["complete"]), counts, problems, match_counts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CageBroken("a report that says nothing") from error
