"""What each worker can do, by its own account, and which work it leaves to others.

A worker notes its host, code, memory, device, libraries and scorers in its row. It takes no work that it has found it
cannot do while another living worker may be able to; work that turns out so under its hands is given back, not failed.
Where nobody else could do it, it goes on as the one retry policy says.
"""

import hashlib
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from leaderboard.models import ControlCheck, LanguageModel, Metric, Release, Run, Scoring, Work, Worker
from leaderboard.services.folders import HostLacks, fetch_folder, name_of_scorer
from leaderboard.services.leases import Deferred, worker_name
from leaderboard.services.memory import memory_needed, memory_of_workers
from leaderboard.services.queue import PASS_SECONDS
from leaderboard.services.scorers import LEXICON, scorer_for
from scoring.scorers import LexiconError, ScorerState, ScorerUnavailable, UnknownScorer, is_scorer

log = logging.getLogger(__name__)

NOTED_EVERY = 60.0  # seconds
BELIEVED_FOR = timedelta(minutes=10)  # what a worker could not do it tries again then
HANDS = {Scoring: "default", ControlCheck: "default", Run: "gpu"}  # the queue of workers that do it
LACKED_HERE = (HostLacks, LexiconError, ScorerUnavailable, UnknownScorer, ImportError)


@cache
def code_here() -> str:
    """The code of this process: the release and a hash of all its files, as in `0.4.0+1f0c9a7d2b3e`."""
    from leaderboard.services.build import code

    digest = hashlib.sha256()
    for folder in ("leaderboard", "scoring"):
        for path in sorted((settings.BASE_DIR / folder).rglob("*")):
            if path.suffix in (".py", ".toml", ".txt"):
                digest.update(f"{path.relative_to(settings.BASE_DIR)}\0".encode() + path.read_bytes() + b"\0")
    return f"{code()['version']}+{digest.hexdigest()[:12]}"


def note_release(**_: Any) -> None:
    """Note the code that has just migrated the database: from now on it is the board's."""
    newest = Release.objects.first()
    if newest is None or newest.code != code_here():
        Release.objects.create(code=code_here())


def refusal() -> str:
    """Why this process may take no work: its code is not the board's; "" where it may."""
    newest = Release.objects.first()
    if newest is None or newest.code == code_here():
        return ""
    return (
        f"this worker has the code {code_here()} and the board {newest.code} since "
        f"{newest.installed_at:%Y-%m-%d %H:%M}: bring both to the same release, run `manage.py migrate`, and start the "
        "worker again"
    )


def describe_here() -> dict[str, Any]:
    """What a worker of this process says of itself at each beat. No library is loaded for it."""
    return {
        "host": settings.HOST,
        "code": code_here(),
        "refusal": refusal(),
        "memory": int(memory_of_workers()),
        "disk_free": shutil.disk_usage(settings.VAR).free,
    }


def note_abilities(worker: str) -> None:
    """Note the libraries and the device of this host, and which scorers can be had here, as far as files tell."""
    from leaderboard.services.control import here

    Worker.objects.filter(name=worker).update(environment=here())
    for scorer in sorted({metric.scorer for metric in Metric.objects.all() if metric.formula.asks_scorer}):
        try:
            fingerprint = look_at_scorer(scorer)
        except LACKED_HERE as error:
            note_ability(worker, name_of_scorer(scorer), problem=str(error))
        except OSError as error:
            log.warning("%s: its files cannot be fetched now: %s", scorer, error)
        else:
            note_ability(worker, name_of_scorer(scorer), fingerprint=fingerprint)


def keep_noting_abilities(worker: str) -> None:
    """As `note_abilities`, for ever: the thread of a worker, which notices what is brought to its host."""
    while True:
        try:
            note_abilities(worker)
        except Exception:
            log.exception("what this host can do cannot be noted: it is tried again")
        finally:
            connection.close()  # this thread's own
        time.sleep(NOTED_EVERY)


def look_at_scorer(scorer: str) -> str:
    """Fetch the scorer's files, and return its fingerprint where that takes no loading. Raises one of LACKED_HERE."""
    if not is_scorer(scorer):
        raise UnknownScorer(f"there is no scorer {scorer!r} on this host: install it, or set PLUMBLINE_SCORER_MODULES")
    if scorer.startswith(LEXICON):
        return scorer_for(scorer, "look").fingerprint()
    fetch_folder(name_of_scorer(scorer))
    return ""


def note_ability(worker: str, ability: str, fingerprint: str = "", problem: str = "") -> None:
    """Note that a worker can do something, or what keeps it from that."""
    if not worker:
        return
    with transaction.atomic():
        row = Worker.objects.select_for_update().filter(name=worker).first()
        if row is None:
            return
        before = row.abilities.get(ability, {})
        noted = {"fingerprint": fingerprint or before.get("fingerprint", ""), "problem": problem}
        if problem:
            noted["at"] = timezone.now().isoformat()
        if noted != before:
            row.abilities[ability] = noted
            row.save(update_fields=["abilities"])


def unable(row: Worker, ability: str) -> str:
    """Why the worker cannot do it, as it found lately; "" where it may be tried."""
    noted = row.abilities.get(ability, {})
    problem, at = noted.get("problem", ""), noted.get("at", "")
    recent = bool(at) and datetime.fromisoformat(at) > timezone.now() - BELIEVED_FOR
    return problem if recent else ""


def others(queue: str) -> list[Worker]:
    """The living workers of a queue that take work, but for this one."""
    rows = Worker.objects.alive().filter(refusal="").exclude(name=worker_name())
    return [row for row in rows if queue in row.queues]


def own_row() -> Worker | None:
    """What this worker has noted of itself."""
    name = worker_name()
    return Worker.objects.filter(name=name).first() if name else None


def leave_to_others(kind: type[Work]) -> Q:
    """The work of a kind that this worker has found it cannot do, and that another living one may be able to do."""
    row = own_row()
    if row is None or kind not in HANDS:
        return Q(pk__in=[])
    colleagues = others(HANDS[kind])
    left = Q(pk__in=[])
    for ability in row.abilities:
        if unable(row, ability) and any(not unable(other, ability) for other in colleagues):
            left |= _work_that_needs(kind, ability)
    largest = max((other.memory or 0 for other in colleagues), default=0)
    if kind is Run and row.memory and largest > row.memory:
        models = LanguageModel.objects.filter(runs__state=Work.State.QUEUED, parameters__isnull=False).distinct()
        too_large = [model.pk for model in models if row.memory < memory_needed(model.parameters or 0) <= largest]
        left |= Q(model__in=too_large)
    return left


def _work_that_needs(kind: type[Work], ability: str) -> Q:
    what, _, name = ability.partition(" ")
    if what == "scorer" and kind is Scoring:
        return Q(metric_version__scorer=name)
    if what == "scorer" and kind is ControlCheck:
        return Q(metric__scorer=name)
    return Q(model__slug=name) if what == "model" and kind is Run else Q(pk__in=[])


@contextmanager
def given_back(kind: type[Work], ability: str) -> Iterator[None]:
    """Give work back for another worker where this one lacks what it needs. Raises Deferred, or the error itself."""
    try:
        yield
    except (*LACKED_HERE, MemoryError) as error:
        if isinstance(error, ScorerUnavailable) and error.state is ScorerState.RETIRED:
            raise
        note_ability(worker_name(), ability, problem=str(error)[:500] or type(error).__name__)
        able = [row.name for row in others(HANDS[kind]) if not unable(row, ability)]
        if not able or not worker_name():
            raise
        raise Deferred(PASS_SECONDS, f"{worker_name()} gave it back ({error}): it is for {', '.join(able)}") from error


def may_be_elsewhere(kind: type[Work], ability: str) -> bool:
    """Whether another living worker may be able to do what this one cannot."""
    return bool(worker_name()) and any(not unable(row, ability) for row in others(HANDS[kind]))


def hosts_to_ask(ability: str) -> list[str]:
    """Other hosts than this one whose living workers may be able to do a scoring."""
    rows = [row for row in others(HANDS[ControlCheck]) if row.host not in ("", settings.HOST)]
    return sorted({row.host for row in rows if not unable(row, ability)})
