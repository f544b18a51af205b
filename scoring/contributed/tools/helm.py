"""HELM's scenario_state.json: the adapter's settings, and the state of each request with the model's completions."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

from scoring.contributed import documents
from scoring.contributed.cells import Text
from scoring.contributed.report import Flaw, Problems
from scoring.contributed.tools import values
from scoring.contributed.tools.provenance import Decoding, LogProvenance, ToolOutput
from scoring.contributed.tools.taking import LogContinuations, LoggedOutput

TOOL = "HELM"
_MOST_COMPLETIONS = 2**16  # that a failed request stands for, whatever it claims


def read_scenario_state(
    file: BinaryIO,
    name: str,
    prompts: Sequence[Text],
    k: int,
    problems: Problems,
    *,
    leave_out_others: bool = False,
) -> ToolOutput:
    """The continuations of a scenario state. Perturbed instances are passed over. Raises ContributionRefused."""
    problems.unit = "record"
    reader = _HelmReader(LogContinuations(TOOL, prompts, k, leave_out_others, problems), problems)
    for member, number, value in documents.members(file, name.endswith(".gz"), problems):
        if member == "adapter_spec":
            reader.adapter = value
        elif member == "request_states" and number:
            problems.read_row()
            reader.take(number, value)
    table = reader.taking.table()
    return ToolOutput(table, reader.provenance(), reader.taking.matched())


class _HelmReader:
    def __init__(self, continuations: LogContinuations, problems: Problems) -> None:
        self.taking, self._problems = continuations, problems
        self.adapter: object = None
        self._model: str | None = None
        self._made = 0
        self._chat = False

    def take(self, number: int, state: object) -> None:
        """Take the completions of one request."""
        instance, request = values.item(state, "instance"), values.item(state, "request")
        if not isinstance(instance, dict) or not isinstance(request, dict):
            remedy = "send scenario_state.json as HELM wrote it"
            self._problems.add(Flaw.TYPE, number, "instance, request", "absent, or no object", remedy)
            return
        if instance.get("perturbation") or values.item(state, "request_mode") == "calibration":
            return
        outputs = self._outputs(number, request, values.item(state, "result"))
        prompt = values.item(instance, "input", "text")
        self._chat = self._chat or bool(request.get("messages"))
        self._made = max(self._made, values.whole(values.item(state, "result", "request_datetime")) or 0)
        self._model = self._model or values.text(request.get("model"))
        self.taking.drawn(number, self._decoding(request))
        key = instance.get("id") if isinstance(instance.get("id"), str) else None
        trial = (key or number, values.whole(values.item(state, "train_trial_index")))
        is_reworded = not request.get("messages") and request.get("prompt") != prompt
        self.taking.take(number, trial, prompt, outputs, is_reworded=is_reworded)

    def _outputs(self, number: int, request: dict[str, Any], result: object) -> list[LoggedOutput]:
        count = max(1, values.whole(request.get("num_completions")) or 1)
        if not isinstance(result, dict):
            self._problems.add(
                Flaw.UNFINISHED, number, "result", "absent", "let HELM finish the run, then send its file"
            )
            return []
        if result.get("success") is False:
            reason = values.text(result.get("error")) or "the request failed"
            return [LoggedOutput(None, error=reason)] * min(count, _MOST_COMPLETIONS)
        return [_completion(completion) for completion in values.objects(result.get("completions"))]

    def _decoding(self, request: dict[str, Any]) -> Decoding:
        return Decoding(
            k=values.whole(request.get("num_completions")),
            temperature=values.number(request.get("temperature")),
            top_p=values.number(request.get("top_p")),
            max_new_tokens=values.whole(request.get("max_tokens")),
            stop=values.texts(request.get("stop_sequences")),
        )

    def provenance(self) -> LogProvenance:
        """Where the completions come from. HELM's version is not in the file, nor is the day where all was cached."""
        return LogProvenance(
            tool=TOOL,
            tool_version=None,
            format="scenario_state.json",
            task=None,
            model=self._model or values.text(values.item(self.adapter, "model")),
            made=datetime.fromtimestamp(self._made, UTC).isoformat(timespec="seconds") if self._made else None,
            decoding=self.taking.decoding,
            reworded=self.taking.reworded,
            chat=self._chat,
        )


def _completion(completion: dict[str, Any]) -> LoggedOutput:
    tokens = completion.get("tokens")
    reason = values.text(values.item(completion, "finish_reason", "reason"))
    withheld = reason == "content_filter" and not completion.get("text")
    return LoggedOutput(
        text=completion.get("text"),
        n_tokens=len(tokens) if isinstance(tokens, list) and tokens else None,
        finish=reason,
        error="content_filter" if withheld else None,
    )
