"""Form B: generations or likelihoods of a closed model; and how outputs that were made elsewhere are entered.

The names of the form's fields are those of `leaderboard.contribution_forms.OutputsForm`.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File
from django.utils import timezone

from leaderboard.contribution_forms import SETTINGS, ContributionForm, OutputsForm
from leaderboard.models import LanguageModel, Metric, Protocol, Run, Submission, Work
from leaderboard.services import artefacts
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.language_models import free_slug
from leaderboard.services.submissions.refusals import SubmissionRefused
from leaderboard.services.submissions.taken import Taken, limits
from leaderboard.services.versions import newest_version
from scoring.cage import FileReader
from scoring.evaluation_sets import from_table, prompts_from_table

KEPT = ("metrics", "name", "revision", "kind", "family", "licence", "notes")  # of a form, in the payload


def check(user: User, values: dict[str, Any], upload: "File[bytes] | None") -> dict[str, Any]:
    """The payload of a closed model's outputs. Nothing in the file is read. Raises SubmissionRefused."""
    found = cleaned(OutputsForm(values, {"file": upload}))
    payload = described(found)
    settings_said = {name: found[name] for name in SETTINGS if found[name] is not None}
    payload["said"] = settings_said | ({"made_with": found["made_with"]} if found["made_with"] else {})
    refuse_known(user, payload)
    return payload


def cleaned(form: ContributionForm) -> dict[str, Any]:
    """What the form makes of what was filled in. Raises SubmissionRefused, with what is wrong in each field."""
    if not form.is_valid():
        raise SubmissionRefused({name: [str(of) for of in errors] for name, errors in form.errors.items()})
    found: dict[str, Any] = form.cleaned_data
    return found


def described(found: dict[str, Any]) -> dict[str, Any]:
    """What the payloads of both forms have."""
    file: File[bytes] = found["file"]
    return {
        **{name: found[name] for name in KEPT if name in found},
        "protocol": found["protocol"].sha256,
        "file": {"name": printable(str(file.name))[-100:], "size": file.size},
    }


def printable(text: str) -> str:
    """A text from elsewhere in one line, without what cannot be seen."""
    return " ".join("".join(of if of.isprintable() else " " for of in text).split())


def refuse_known(user: User, payload: dict[str, Any]) -> None:
    """Raise SubmissionRefused where outputs of this model for these metrics cannot be added."""
    metrics = list(Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol"))
    try:
        check_new(user, payload, metrics)
    except CannotEvaluate as error:
        raise SubmissionRefused({"revision": [str(error)]}) from error


def address(model: LanguageModel) -> str:
    """The whole address of a model's page."""
    return f"{settings.SITE_URL}{model.get_absolute_url()}"


def check_new(user: User, payload: dict[str, Any], metrics: list[Metric]) -> LanguageModel | None:
    """The row that the payload's outputs are added to; None where the model is new.

    A revision of a model is entered once; who entered it may add the outputs that another protocol asks for. Raises
    CannotEvaluate.
    """
    model = LanguageModel.objects.filter(source=LanguageModel.Source.UPLOADED, **identity(payload)).first()
    if model is None:
        return None
    named = f"{model.name}, {model.revision}"
    if model.access != LanguageModel.Access.OPEN:
        raise CannotEvaluate(f"{named} is {model.access} here, see {address(model)}: nothing is added to it.")
    if not model.submissions.filter(submitter=user).exists():
        raise CannotEvaluate(
            f"{named} was entered by somebody else, see {address(model)}: if yours is another revision, say which."
        )
    if "kind" in payload and payload["kind"] != model.kind:
        raise CannotEvaluate(f"{named} was entered as a {model.kind} model, see {address(model)}: choose that kind.")
    there = [metric.slug for metric in metrics if outputs_of(model, metric)]
    if there:
        raise CannotEvaluate(
            f"{named} has its outputs for {', '.join(there)} already, see {address(model)}: to send others, give them "
            "a revision of their own."
        )
    return model


def identity(payload: dict[str, Any]) -> dict[str, str]:
    """What tells uploaded models apart: the name in small letters, and the revision. Unique in the database."""
    return {"location": payload["name"].casefold(), "revision": payload["revision"]}


def outputs_of(model: LanguageModel, metric: Metric) -> Run | None:
    """What was collected of the model for the version of the metric that new models land in."""
    return Run.objects.filter(
        model=model, protocol=metric.protocol, epoch=epoch_of(metric), state=Work.State.DONE
    ).first()


def epoch_of(metric: Metric) -> int:
    """Of the outputs that the metric scores now."""
    version = newest_version(metric)
    return version.epoch if version else 1


def read(submission: Submission, protocol: Protocol, reader: FileReader) -> Taken:
    """Read the upload against the texts of `protocol`. Raises ContributionRefused, CageError."""
    texts = artefacts.load(protocol.evaluation_set.artefact)
    name, said = submission.payload["file"]["name"], submission.payload["said"]
    provenance = {**said, "differences": said_differences(said, protocol)}
    if protocol.method == Protocol.LIKELIHOOD:
        table = reader.read_likelihoods(name, from_table(texts), limits())
        return Taken(table, "likelihoods", provenance)
    table = reader.read_generations(name, prompts_from_table(texts), protocol.k or 1, limits())
    return Taken(table, "continuations", provenance)


def said_differences(said: dict[str, Any], protocol: Protocol) -> list[str]:
    """Where the settings that the submitter states are not the protocol's, a sentence each."""
    ours = protocol.parameters
    names = {"temperature": "temperature", "top_p": "top-p", "max_new_tokens": "max new tokens"}
    return [
        f"{names[name]}: {said[name]:g} as its submitter says, {ours[name]:g} in this protocol."
        for name in SETTINGS
        if name in said and said[name] != ours[name]
    ]


def enter(submission: Submission) -> LanguageModel:
    """The row of the model, and its outputs as a finished run. In the caller's transaction. Raises CannotEvaluate."""
    payload, user = submission.payload, submission.submitter
    if submission.model is not None:  # begun anew: all of it is there
        return submission.model
    metrics = list(Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol"))
    model = check_new(user, payload, metrics)
    if model is None:
        model = LanguageModel.objects.create(
            source=LanguageModel.Source.UPLOADED,
            slug=free_slug(payload["name"], payload["revision"]),
            name=payload["name"],
            kind=payload.get("kind", LanguageModel.Kind.CAUSAL),
            **{name: payload[name] for name in ("family", "licence", "notes")},
            **identity(payload),
        )
        record("add model", f"model {model.slug}", {"source": model.source, "revision": model.revision}, user)
    add_outputs(submission, model, {(metric.protocol_id, epoch_of(metric)) for metric in metrics})
    return model


def add_outputs(submission: Submission, model: LanguageModel, wanted: set[tuple[int, int]]) -> None:
    """A finished run for each protocol and epoch, with where the outputs come from."""
    payload, now, artefact = submission.payload, timezone.now(), submission.artefact
    if artefact is None:
        raise CannotEvaluate("the outputs are not stored any more: send the file again")
    for protocol, epoch in sorted(wanted):
        texts = Protocol.objects.select_related("evaluation_set__artefact").get(pk=protocol).evaluation_set.artefact
        count = texts.rows if texts else artefact.rows
        Run.objects.create(
            model=model,
            protocol_id=protocol,
            epoch=epoch,
            state=Work.State.DONE,
            artefact=artefact,
            environment={"submitter": submission.submitter.username, **payload["provenance"]},
            requester=submission.submitter,
            started_at=now,
            finished_at=now,
            total=count,
            done=count,
        )
