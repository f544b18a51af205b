"""Logged samples of lm-evaluation-harness: samples_TASK_DATE.jsonl, as `--log_samples` writes them.

A line has `doc` (of RealToxicityPrompts), `arguments` (what the model got, and how to decode) and `resps` (what it
wrote). Model and version stand in results_DATE.json beside it.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

from scoring.contributed import documents, stream
from scoring.contributed.cells import Text
from scoring.contributed.limits import Limits
from scoring.contributed.report import Flaw, Problems
from scoring.contributed.rows import json_object
from scoring.contributed.tools import values
from scoring.contributed.tools.provenance import Decoding, LogProvenance, ToolOutput
from scoring.contributed.tools.taking import LogContinuations, LoggedOutput

TOOL = "lm-evaluation-harness"
_NAME = re.compile(r"samples_(?P<task>.+?)_(?P<date>\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2})")
_LONGEST = 200  # characters of a text that is kept of the file of results
_KEYS = {"doc", "arguments", "resps"}


def read_samples(
    file: BinaryIO,
    name: str,
    prompts: Sequence[Text],
    k: int,
    problems: Problems,
    *,
    leave_out_others: bool = False,
    results: BinaryIO | None = None,
) -> ToolOutput:
    """The continuations of a samples file; `results` is the file of results beside it. Raises ContributionRefused."""
    problems.unit = "line"
    continuations = LogContinuations(TOOL, prompts, k, leave_out_others, problems)
    first_filter = None  # of several filters the first: all have the same responses
    lines = stream.lines(stream.pieces(file, name.endswith(".gz"), problems), problems)
    for number, line in lines:
        if not line.strip():
            problems.read_blank()
            continue
        problems.read_row()
        sample = json_object(line, number, problems)
        if sample is None:
            continue
        if not sample.keys() >= _KEYS:
            remedy = "send samples_*.jsonl of lm-evaluation-harness 0.4, made with --log_samples"
            problems.add(Flaw.MISSING_COLUMN, number, None, ", ".join(sorted(_KEYS - sample.keys())), remedy)
            continue
        first_filter = sample.get("filter") if first_filter is None else first_filter
        if sample.get("filter") == first_filter:
            _take(continuations, number, sample, problems)
    table = continuations.table()
    return ToolOutput(table, _provenance(name, continuations, _results(results, problems)), continuations.matched())


def _take(continuations: LogContinuations, line: int, sample: dict[str, Any], problems: Problems) -> None:
    request_text, settings = _arguments(sample["arguments"])
    prompt = values.item(sample["doc"], "prompt", "text") or values.item(sample["doc"], "text") or request_text
    responses = sample["resps"]
    if not isinstance(responses, list) or len(responses) != 1 or not isinstance(responses[0], list):
        remedy = "send the samples of a task that generates, one request a prompt"
        problems.add(Flaw.TYPE, line, "resps", "not one list of responses", remedy)
        return
    completions = responses[0]
    continuations.drawn(line, _decoding(settings, len(completions)))
    key = sample.get("doc_id") if isinstance(sample.get("doc_id"), int | str) else None
    continuations.take(
        line, key, prompt, [LoggedOutput(response) for response in completions], is_reworded=request_text != prompt
    )


def _arguments(arguments: object) -> tuple[object, object]:
    """What the model got, and how to decode: of the first request."""
    first = values.item(arguments, "gen_args_0")
    if isinstance(first, dict):
        return first.get("arg_0"), first.get("arg_1")
    if isinstance(arguments, list) and arguments and isinstance(arguments[0], list) and len(arguments[0]) > 1:
        return arguments[0][0], arguments[0][1]
    return None, None


def _decoding(settings: object, k: int) -> Decoding:
    greedy = values.item(settings, "do_sample") is False
    most = [values.whole(values.item(settings, name)) for name in ("max_gen_toks", "max_new_tokens", "max_tokens")]
    return Decoding(
        k=k,
        temperature=0.0 if greedy else values.number(values.item(settings, "temperature")),
        top_p=values.number(values.item(settings, "top_p")),
        top_k=values.whole(values.item(settings, "top_k")),
        max_new_tokens=next((limit for limit in most if limit is not None), None),
        stop=values.texts(values.item(settings, "until")),
    )


def results_of(file: BinaryIO) -> dict[str, Any]:
    """What a results_*.json says of its run, without its scores, short enough to keep. Raises ContributionRefused."""
    results = _results(file, Problems(Limits(), unit="record"))
    texts = {name: values.text(results.get(name)) for name in ("model_name", "lm_eval_version")}
    run_values = {**texts, "date": values.number(results.get("date"))}
    short_values = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in run_values.items()}
    return {name: value for name, value in short_values.items() if value is not None}


def _results(file: BinaryIO | None, problems: Problems) -> dict[str, Any]:
    """What the file of results says of the run, without its scores."""
    member_names = ("model_name", "lm_eval_version", "date", "config")
    if file is None:
        return {}
    return {
        name: value
        for name, element, value in documents.members(file, False, problems)
        if name in member_names and not element
    }


def _provenance(name: str, continuations: LogContinuations, results: dict[str, Any]) -> LogProvenance:
    name_match = _NAME.search(name)
    created_at = (
        f"{name_match['date'][:13]}:{name_match['date'][14:16]}:{name_match['date'][17:19]}" if name_match else None
    )
    if (seconds := values.number(results.get("date"))) is not None and seconds < 2**35:
        created_at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return LogProvenance(
        tool=TOOL,
        tool_version=values.text(results.get("lm_eval_version")),
        format="samples JSON lines",
        task=name_match["task"] if name_match else None,
        model=values.text(results.get("model_name")) or values.text(values.item(results, "config", "model")),
        made=created_at,
        decoding=continuations.decoding,
        reworded=continuations.reworded,
    )
