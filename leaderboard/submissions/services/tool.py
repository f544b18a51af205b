"""Form C: the logs of lm-evaluation-harness, HELM and Inspect. Their generations are scored here."""

import logging
from dataclasses import asdict, replace
from typing import Any

from django.core.exceptions import ValidationError

from leaderboard.card.form import CARD
from leaderboard.models import LanguageModel, Metric, Protocol, Submission
from leaderboard.services import artefacts
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.metrics import with_k
from leaderboard.submissions.services import outputs
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.upload_contents import UploadContents, limits
from scoring.cage import FileReader
from scoring.contributed.tools import LogProvenance, differences
from scoring.evaluation_sets import prompts_from_table
from scoring.generation import GenerationSettings
from scoring.refusals import Refused

log = logging.getLogger(__name__)

LONGEST = 120  # characters of a text that a log states about itself


def list_existing_metrics(payload: dict[str, Any]) -> list[Metric]:
    """List the existing metrics that rank the log, with its k."""
    return [metric for _, metric in find_counterparts(payload) if metric]


def list_metrics_without_ranking(payload: dict[str, Any]) -> list[Metric]:
    """List the chosen metrics that do not exist with the log's k yet."""
    return [metric for metric, counterpart in find_counterparts(payload) if counterpart is None]


def find_counterparts(payload: dict[str, Any]) -> list[tuple[Metric, Metric | None]]:
    """Pair each chosen metric with the one that has the log's k; None if there is none."""
    metrics = Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol__evaluation_set")
    k = payload["k"]
    if k is None:
        return [(metric, metric) for metric in metrics]
    pairs: list[tuple[Metric, Metric | None]] = []
    for metric in metrics:
        parameters = {**metric.protocol.parameters, "k": k}
        sha256 = Protocol.identity(metric.protocol.evaluation_set, metric.protocol.method, parameters)
        alike = Metric.objects.filter(protocol__sha256=sha256, scorer=metric.scorer, formula_name=metric.formula_name)
        pairs.append((metric, alike.select_related("protocol").first()))
    return pairs


def read_log(submission: Submission, protocol: Protocol, reader: FileReader) -> UploadContents:
    """Read the log against the prompts of `protocol`. Raises ContributionRefused, SubmissionRefused, CageError."""
    payload = submission.payload
    prompts = prompts_from_table(artefacts.load(protocol.evaluation_set.artefact))
    k = payload["k"] or protocol.k or 1
    contribution = reader.read_log(
        payload["file"]["name"],
        prompts,
        k,
        limits(),
        leave_out_others=payload["leave_out_others"],
        results=payload["results"],
    )
    contribution = replace(contribution, provenance=shorten(contribution.provenance))
    protocol_settings = GenerationSettings(**{**protocol.parameters, "k": k})
    provenance = {
        **describe_provenance(contribution.provenance),
        "differences": differences(contribution, protocol_settings),
    }
    return UploadContents(
        contribution.table,
        "continuations",
        provenance,
        find_model_name(payload, contribution.provenance),
        {"matched": asdict(contribution.matched)},
    )


def shorten(provenance: LogProvenance) -> LogProvenance:
    """Cut every text that a log states about itself to one line of LONGEST characters."""
    texts: dict[str, Any] = {
        name: outputs.printable(value)[:LONGEST]
        for name, value in asdict(provenance).items()
        if isinstance(value, str) and name not in ("tool", "format")
    }
    return replace(provenance, **texts)


def describe_provenance(provenance: LogProvenance) -> dict[str, Any]:
    """Return tool, version, settings and date as JSON, without what the log does not state."""
    fields = asdict(provenance)
    decoding = fields.pop("decoding")
    decoding["stop_sequences"] = len(decoding.pop("stop")) or None  # they may be anything: only how many
    statement = {name: value for name, value in fields.items() if value}
    return statement | {name: value for name, value in decoding.items() if value is not None}


def find_model_name(payload: dict[str, Any], provenance: LogProvenance) -> dict[str, Any]:
    """Take the model's name from the log if the submitter gave none. Raises SubmissionRefused."""
    if not payload.get("name_from_log"):
        return {}
    if not provenance.model:
        raise SubmissionRefused({"name": ["The log does not name its model: send it again, and fill in the name."]})
    try:
        return {"name": CARD["name"].clean(provenance.model), "name_from_log": True}
    except ValidationError as error:
        raise SubmissionRefused(
            {"name": [f"The model's name in the log: {text}" for text in error.messages]}
        ) from error


def enter(submission: Submission) -> LanguageModel:
    """Enter the model as `outputs.enter` does, under metrics with the log's k. Raises CannotEvaluate."""
    payload = submission.payload
    if payload["k"] is not None:
        metrics = Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol__evaluation_set")
        try:
            payload["metrics"] = [with_k(metric, payload["k"]).slug for metric in metrics]
        except Refused as error:
            raise CannotEvaluate(str(error)) from error
        submission.save(update_fields=["payload"])
    return outputs.enter(submission)
