"""Errors to a Sentry server, where SENTRY_DSN names one: without people, requests' contents or texts."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from leaderboard import logs

KEPT_OF_REQUESTS = ("method", "url")


def begin(dsn: str) -> None:
    """Report errors from now on. Raises ImproperlyConfigured where the package is not installed."""
    try:
        import sentry_sdk
    except ImportError as error:
        raise ImproperlyConfigured(
            'SENTRY_DSN is set, and sentry-sdk is not installed: pip install "sentry-sdk[django]~=2.75"'
        ) from error
    sentry_sdk.init(**options(dsn))


def options(dsn: str) -> dict[str, Any]:
    """How sentry_sdk is set up."""
    return {
        "dsn": dsn,  # and send_default_pii is off, as it is where nobody sets it
        "include_local_variables": False,  # texts stand in them
        "max_request_body_size": "never",
        "max_breadcrumbs": 0,  # log lines and queries, with values
        "traces_sample_rate": 0.0,
        "before_send": before_send,
    }


def before_send(event: dict[str, Any], hint: dict[str, Any]) -> dict[str, Any]:
    """Return the event with no more content than log lines have."""
    request = event.get("request", {})
    event["request"] = {name: request[name] for name in KEPT_OF_REQUESTS if name in request}
    for field in ("user", "extra", "breadcrumbs", "server_name"):
        event.pop(field, None)
    errors = list(chain(hint.get("exc_info", (None, None))[1]))
    by_kind = {type(error).__name__: logs.read_message(error) for error in errors}
    for value in event.get("exception", {}).get("values", []):
        value["value"] = by_kind.get(value.get("type"), logs.WITHHELD)
    entry = event.get("logentry", {})
    if entry:
        event["logentry"] = {"message": entry.get("message", "")}  # the pattern, not what was put into it
    clean_event: dict[str, Any] = cleanse(event)
    return clean_event


def chain(error: BaseException | None) -> Any:
    """Yield an exception and its causes."""
    seen_ids: set[int] = set()
    while error is not None and id(error) not in seen_ids:
        seen_ids.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def cleanse(value: Any) -> Any:
    """Return the value without secrets and e-mail addresses in any string."""
    if isinstance(value, str):
        return logs.scrub_text(value)
    if isinstance(value, dict):
        return {key: cleanse(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleanse(item) for item in value]
    return value
