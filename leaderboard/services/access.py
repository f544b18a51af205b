"""Whether a model may be run, ranked and seen: open, restricted, withdrawn or hidden, with the reason on record."""

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import AuditVerb, LanguageModel, Metric, MetricVersion, Work
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_metrics, lock_model
from leaderboard.services.publish import publish_from_database
from scoring.refusals import Refused

Access = LanguageModel.Access
VERBS = {
    Access.OPEN: AuditVerb.REOPEN_MODEL,
    Access.RESTRICTED: AuditVerb.RESTRICT_MODEL,
    Access.WITHDRAWN: AuditVerb.WITHDRAW_MODEL,
}


@transaction.atomic
def set_access(
    model: LanguageModel, access: str, reason: str, user: User | None = None, *, of_their_own: bool = False
) -> bool:
    """Make `model` open, restricted or withdrawn; returns whether that changed anything.

    A restricted model keeps its ranks, and nothing new is collected from it. A withdrawn model leaves the current
    rankings, and returns to them when it is reopened; earlier versions stay as they were published.
    `of_their_own`: `user` submitted it. Raises Refused where there is no reason.
    """
    if not reason.strip():
        raise Refused.of_field("reason", "it is empty; say why, the change log shows it for ever")
    model = lock_model(model.pk)
    if model.access == access:
        return False
    moves = Access.WITHDRAWN in (model.access, access)
    LanguageModel.objects.filter(pk=model.pk).update(access=access)
    change = {"access": model.access}, {"access": access}
    detail = {"reason": reason, "of_their_own": True} if of_their_own else {"reason": reason}
    record(VERBS[Access(access)], f"model {model.slug}", detail, user, change)
    if moves:
        publish_again(model)
    return True


def publish_again(model: LanguageModel) -> None:
    """Publish the current rankings of `model` again, because it leaves them or returns.

    This needs the database only: a storage that is away, or a lost file, keeps no model on a ranking. A version that is
    being published at this moment has the model as it was: it is waited for.
    """
    lock_metrics(Metric.objects.filter(versions__scorings__model=model).values_list("pk", flat=True))
    current = MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT)
    for version in current.filter(scorings__model=model, scorings__state=Work.State.DONE).order_by("pk"):
        publish_from_database(version)


@transaction.atomic
def hide_model(model: LanguageModel, note: str, user: User | None = None) -> bool:
    """Hide `model` from every ranking and list; its page shows `note` only. An empty note shows the model again.

    Returns whether anything changed. The model leaves the current rankings, where ranks close up. Earlier versions
    leave it out and keep the ranks of the others. Its numbers are kept, and return with it.
    """
    note = note.strip()
    model = lock_model(model.pk)
    previous_note = model.hidden_note
    if previous_note == note:
        return False
    LanguageModel.objects.filter(pk=model.pk).update(hidden_note=note)
    verb = AuditVerb.HIDE_MODEL if note else AuditVerb.SHOW_MODEL_AGAIN
    detail = {"note": note} if note else {}
    record(verb, f"model {model.slug}", detail, user, ({"hidden_note": previous_note}, {"hidden_note": note}))
    if not previous_note or not note:
        publish_again(model)
    return True
