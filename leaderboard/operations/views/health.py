"""For monitoring: whether the site is up, whether it can work, and its metrics."""

import hmac
from ipaddress import ip_address

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from leaderboard.models import Pulse
from leaderboard.operations.monitoring.board import exposition
from leaderboard.operations.monitoring.readiness import check_all


@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    """200 when the database answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 if everything that the site needs answers; else 503, with what does not."""
    answers = check_all()
    ready = set(answers.values()) == {"ok"}
    answer = {"ready": ready, "checks": answers, "last_sweep": last_sweep()}
    return JsonResponse(answer, status=200 if ready else 503)


def last_sweep() -> str | None:
    """Return the time of the last sweep; None if there was none, or if the database does not answer."""
    try:
        moment = Pulse.objects.filter(name="sweep").values_list("at", flat=True).first()
    except Error:
        return None
    return moment.isoformat(timespec="seconds") if moment else None


@require_safe
@never_cache
def prometheus(request: HttpRequest) -> HttpResponse:
    """Serve metrics in Prometheus's text format to those who may read them."""
    if not may_read(request):
        remedy = (
            "Send `Authorization: Bearer` with the board's METRICS_TOKEN.\n"
            if settings.METRICS_TOKEN
            else "Metrics are for this machine only, until METRICS_TOKEN is set.\n"
        )
        return HttpResponse(remedy, status=403, content_type="text/plain")
    return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)


def may_read(request: HttpRequest) -> bool:
    """Whether the client may read the metrics: it sends METRICS_TOKEN; or, if that is unset, runs on this machine."""
    if settings.METRICS_TOKEN:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), settings.METRICS_TOKEN.encode())
    came_by_proxy = any(name in request.headers for name in ("X-Forwarded-For", "Forwarded"))
    try:
        return not came_by_proxy and ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:  # a socket has no address
        return False
