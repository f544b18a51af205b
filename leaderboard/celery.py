"""The Celery application: settings of leaderboard.settings under CELERY_, tasks of leaderboard.tasks."""

import os

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

app = Celery("plumbline")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["leaderboard"])


@worker_ready.connect
def sweep_at_once(**_kwargs: object) -> None:
    """A worker that starts looks for waiting work itself, and whether other libraries than before call for checks."""
    app.send_task("leaderboard.tasks.sweep")
    app.send_task("leaderboard.tasks.watch")


@worker_shutting_down.connect
def ask_running_work_to_stop(**_kwargs: object) -> None:
    """Work in progress stops at its next batch, so that a worker goes down in seconds and loses one shard at most."""
    from leaderboard.services.leases import stop_requested

    stop_requested.set()
