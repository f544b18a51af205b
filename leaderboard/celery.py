"""The Celery application: settings of leaderboard.settings under CELERY_, tasks of leaderboard.tasks.

What workers and beat do of themselves is in leaderboard.worker, which they alone import.
"""

import os
from typing import Any

from celery import Celery
from django.dispatch import receiver
from django_structlog.celery.signals import modify_context_before_task_publish
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

app = Celery("plumbline")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["leaderboard"])
app.steps["worker"].add(DjangoStructLogInitStep)


def route_work(name: str, *_args: object, **_kwargs: object) -> dict[str, str] | None:
    """The queue that messages of a kind of work go to; None for other tasks."""
    from leaderboard.models import WORK_TABLES

    return next(({"queue": table.kind.queue} for table in WORK_TABLES if table.kind.task_name == name), None)


@receiver(modify_context_before_task_publish)
def name_no_work_to_a_task(context: dict[str, Any], **_kwargs: object) -> None:
    """Lines of a task name the work that it does itself, and the request and the task that it came from."""
    from leaderboard.models import WORK_TABLES

    for table in WORK_TABLES:
        context.pop(table.kind.key, None)
