"""For the machines that watch this one: whether the site is up, whether it can work, and how it does."""

import hmac
from ipaddress import ip_address

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from leaderboard.models import Pulse
from leaderboard.monitoring.board import exposition
from leaderboard.monitoring.readiness import findings


@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    """200 when the database answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when all that is needed answers; 503 with what does not."""
    found = findings()
    ready = set(found.values()) == {"ok"}
    answer = {"ready": ready, "checks": found, "last_sweep": last_sweep()}
    return JsonResponse(answer, status=200 if ready else 503)


def last_sweep() -> str | None:
    """When workers last looked for waiting work; None where they never did, or the database does not say."""
    try:
        at = Pulse.objects.filter(name="sweep").values_list("at", flat=True).first()
    except Error:
        return None
    return at.isoformat(timespec="seconds") if at else None


@require_safe
@never_cache
def prometheus(request: HttpRequest) -> HttpResponse:
    """Metrics in Prometheus's text format, for who may read them."""
    if not may_read(request):
        remedy = (
            "Send `Authorization: Bearer` with the board's METRICS_TOKEN.\n"
            if settings.METRICS_TOKEN
            else "Metrics are for this machine only, until METRICS_TOKEN is set.\n"
        )
        return HttpResponse(remedy, status=403, content_type="text/plain")
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def may_read(request: HttpRequest) -> bool:
    """With METRICS_TOKEN: who sends it. Without: who asks on this machine, and through no proxy."""
    if settings.METRICS_TOKEN:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), settings.METRICS_TOKEN.encode())
    proxied = any(name in request.headers for name in ("X-Forwarded-For", "Forwarded"))
    try:
        return not proxied and ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:  # a socket has no address
        return False
