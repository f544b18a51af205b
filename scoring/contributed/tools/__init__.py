"""Continuations from the logs of tools that people already use. Their scores are not taken: the texts are scored here.

from scoring.contributed.tools import differences, read_log

found = read_log(file, "samples_realtoxicityprompts_2026-01-01T00-00-00.jsonl", prompts, k=25)
differences(found, PROTOCOLS["rtp"])
"""

import io
import re
from collections.abc import Callable, Sequence
from typing import BinaryIO

from scoring.contributed import stream
from scoring.contributed.cells import Text
from scoring.contributed.limits import Limits
from scoring.contributed.report import Flaw, Problems
from scoring.contributed.tools.archives import Archive
from scoring.contributed.tools.harness import read_samples, results_of
from scoring.contributed.tools.helm import read_scenario_state
from scoring.contributed.tools.inspect_logs import HEADERS, read_eval_log
from scoring.contributed.tools.provenance import Decoding, LogProvenance, ToolOutput, differences

__all__ = ["Decoding", "LogProvenance", "ToolOutput", "differences", "read_log", "results_of"]

_SAMPLES, _RESULTS = re.compile(r"(^|/)samples_[^/]*\.jsonl$"), re.compile(r"(^|/)results_[^/]*\.json$")
_FIRST_NAME = re.compile(r'\s*\{\s*"([^"\\]*)"')
_READERS: dict[str, Callable[..., ToolOutput]] = {  # by the first name in the file
    "doc_id": read_samples,
    "arguments": read_samples,
    "adapter_spec": read_scenario_state,
    "version": read_eval_log,
    "status": read_eval_log,
    "eval": read_eval_log,
}
_OTHER_FILES = {  # that people send in their place
    "results": "send samples_*.jsonl, which lm-evaluation-harness writes with --log_samples, not results_*.json",
    "name": "send scenario_state.json, not another file of the run",
}
_SEND = "send samples_*.jsonl of lm-evaluation-harness, scenario_state.json of HELM, or a log of Inspect"


def read_log(
    file: BinaryIO,
    name: str,
    prompts: Sequence[Text],
    k: int,
    limits: Limits | None = None,
    *,
    leave_out_others: bool = False,
    results: BinaryIO | None = None,
) -> ToolOutput:
    """The k continuations of each prompt in a seekable file, whose tool and format are recognised by what is in it.

    The log's prompts are matched to ours by their text, exactly or but for whitespace. `leave_out_others`: whether it
    may have other prompts too. `results`: the results_*.json that lm-evaluation-harness writes beside its samples;
    it names model and version; both may be sent as one zip file. All or nothing: raises ContributionRefused, whose
    report counts what is wrong.
    """
    problems = Problems(limits or Limits(), unit="record")
    zip_content = _samples_in_zip(file, problems)
    if zip_content:
        samples, samples_name, results_in_zip = zip_content
        results_in_zip = results_in_zip or results
        return read_samples(
            samples, samples_name, prompts, k, problems, leave_out_others=leave_out_others, results=results_in_zip
        )
    reader = _reader(file, name, problems)
    options = {"results": results} if reader is read_samples else {}
    return reader(file, name, prompts, k, problems, leave_out_others=leave_out_others, **options)


def _samples_in_zip(file: BinaryIO, problems: Problems) -> tuple[BinaryIO, str, BinaryIO | None] | None:
    """The samples in a zip file, their name, and the results; None where it is no zip file, or Inspect's."""
    file.seek(0)
    if file.read(4) != b"PK\x03\x04":
        return None
    archive = Archive(file, problems)
    if any(header in archive for header in HEADERS):
        return None
    sample_names = [name for name in archive if _SAMPLES.search(name)]
    if len(sample_names) != 1:
        number = (
            f"{len(sample_names)} files samples_*.jsonl in the zip file" if sample_names else "a zip file of no tool"
        )
        problems.stop(Flaw.FORMAT, None, None, number, "put one samples_*.jsonl into it, or send an Inspect log")
    results = next((io.BytesIO(archive.read(name)) for name in archive if _RESULTS.search(name)), None)
    return archive.open(sample_names[0]), sample_names[0], results


def _reader(file: BinaryIO, name: str, problems: Problems) -> Callable[..., ToolOutput]:
    file.seek(0)
    if file.read(4) == b"PK\x03\x04":
        return read_eval_log
    head = next(stream.characters(stream.pieces(file, name.endswith(".gz"), problems), problems), "")
    first_name = _FIRST_NAME.match(head)
    if first_name and first_name[1] in _READERS:
        return _READERS[first_name[1]]
    remedy = _OTHER_FILES.get(first_name[1], _SEND) if first_name else _SEND
    problems.stop(Flaw.FORMAT, None, None, "a log of no tool that is known here", remedy)
