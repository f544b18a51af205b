"""Whether a model may be run, ranked and seen: open, restricted, withdrawn or hidden, with the reason on record."""

from django.contrib.auth.models import User
from django.db import transaction

from leaderboard.models import LanguageModel, MetricVersion, Work
from leaderboard.services.audit import record
from leaderboard.services.locks import lock_model
from leaderboard.services.publish import publish_from_database

Access = LanguageModel.Access
VERBS = {Access.OPEN: "reopen model", Access.RESTRICTED: "restrict model", Access.WITHDRAWN: "withdraw model"}


@transaction.atomic
def set_access(
    model: LanguageModel, access: str, reason: str, user: User | None = None, *, of_their_own: bool = False
) -> bool:
    """Make `model` open, restricted or withdrawn; says whether it was anything else before.

    A restricted model keeps its ranks, and nothing new is collected from it. One that is withdrawn leaves the rankings
    that readers see now, and one that comes back returns to them; earlier versions stay as they were published.
    `of_their_own`: `user` submitted it. Raises ValueError where there is no reason.
    """
    if not reason.strip():
        raise ValueError("reason: it is empty; say why, the change log shows it for ever")
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
    """Write the current rankings that `model` has numbers for anew, as it leaves them or comes back.

    From the database alone: no storage that is away, and no lost file, keeps a model on a ranking.
    """
    current = MetricVersion.objects.filter(status=MetricVersion.Status.CURRENT)
    for version in current.filter(scorings__model=model, scorings__state=Work.State.DONE).order_by("pk"):
        publish_from_database(version)


@transaction.atomic
def hide_model(model: LanguageModel, note: str, user: User | None = None) -> bool:
    """Name `model` in no ranking and no list; its page says `note` and nothing else. An empty one shows it again.

    Says whether anything changed. It leaves the rankings that readers see now, where ranks close up; earlier versions
    leave it out and keep the ranks of the others. Its numbers stay, and come back with it.
    """
    note = note.strip()
    model = lock_model(model.pk)
    before = model.hidden_note
    if before == note:
        return False
    LanguageModel.objects.filter(pk=model.pk).update(hidden_note=note)
    verb = "hide model" if note else "show model again"
    detail = {"note": note} if note else {}
    record(verb, f"model {model.slug}", detail, user, ({"hidden_note": before}, {"hidden_note": note}))
    if not before or not note:
        publish_again(model)
    return True
