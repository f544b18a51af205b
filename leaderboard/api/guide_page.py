"""What the API is, for people."""

from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from leaderboard.views.keeping import keep_page

EXAMPLE = Path(__file__).parent.parent / "api" / "example.py"
USUAL = "http://127.0.0.1:8000"  # the address that the example has


@require_safe
@keep_page()
def api_guide(request: HttpRequest) -> HttpResponse:
    """Every operation and every field, from the description that programs read; and an example."""
    from leaderboard.api.guide import read_guide  # it describes the addresses, which lead here

    address = request.build_absolute_uri("/").rstrip("/")
    context = {
        "guide": read_guide(),
        "address": address,
        "example": EXAMPLE.read_text(encoding="utf-8").replace(USUAL, address),
        "description": request.build_absolute_uri(reverse("api:openapi-json")),
        "limit": settings.API_REQUESTS_A_MINUTE,
        "limit_with_token": settings.API_REQUESTS_A_MINUTE_WITH_TOKEN,
    }
    return render(request, "api.html", context)
