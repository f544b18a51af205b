"""Log lines: for people, or as JSON for machines; with the ids of request, task and work, and without secrets.

What is secret is taken out of every line, whoever wrote it: e-mail addresses, tokens, passwords in addresses, the keys
among the settings. Of exceptions that may quote what was worked on, texts among it, only the kind and the place are
told.
"""

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import structlog
from django.apps import apps
from django.conf import settings
from structlog.typing import EventDict

from scoring.scorers.services import SERVICE_KEYS

HIDDEN = "[hidden]"
WITHHELD = "(its message is withheld: it may quote a text)"
LONGEST = 500  # characters of an exception's message
SECRET_SETTINGS = (
    *("SECRET_KEY", "HUB_TOKEN", "COMPLETIONS_API_KEY", "EMAIL_HOST_PASSWORD", "METRICS_TOKEN"),
    *("ALERT_SECRET", "SENTRY_DSN", "BACKUP_SECRET_ACCESS_KEY"),
    *SERVICE_KEYS,
)
PATTERNS = (
    (re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+"), "[e-mail]"),
    (re.compile(r"\bplumb_\w+"), HIDDEN),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{4,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"(://)[^\s/@]*:[^\s/@]*@"), rf"\1{HIDDEN}@"),
    (
        re.compile(r"((?:key|token|secret|password|invitation|sessionid|csrftoken)=)[^\s&;,'\"]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    # Addresses that log in their reader.
    (re.compile(r"(/accounts/(?:confirm-email|password/reset/key)/)(?!done\b)[^\s/?\"']+"), rf"\1{HIDDEN}"),
)
PLAIN = (OSError, ImportError, MemoryError, RuntimeError)  # kinds of errors that do not quote what was worked on
OURS = ("leaderboard.", "scoring.", "django.db.", "django.core.exceptions", "kombu.", "redis.", "httpx.", "celery.")


def scrub_text(text: str) -> str:
    """Return the text without secrets and e-mail addresses."""
    for secret in secrets():
        text = text.replace(secret, HIDDEN)
    for pattern, instead in PATTERNS:
        text = pattern.sub(instead, text)
    return text


def secrets() -> Iterator[str]:
    """The keys among the settings, where they are long enough to be told from words."""
    for name in SECRET_SETTINGS:
        value = getattr(settings, name, None)
        if isinstance(value, str) and len(value) >= 6:
            yield value
    yield from getattr(settings, "ALERT_WEBHOOK", ())
    yield from filter(None, getattr(settings, "COMPLETIONS_API_KEYS", {}).values())


def read_message(error: BaseException) -> str:
    """Return the first line of an exception's message, or WITHHELD if its class may quote texts of users."""
    module = f"{type(error).__module__}."
    if isinstance(error, PLAIN) or module.startswith(OURS):
        lines = str(error).splitlines() or [""]
        return scrub_text(lines[0][:LONGEST])
    return WITHHELD


def format_exception(error: BaseException) -> str:
    """Format an exception and its causes with their tracebacks, as Python does."""
    parts, seen_ids = [], set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen_ids:
        seen_ids.add(id(current))
        frames = "".join(traceback.format_tb(current.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{type(current).__name__}: {read_message(current)}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n\n".join(reversed(parts))


def add_exception(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Processor: the exception of a line as text."""
    exception = event.pop("exc_info", None)
    error = exception[1] if isinstance(exception, tuple) else exception
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["exception"] = format_exception(error)
        if event.get("logger") == "celery.app.trace":  # its own line quotes the exception and the arguments
            event["event"] = f"a task failed: {type(error).__name__}"
        event.pop("error", None)  # the same message again, as it is
    return event


def scrub(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Processor: remove secrets from a line."""
    return {
        name: scrub_text(value) if isinstance(value, str) else value
        for name, value in event.items()
        if not name.startswith("_")
    }


def as_line(_logger: Any, _method: str, event: EventDict) -> str:
    """Processor: a line for people, with the ids of what it is about at its end."""
    clock_time = datetime.fromisoformat(event["timestamp"]).strftime("%H:%M:%S")
    names = id_names()
    ids = " ".join(f"{name.removesuffix('_id')}={str(event[name])[:8]}" for name in names if name in event)
    named_keys = {*names, "parent_task_id", "timestamp", "level", "logger", "event", "exception"}
    more = " ".join(f"{name}={value}" for name, value in event.items() if name not in named_keys and value is not None)
    message = "  ".join(part for part in (f"{event['logger']}: {event['event']}", more, ids) if part)
    # Messages quote strangers, who must not write lines of their own or control the terminal.
    line = f"{clock_time} {event['level'].upper():<7} {escape_unprintable(message)}"
    return f"{line}\n{event['exception']}" if "exception" in event else line


def escape_unprintable(text: str) -> str:
    r"""Return the text with line breaks, escapes and other unprintable characters written out, as in \n and \x1b."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def id_names() -> list[str]:
    """What names the work, the task and the request that a line is about; there is no work before the models are."""
    if not apps.models_ready:
        return ["task_id", "request_id"]
    from leaderboard.models import WORK_TABLES

    return [*(table.kind.key for table in WORK_TABLES), "task_id", "request_id"]


def as_json(_logger: Any, _method: str, event: EventDict) -> str:
    """Processor: one JSON object in one line."""
    return json.dumps(event, default=lambda value: scrub_text(str(value)), ensure_ascii=False)


def add_time(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Processor: when the line was written, in UTC; for libraries' lines, when they were."""
    record = event.get("_record")
    moment = datetime.fromtimestamp(record.created, UTC) if record else datetime.now(UTC)
    event["timestamp"] = moment.isoformat(timespec="milliseconds")
    return event


@lru_cache
def formatter(style: str) -> logging.Formatter:
    """What the handlers of settings.LOGGING write lines with. style: "lines" or "json"."""
    begin = [structlog.contextvars.merge_contextvars, structlog.stdlib.add_logger_name, structlog.stdlib.add_log_level]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *begin,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=begin,
        processors=[add_time, add_exception, scrub, as_json if style == "json" else as_line],
    )
