"""Make lost files again from the model or from its outputs. Different bytes never replace them."""

import logging
from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max

from leaderboard.models import Artefact, AuditVerb, LanguageModel, MetricVersion, Run, Scoring, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.artefacts import ArtefactLost
from leaderboard.services.audit import record
from leaderboard.services.file_marks import entries_of
from leaderboard.services.locks import lock_model
from leaderboard.services.queue import ask_for_file, enqueue
from leaderboard.services.score import gather_inputs, replicates_table
from scoring.refusals import Refused

log = logging.getLogger(__name__)


def source_of(artefact: Artefact) -> Run | Scoring:
    """Return what made the file: the run or the scoring that it belongs to. Raises Refused."""
    run = artefact.runs.select_related("model", "protocol__evaluation_set__artefact").first()
    if run:
        if not LanguageModel.objects.evaluable().filter(pk=run.model_id).exists():
            raise Refused(
                f"the outputs of {run.model.slug} cannot be collected again: its weights are not at hand. Restore the "
                f"file {artefact.storage_name} from a backup"
            )
        return run
    scoring = entries_of(artefact).filter(run__isnull=False).first()
    if scoring is None or artefact.pk not in (scoring.artefact_id, scoring.replicates_id):
        raise Refused(
            f"the file {artefact.storage_name} is made of nothing that is stored here: restore it from a backup, or "
            "import the texts again where it holds texts"
        )
    return scoring


def can_restore(artefact: Artefact) -> bool:
    """Whether `request_restoration` would accept the file."""
    try:
        source_of(artefact)
    except Refused:
        return False
    return True


@transaction.atomic
def request_restoration(artefact: Artefact, user: User | None = None) -> str:
    """Begin to make the file again; returns what happens now, in a sentence. Raises Refused.

    Outputs are collected by a run of the next epoch, in turn and with checkpoints as every run: where its bytes have
    the hash of the lost file they are that file.
    """
    source = source_of(artefact)
    if isinstance(source, Run):
        run = source
        lock_model(run.model_id)  # the second of two requests finds the run of the first
        epochs = Run.objects.filter(model=run.model, protocol=run.protocol).aggregate(last=Max("epoch"))
        repeat = Run.objects.filter(
            model=run.model, protocol=run.protocol, epoch__gt=run.epoch
        ).unfinished().first() or Run.objects.create(model=run.model, protocol=run.protocol, epoch=epochs["last"] + 1)
        transaction.on_commit(partial(enqueue, repeat))
        sentence = f"The outputs of {run.model.name} are collected again, by run {repeat.pk}."
    else:
        transaction.on_commit(partial(ask_for_file, artefact))
        sentence = f"The values of {source} are computed again."
    record(AuditVerb.COLLECT_FILE_AGAIN, f"artefact {artefact.sha256}", {"model": source.model.slug}, user)
    return sentence


def restore(artefact: Artefact) -> bool:
    """Compute the values of a scoring again from its outputs; returns whether the file is whole now.

    Raises Refused; ArtefactLost where the outputs are lost themselves; what a scorer raises.
    """
    scoring = source_of(artefact)
    if isinstance(scoring, Run) or scoring.run is None:
        raise Refused(f"the file {artefact.storage_name} holds outputs: a run collects them")
    version = scoring.metric_version
    texts = artefacts.load(version.protocol.evaluation_set.artefact)
    outputs = artefacts.load(scoring.run.artefact)
    formula = version.metric.formula
    if artefact.pk == scoring.replicates_id and scoring.artefact:
        values = artefacts.load(scoring.artefact)
    else:
        values = formula.values(texts, outputs, scoring.model.kind, partial(judge_again, version))
        artefacts.store(values, formula.values_kind)
    if artefact.pk == scoring.replicates_id:
        measurement = formula.measure(gather_inputs(scoring, texts, outputs, values))
        artefacts.store(replicates_table(measurement), "replicates")
    try:
        artefacts.verify_stored(artefact, reread=True)
    except ArtefactLost as error:
        log.error("%s: made again with other bytes: %s", scoring, error)
        return False
    return True


def judge_again(version: MetricVersion, texts: Sequence[str | None]) -> pa.Table:
    """Score texts with the scorer of `version`. Raises Refused if the scorer has changed."""
    scorer = scorers.scorer_of(version)
    if scorer.fingerprint() != version.scorer_fingerprint:
        raise Refused(f"{version} was scored with another {version.scorer}: rescore the metric")
    return scorers.score_at_once(scorer, texts)


def differs(artefact: Artefact) -> bool:
    """Whether the outputs were collected again and differ from the lost ones."""
    run = artefact.runs.first()
    return bool(
        run
        and Run.objects.filter(
            model=run.model, protocol=run.protocol, epoch__gt=run.epoch, state=Work.State.DONE
        ).exists()
    )
