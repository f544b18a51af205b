"""Making lost files again from what is at hand: the model, or its outputs. Other bytes never take their place."""

import logging
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max

from leaderboard.models import Artefact, LanguageModel, Run, Scoring, Work
from leaderboard.services import artefacts, scorers
from leaderboard.services.artefacts import ArtefactLost
from leaderboard.services.audit import record
from leaderboard.services.file_marks import entries_of
from leaderboard.services.queue import ask_for_file, enqueue
from leaderboard.services.score import collected, log_perplexities_table, replicates_table, with_ids

log = logging.getLogger(__name__)

VERB = "collect file again"


class CannotRestore(ValueError):
    """The file cannot be made again here; the message says why, and what to do instead."""


def source_of(artefact: Artefact) -> Run | Scoring:
    """What makes the file: the run whose outputs it holds, or the scoring whose values. Raises CannotRestore."""
    run = artefact.runs.select_related("model", "protocol__evaluation_set__artefact").first()
    if run:
        if not LanguageModel.objects.evaluable().filter(pk=run.model_id).exists():
            raise CannotRestore(
                f"the outputs of {run.model.slug} cannot be collected again: its weights are not at hand. Restore the "
                f"file {artefact.storage_name} from a backup"
            )
        return run
    scoring = entries_of(artefact).filter(run__isnull=False).first()
    if scoring is None or artefact.pk not in (scoring.artefact_id, scoring.replicates_id):
        raise CannotRestore(
            f"the file {artefact.storage_name} is made of nothing that is stored here: restore it from a backup, or "
            "import the texts again where it holds texts"
        )
    return scoring


def can_restore(artefact: Artefact) -> bool:
    """Whether `request_restoration` would begin."""
    try:
        source_of(artefact)
    except CannotRestore:
        return False
    return True


@transaction.atomic
def request_restoration(artefact: Artefact, user: User | None = None) -> str:
    """Begin to make the file again; returns what happens now, in a sentence. Raises CannotRestore.

    Outputs are collected by a run of the next epoch, in turn and with checkpoints as every run: where its bytes have
    the hash of the lost file they are that file.
    """
    source = source_of(artefact)
    if isinstance(source, Run):
        run = source
        epochs = Run.objects.filter(model=run.model, protocol=run.protocol).aggregate(last=Max("epoch"))
        again = Run.objects.filter(
            model=run.model, protocol=run.protocol, epoch__gt=run.epoch
        ).unfinished().first() or Run.objects.create(model=run.model, protocol=run.protocol, epoch=epochs["last"] + 1)
        transaction.on_commit(partial(enqueue, again))
        says = f"The outputs of {run.model.name} are collected again, by run {again.pk}."
    else:
        transaction.on_commit(partial(ask_for_file, artefact))
        says = f"The values of {source} are computed again."
    record(VERB, f"artefact {artefact.sha256}", {"model": source.model.slug}, user)
    return says


def restore(artefact: Artefact) -> bool:
    """Compute the values of a scoring again from its outputs; says whether the file is whole now.

    Raises CannotRestore; ArtefactLost where the outputs are lost themselves; what a scorer raises.
    """
    scoring = source_of(artefact)
    if isinstance(scoring, Run) or scoring.run is None:
        raise CannotRestore(f"the file {artefact.storage_name} holds outputs: a run collects them")
    version, evaluation_set = scoring.metric_version, scoring.metric_version.protocol.evaluation_set
    texts, outputs = artefacts.load(evaluation_set.artefact), artefacts.load(scoring.run.artefact)
    if version.metric.formula.asks_scorer:
        if artefact.pk == scoring.replicates_id and scoring.artefact:
            per_text = artefacts.load(scoring.artefact)
        else:
            scorer = scorers.scorer_of(version)
            if scorer.fingerprint() != version.scorer_fingerprint:
                raise CannotRestore(f"{version} was scored with another {version.scorer}: rescore the metric")
            made = version.metric.formula.texts(texts, outputs)
            distinct = list(dict.fromkeys(text for text in made if text is not None))
            scores = scorer.score(distinct)
            per_text = with_ids(
                scorers.spread(scorers.scores_table(distinct, scores, scorer.attribute_names), distinct, made),
                outputs["prompt_id"],
                outputs["index"],
            )
        artefacts.store(per_text, "scores")
    else:
        per_text = log_perplexities_table(outputs)
        artefacts.store(per_text, "log_perplexities")
    if artefact.pk == scoring.replicates_id:
        measured = version.metric.formula.measure(collected(evaluation_set, version, texts, outputs, per_text))
        artefacts.store(replicates_table(measured), "replicates")
    try:
        artefacts.verify_stored(artefact, anew=True)
    except ArtefactLost as error:
        log.error("%s: made again with other bytes: %s", scoring, error)
        return False
    return True


def differs(artefact: Artefact) -> bool:
    """Whether the outputs were collected again, and are others than those that were lost."""
    run = artefact.runs.first()
    return bool(
        run
        and Run.objects.filter(
            model=run.model, protocol=run.protocol, epoch__gt=run.epoch, state=Work.State.DONE
        ).exists()
    )
