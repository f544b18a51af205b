"""Form B: generations or likelihoods of a closed model. Also enters any outputs that were made elsewhere."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from leaderboard.card.form import columns_of
from leaderboard.models import AuditVerb, LanguageModel, Metric, Protocol, Run, Submission, Work
from leaderboard.models.clock import database_now
from leaderboard.services import artefacts
from leaderboard.services.audit import record
from leaderboard.services.evaluate import CannotEvaluate
from leaderboard.services.identities import with_free_slug
from leaderboard.services.language_models import name_as_run
from leaderboard.services.versions import newest_version
from leaderboard.submissions.services.refusals import SubmissionRefused
from leaderboard.submissions.services.upload_contents import UploadContents, limits
from scoring.cage import FileReader

SETTINGS = ("temperature", "top_p", "max_new_tokens")


def printable(text: str) -> str:
    """Return a foreign text as one line, without invisible characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def refuse_known(user: User, payload: dict[str, Any]) -> None:
    """Raise SubmissionRefused if outputs of this model for these metrics cannot be added."""
    metrics = list(Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol"))
    try:
        check_new(user, payload, metrics)
    except CannotEvaluate as error:
        raise SubmissionRefused({"revision": [str(error)]}) from error


def address(model: LanguageModel) -> str:
    """Return the full address of a model's page."""
    return f"{settings.SITE_URL}{model.get_absolute_url()}"


def check_new(user: User, payload: dict[str, Any], metrics: list[Metric]) -> LanguageModel | None:
    """Return the row that the payload's outputs belong to; None if the model is new.

    A revision of a model is entered once. Its submitter may add the outputs that another protocol asks for. Raises
    CannotEvaluate.
    """
    model = LanguageModel.objects.filter(source=LanguageModel.Source.UPLOADED, **identity(payload)).first()
    if model is None:
        return None
    model_name = f"{model.name}, {model.revision}"
    if model.access != LanguageModel.Access.OPEN:
        raise CannotEvaluate(f"{model_name} is {model.access} here, see {address(model)}: nothing is added to it.")
    if not model.submissions.filter(submitter=user).exists():
        raise CannotEvaluate(
            f"{model_name} was entered by somebody else, see {address(model)}: if yours is another revision, say which."
        )
    if "kind" in payload and payload["kind"] != model.kind:
        raise CannotEvaluate(
            f"{model_name} was entered as a {model.kind} model, see {address(model)}: choose that kind."
        )
    slugs = [metric.slug for metric in metrics if outputs_of(model, metric)]
    if slugs:
        raise CannotEvaluate(
            f"{model_name} has its outputs for {', '.join(slugs)} already, see {address(model)}: to send others, "
            "give them a revision of their own."
        )
    return model


def identity(payload: dict[str, Any]) -> dict[str, str]:
    """Return what identifies an uploaded model: the lower-case name, the revision and the interface."""
    return {
        "location": payload["name"].casefold(),
        "revision": payload["revision"],
        "interface": payload.get("interface", LanguageModel.Interface.TEXT),
    }


def outputs_of(model: LanguageModel, metric: Metric) -> Run | None:
    """Return the model's finished run for the version of the metric that scores new models."""
    return Run.objects.filter(
        model=model, protocol=metric.protocol_for(model), epoch=epoch_of(metric), state=Work.State.DONE
    ).first()


def epoch_of(metric: Metric) -> int:
    """Return the epoch of the outputs that the metric scores now."""
    version = newest_version(metric)
    return version.epoch if version else 1


def read_outputs(submission: Submission, protocol: Protocol, reader: FileReader) -> UploadContents:
    """Read the upload against the texts of `protocol`. Raises ContributionRefused, CageError."""
    texts = artefacts.load(protocol.evaluation_set.artefact)
    name, statement = submission.payload["file"]["name"], submission.payload["said"]
    provenance = {**statement, "differences": list_differences(statement, protocol)}
    table = protocol.outputs.read(reader, name, texts, protocol.parameters, limits())
    return UploadContents(table, protocol.outputs.artefact, provenance)


def list_differences(statement: dict[str, Any], protocol: Protocol) -> list[str]:
    """List how the settings that the submitter states differ from the protocol's, one sentence each."""
    parameters = protocol.parameters
    names = {"temperature": "temperature", "top_p": "top-p", "max_new_tokens": "max new tokens"}
    return [
        f"{names[name]}: {statement[name]:g} as its submitter says, {parameters[name]:g} in this protocol."
        for name in SETTINGS
        if name in statement and statement[name] != parameters[name]
    ]


def enter(submission: Submission) -> LanguageModel:
    """Enter the model, and its outputs as finished runs. In the caller's transaction. Raises CannotEvaluate."""
    payload, user = submission.payload, submission.submitter
    if submission.model is not None:  # a retry: everything is entered already
        return submission.model
    metrics = list(Metric.objects.filter(slug__in=payload["metrics"]).select_related("protocol"))
    model = check_new(user, payload, metrics)
    if model is None:
        columns = columns_of(payload) | identity(payload)
        model = with_free_slug(
            lambda slug: LanguageModel.objects.create(
                source=LanguageModel.Source.UPLOADED,
                slug=slug,
                kind=payload.get("kind", LanguageModel.Kind.CAUSAL),
                **columns,
            ),
            name_as_run(payload["name"], columns["interface"], ""),
            payload["revision"],
        )
        record(AuditVerb.ADD_MODEL, f"model {model.slug}", {"source": model.source, "revision": model.revision}, user)
    add_outputs(submission, model, {(metric.protocol_for(model).pk, epoch_of(metric)) for metric in metrics})
    return model


def add_outputs(submission: Submission, model: LanguageModel, outputs: set[tuple[int, int]]) -> None:
    """Make a finished run for each protocol and epoch in `outputs`, with the origin of the outputs."""
    payload, finished_at, artefact = submission.payload, database_now(), submission.artefact
    if artefact is None:
        raise CannotEvaluate("the outputs are not stored any more: send the file again")
    for protocol_key, epoch in sorted(outputs):
        protocol = Protocol.objects.select_related("evaluation_set__artefact").get(pk=protocol_key)
        texts = protocol.evaluation_set.artefact
        count = texts.rows if texts else artefact.rows
        Run.objects.create(
            model=model,
            protocol=protocol,
            epoch=epoch,
            state=Work.State.DONE,
            artefact=artefact,
            chat=protocol.outputs.count_answers(artefacts.load(artefact)) if protocol.outputs.is_chat else {},
            environment={"submitter": submission.submitter.username, **payload["provenance"]},
            requester=submission.submitter,
            started_at=finished_at,
            finished_at=finished_at,
            total=count,
            done=count,
        )
