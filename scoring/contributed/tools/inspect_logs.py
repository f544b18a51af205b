"""Logs of Inspect, version 2 of its format: one JSON document (.json), or a zip file with a member a sample (.eval)."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from scoring.contributed import documents
from scoring.contributed.cells import Text
from scoring.contributed.report import Flaw, Problems, describe_value
from scoring.contributed.tools import values
from scoring.contributed.tools.archives import Archive
from scoring.contributed.tools.provenance import Decoding, LogProvenance, ToolOutput
from scoring.contributed.tools.taking import LogContinuations, LoggedOutput

TOOL = "Inspect"
VERSION = 2
HEADERS = ("header.json", "_journal/start.json")  # of a log that ended, and of one that did not
_SAMPLES = "samples/"
_ATTACHMENT = "attachment://"
_SEND = "send the log as Inspect wrote it"


def read_eval_log(
    file: BinaryIO,
    name: str,
    prompts: Sequence[Text],
    k: int,
    problems: Problems,
    *,
    leave_out_others: bool = False,
) -> ToolOutput:
    """The continuations of a log: of each epoch, each choice. Raises ContributionRefused."""
    problems.unit = "record"
    reader = _InspectReader(LogContinuations(TOOL, prompts, k, leave_out_others, problems), problems)
    is_zip = file.seek(0) == 0 and file.read(2) == b"PK"
    for member, value in _of_zip(file, problems) if is_zip else _of_json(file, name, problems):
        if member == "sample":
            problems.read_row()
            reader.take(problems.rows, value)
        else:
            reader.head(member, value)
    table = reader.taking.table()
    return ToolOutput(table, reader.provenance(), reader.taking.matched())


def _of_json(file: BinaryIO, name: str, problems: Problems) -> Iterator[tuple[str, Any]]:
    """Members of the log, and its samples one by one."""
    for member, number, value in documents.members(file, name.endswith(".gz"), problems):
        if member == "samples" and number:
            yield "sample", value
        elif number is None:
            yield member, value


def _of_zip(file: BinaryIO, problems: Problems) -> Iterator[tuple[str, Any]]:
    """The same of a zip file."""
    archive = Archive(file, problems)
    header = next((name for name in HEADERS if name in archive), None)
    if header is None:
        problems.stop(Flaw.FORMAT, None, None, f"a zip file without {HEADERS[0]}", "send a log of Inspect")
    header_members = _decode_json(archive.read(header), None, problems)
    yield from (header_members if isinstance(header_members, dict) else {}).items()
    samples = (name for name in archive if name.startswith(_SAMPLES) and name.endswith(".json"))
    for number, name in enumerate(samples, start=1):
        yield "sample", _decode_json(archive.read(name, number), number, problems)


def _decode_json(content: bytes, number: int | None, problems: Problems) -> Any:
    try:
        return json.loads(content.decode())
    except UnicodeDecodeError as error:
        problems.stop(Flaw.NOT_UTF8, number, None, f"byte {error.start + 1:,} of the member", _SEND)
    except (ValueError, RecursionError):
        problems.stop(Flaw.NOT_JSON, number, None, "a member of the zip file", _SEND)


class _InspectReader:
    def __init__(self, continuations: LogContinuations, problems: Problems) -> None:
        self.taking, self._problems = continuations, problems
        self._head: dict[str, Any] = {}
        self._choices, self._epochs = 1, 1

    def head(self, member: str, value: object) -> None:
        """Take what the log says of the whole evaluation."""
        if member == "version" and (not isinstance(value, int) or value > VERSION):
            remedy = f"this reads version {VERSION}: upgrade Plumbline, or convert the log with Inspect"
            self._problems.stop(Flaw.VERSION, None, "version", describe_value(value), remedy)
        if member in ("eval", "plan"):
            self._head[member] = value
            self._choices = values.whole(self._config("num_choices")) or 1
            self._epochs = values.whole(values.item(self._head, "eval", "config", "epochs")) or 1

    def take(self, number: int, sample: object) -> None:
        """Take the choices of one epoch of a sample."""
        if not isinstance(sample, dict):
            self._problems.add(Flaw.TYPE, number, "samples", describe_value(sample), _SEND)
            return
        epoch = values.whole(sample.get("epoch"))
        if not epoch:
            self._problems.add(Flaw.TYPE, number, "epoch", describe_value(sample.get("epoch")), _SEND)
            return
        prompt = _read_input(sample)
        outputs = self._outputs(sample)
        key = sample.get("id") if isinstance(sample.get("id"), int | str) else None
        first = (epoch - 1) * self._choices
        self.taking.take(number, key, prompt, outputs, first, is_reworded=_is_reworded(sample, prompt))

    def _outputs(self, sample: dict[str, Any]) -> list[LoggedOutput]:
        choices = values.objects(values.item(sample, "output", "choices"))
        error = values.item(sample, "error", "message") or values.item(sample, "output", "error")
        if error or not choices:
            reason = values.text(error) or "no output"
            return [LoggedOutput(None, error=reason)] * min(self._choices, 2**16)
        tokens = values.whole(values.item(sample, "output", "usage", "output_tokens")) if len(choices) == 1 else None
        return [_output(choice, tokens, sample) for choice in choices]

    def _config(self, name: str) -> object:
        """A setting of generation: the evaluation's, or else the model's."""
        setting = values.item(self._head, "plan", "config", name)
        return values.item(self._head, "eval", "model_generate_config", name) if setting is None else setting

    def provenance(self) -> LogProvenance:
        """Where the choices come from."""
        evaluation = self._head.get("eval")
        return LogProvenance(
            tool=TOOL,
            tool_version=values.text(values.item(evaluation, "packages", "inspect_ai")),
            format=f"eval log, version {VERSION}",
            task=values.text(values.item(evaluation, "task")),
            model=values.text(values.item(evaluation, "model")),
            made=values.text(values.item(evaluation, "created")),
            decoding=Decoding(
                k=self._epochs * self._choices,
                temperature=values.number(self._config("temperature")),
                top_p=values.number(self._config("top_p")),
                top_k=values.whole(self._config("top_k")),
                max_new_tokens=values.whole(self._config("max_tokens")),
                stop=values.texts(self._config("stop_seqs")),
            ),
            reworded=self.taking.reworded,
            chat=True,
        )


def _read_input(sample: dict[str, Any]) -> object:
    """The sample's input: a text, or the last message of the user."""
    sample_input = sample.get("input")
    if isinstance(sample_input, list):
        users = [message for message in values.objects(sample_input) if message.get("role") == "user"]
        return _content(users[-1].get("content"), sample) if users else None
    return _content(sample_input, sample)


def _is_reworded(sample: dict[str, Any], prompt: object) -> bool:
    """Whether the model got another message before it answered than the prompt alone."""
    got = []
    for message in values.objects(sample.get("messages")):
        if message.get("role") == "assistant":
            break
        got.append(_content(message.get("content"), sample))
    return bool(got) and got != [prompt]


def _content(content: object, sample: dict[str, Any]) -> object:
    """The text of a message: a string, or parts, of which those that are no text (reasoning, images) are left out."""
    if isinstance(content, list):
        parts = [part.get("text") for part in values.objects(content) if part.get("type") == "text"]
        return "".join(part for part in (_content(part, sample) for part in parts) if isinstance(part, str))
    if isinstance(content, str) and content.startswith(_ATTACHMENT):
        return values.item(sample, "attachments", content.removeprefix(_ATTACHMENT)) or content
    return content


def _output(choice: dict[str, Any], n_tokens: int | None, sample: dict[str, Any]) -> LoggedOutput:
    text, reason = _content(values.item(choice, "message", "content"), sample), values.text(choice.get("stop_reason"))
    if reason == "content_filter":  # what there is then is the service's notice, not the model's text
        return LoggedOutput(None, error="content_filter")
    return LoggedOutput(text, n_tokens, reason)
