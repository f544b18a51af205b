"""What is known of the machinery: workers that live and what went wrong."""

from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from leaderboard.models.clock import birth_field
from leaderboard.models.constraints import one_of
from scoring.language_models.precision import BYTES_A_NUMBER
from scoring.language_models.product_rates import ProductRates

SILENT_AFTER = timedelta(seconds=60)  # four beats of a worker, by the clock of the database


class WorkerQuerySet(models.QuerySet["Worker"]):
    def alive(self) -> "WorkerQuerySet":
        """Those that gave a sign of life lately."""
        return self.filter(beat_at__gt=Now() - SILENT_AFTER)

    def silent(self) -> "WorkerQuerySet":
        """Those that were not stopped in order, and gave no sign of life lately."""
        return self.filter(beat_at__lte=Now() - SILENT_AFTER)


class Worker(models.Model):
    """A worker process, by its own account. Its row goes when it is stopped in order, and stays when it dies."""

    name = models.CharField(max_length=200, unique=True, help_text="As Celery calls it: gpu@host.")
    queues = models.JSONField(default=list)
    started_at = models.DateTimeField()
    beat_at = models.DateTimeField()
    cage = models.JSONField(default=list, help_text="What protects it from strangers' models, as it tried out.")
    stuck_since = models.DateTimeField(
        null=True, blank=True, help_text="Since when it goes on with what is not its work."
    )
    stuck_at = models.CharField(max_length=200, blank=True, help_text="What that is.")
    host = models.CharField(max_length=200, blank=True, help_text="The machine that it runs on.")
    code = models.CharField(max_length=64, blank=True, help_text="Of its code, the release and a hash.")
    refusal = models.TextField(blank=True, help_text="Why it takes no work.")
    memory = models.BigIntegerField(null=True, blank=True, help_text="Bytes that its work may use.")
    disk_free = models.BigIntegerField(null=True, blank=True, help_text="Bytes that are free where it writes.")
    environment = models.JSONField(default=dict, help_text="Library versions and device.")
    abilities = models.JSONField(
        default=dict, help_text="By scorer, as in `scorer profanity`, and by model that it lacks: fingerprint, problem."
    )
    rates = models.JSONField(
        null=True, blank=True, help_text="Of matrix products in each precision, in GFLOP/s; empty: not measured yet."
    )

    objects = WorkerQuerySet.as_manager()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def precisions(self) -> list[dict[str, Any]]:
        """Each precision with its rate in GFLOP/s, that rate as a multiple of float32's, and why it is refused."""
        if self.rates is None:
            return []
        rates = ProductRates(**self.rates)
        return [
            {
                "name": name,
                "rate": rates.by_precision[name],
                "ratio": rates.ratio(name),
                "problem": self.problem_with(f"precision {name}"),
            }
            for name in BYTES_A_NUMBER  # in this order: PostgreSQL keeps the keys of JSON in one of its own
            if name in rates.by_precision
        ]

    def problem_with(self, ability: str) -> str:
        """Why it cannot do what `ability` names, as far as it has tried; "" where it can, or nobody knows yet."""
        return str(self.abilities.get(ability, {}).get("problem", ""))


class Release(models.Model):
    """What a board runs, from when it migrated the database: workers with anything else take no work."""

    code = models.CharField(max_length=64)
    environment = models.JSONField(
        default=dict, db_default={}, help_text="The version of Python, and those of libraries as its lock pins them."
    )
    installed_at = birth_field()

    class Meta:
        ordering = ("-installed_at", "-pk")

    def __str__(self) -> str:
        return self.code


class Pulse(models.Model):
    """When something that the board does for ever was last done: the sweep, the watch, the look for incidents."""

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class IncidentKind(models.TextChoices):
    DRIFT = "drift", "A scorer drifted"
    SERVICE = "service", "A ranked service changed"
    FAILED = "failed", "Work failed"
    WORKERS = "workers", "Work waits and no worker lives"
    SCORER = "scorer", "A scorer is unavailable for long"
    ENDING = "ending", "A scorer ends"
    STUCK = "stuck", "A worker makes no progress"
    CAGE = "cage", "A worker runs strangers' models without a protection"
    WAITING = "waiting", "Work waits for the board to work again"
    HOSTS = "hosts", "Hosts disagree, are away, or run something else"
    BRAKE = "brake", "A scorer drifts again and again"
    BEAT = "beat", "Beat is silent"
    SWEEP = "sweep", "Nobody looks for waiting work"
    BROKER = "broker", "The broker does not answer"
    DATABASE = "database", "The database does not answer"
    DISK = "disk", "A disk is nearly full"
    STORAGE = "storage", "The storage is away"
    FILES = "files", "Stored files are damaged or missing"
    BACKUP = "backup", "The newest backup is too old, or failed"
    STILL = "still", "A rescoring stands still"
    RETRYING = "retrying", "Work is tried again and again"


class Incident(models.Model):
    """Something an operator should know, from when it was seen to when it was over. One open a key."""

    Kind = IncidentKind

    key = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=IncidentKind)
    subject = models.CharField(max_length=200, help_text="What it is about, as in `metric toxicity-profanity`.")
    summary = models.TextField(help_text="What happened, in a sentence.")
    path = models.CharField(max_length=300, help_text="The page that shows it.")
    opened_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-opened_at", "-pk")
        constraints = (
            one_of("kind", IncidentKind),
            models.UniqueConstraint(fields=["key"], condition=Q(resolved_at=None), name="incident_one_open_a_key"),
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"


class CacheEntry(models.Model):
    """A value of `leaderboard.caches.TableCache`, as JSON."""

    key = models.CharField(max_length=250, primary_key=True)
    value = models.TextField()
    expires_at = models.DateTimeField(null=True, blank=True, db_index=True, help_text="Empty: it never expires.")

    class Meta:
        verbose_name_plural = "cache entries"

    def __str__(self) -> str:
        return self.key
