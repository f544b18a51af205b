"""Form C: the logs of lm-evaluation-harness, HELM and Inspect. Their generations are taken, and scored here.

The names of the form's fields are those of `leaderboard.contribution_forms.ToolForm`.
"""

import logging
from dataclasses import asdict, replace
from typing import Any, BinaryIO, cast

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.files import File

from leaderboard.contribution_forms import ToolForm
from leaderboard.form_fields import Words
from leaderboard.models import LanguageModel, Metric, Protocol, Submission
from leaderboard.services import artefacts, cages
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.metrics import CannotDeclare, with_k
from leaderboard.services.submissions import outputs
from leaderboard.services.submissions.refusals import SubmissionRefused
from leaderboard.services.submissions.taken import Taken, limits
from scoring.cage import CageError, FileReader
from scoring.contributed import ContributionRefused
from scoring.contributed.tools import Provenance, differences
from scoring.evaluation_sets import prompts_from_table
from scoring.generation import GenerationSettings

log = logging.getLogger(__name__)

LONGEST = 120  # characters that a log may say of itself in one place


def check(user: User, values: dict[str, Any], upload: "File[bytes] | None") -> dict[str, Any]:
    """The payload of a log; of the file of results beside it what names model and version. Raises SubmissionRefused."""
    found = outputs.cleaned(ToolForm(values, {"file": upload, "results": values.get("results")}))
    payload = outputs.described(found) | {"k": found["k"], "leave_out_others": found["leave_out_others"]}
    payload["results"] = read_results(found["results"]) if found["results"] else {}
    if payload["name"]:
        outputs.refuse_known(user, payload | {"metrics": [of.slug for of in existing(payload)]})
    else:
        payload["name_from_log"] = True
        payload["name"] = payload["file"]["name"]  # until the log was read
    return payload


def read_results(file: "File[bytes]") -> dict[str, Any]:
    """What the results of lm-evaluation-harness say of the run. Raises SubmissionRefused."""
    try:
        return cages.read_results(cast(BinaryIO, file))
    except ContributionRefused as refused:
        problem = refused.report.problems[0]
        raise SubmissionRefused(
            {"results": [f"It is {problem.kind} ({problem.value}): {problem.remedy}."]}
        ) from refused
    except CageError as error:
        log.error("the file of results cannot be read: %s", error)
        raise SubmissionRefused({"results": ["It cannot be read at this moment: send the samples alone."]}) from error


def existing(payload: dict[str, Any]) -> list[Metric]:
    """The metrics meant, with the log's k, as far as there are such."""
    return [metric for _, metric in counterparts(payload) if metric]


def without_ranking(payload: dict[str, Any]) -> list[Metric]:
    """The metrics chosen that the board does not have with the log's k."""
    return [chosen for chosen, metric in counterparts(payload) if metric is None]


def counterparts(payload: dict[str, Any]) -> list[tuple[Metric, Metric | None]]:
    """Each metric chosen, and the one like it with the log's k; None where there is none."""
    chosen = Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol__evaluation_set")
    k = payload["k"]
    if k is None:
        return [(metric, metric) for metric in chosen]
    pairs: list[tuple[Metric, Metric | None]] = []
    for metric in chosen:
        parameters = {**metric.protocol.parameters, "k": k}
        sha256 = Protocol.identity(metric.protocol.evaluation_set, metric.protocol.method, parameters)
        alike = Metric.objects.filter(protocol__sha256=sha256, scorer=metric.scorer, formula_name=metric.formula_name)
        pairs.append((metric, alike.select_related("protocol").first()))
    return pairs


def read(submission: Submission, protocol: Protocol, reader: FileReader) -> Taken:
    """Read the log against the prompts of `protocol`. Raises ContributionRefused, SubmissionRefused, CageError."""
    payload = submission.payload
    prompts = prompts_from_table(artefacts.load(protocol.evaluation_set.artefact))
    k = payload["k"] or protocol.k or 1
    found = reader.read_log(
        payload["file"]["name"],
        prompts,
        k,
        limits(),
        leave_out_others=payload["leave_out_others"],
        results=payload["results"],
    )
    found = replace(found, provenance=shortened(found.provenance))
    asked = GenerationSettings(**{**protocol.parameters, "k": k})
    provenance = {**said(found.provenance), "differences": differences(found, asked)}
    about = {"provenance": provenance, "matched": asdict(found.matched)}
    return Taken(found.table, "continuations", provenance, named(payload, found.provenance), about)


def shortened(provenance: Provenance) -> Provenance:
    """The same, where a log says no more of itself than fits, in one line."""
    texts: dict[str, Any] = {
        name: outputs.printable(value)[:LONGEST]
        for name, value in asdict(provenance).items()
        if isinstance(value, str) and name not in ("tool", "format")
    }
    return replace(provenance, **texts)


def said(provenance: Provenance) -> dict[str, Any]:
    """Tool, version, settings and date, as JSON has them; without what the log does not say."""
    found = asdict(provenance)
    decoding = found.pop("decoding")
    decoding["stop_sequences"] = len(decoding.pop("stop")) or None  # they may be anything: only how many
    about = {name: value for name, value in found.items() if value}
    return about | {name: value for name, value in decoding.items() if value is not None}


def named(payload: dict[str, Any], provenance: Provenance) -> dict[str, Any]:
    """The model's name from the log, where the submitter gave none. Raises SubmissionRefused."""
    if not payload.get("name_from_log"):
        return {}
    missing = "The log does not name its model: send it again, and fill in the name."
    try:
        return {"name": Words(label="", most=LONGEST, missing=missing).clean(provenance.model), "name_from_log": True}
    except ValidationError as error:
        raise SubmissionRefused(
            {"name": [f"The model's name in the log: {text}" for text in error.messages]}
        ) from error


def enter(submission: Submission) -> LanguageModel:
    """As `outputs.enter`, under metrics of the log's k. Raises CannotEvaluate."""
    payload = submission.payload
    if payload["k"] is not None:
        chosen = Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol__evaluation_set")
        try:
            payload["metrics"] = [with_k(metric, payload["k"]).slug for metric in chosen]
        except CannotDeclare as error:
            raise CannotEvaluate(str(error)) from error
        submission.save(update_fields=["payload"])
    return outputs.enter(submission)
