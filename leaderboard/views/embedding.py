"""A ranking in pages of others: the frame, and oEmbed, by which programs find it."""

from dataclasses import replace
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element, SubElement, tostring

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from leaderboard.rankings.versions import metrics_with_versions
from leaderboard.views.frames import HEIGHT, WIDTH, frame, title_of
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import read_number
from leaderboard.views.ranking_address import PARAMETERS, RankingChoice, parse
from leaderboard.views.rankings import read_tables
from leaderboard.xml import sayable
from scoring.metrics.formulas import MEASURES, slice_label

LEAST = 200
KEPT_SECONDS = 3600
POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *"


@require_safe
@keep_page(personal=False, reads=PARAMETERS)
@xframe_options_exempt
def embed(request: HttpRequest) -> HttpResponse:
    """The first ranking of the page of the same query, small, for a frame of any page: no cookie, form or script."""
    choice = parse(request, metrics_with_versions())
    # The page has figures of a metric like it beside its own; a frame has no room to say so.
    own_rankings = [ranking for ranking in choice.rankings if ranking.metric == choice.metric]
    tables, problem = read_tables(replace(choice, rankings=own_rankings[:1]))
    context = {
        "choice": choice,
        "table": tables[0] if tables else None,
        "why_empty": problem,
        "value_label": slice_label(choice.slice),
        "whole": request.build_absolute_uri(reverse("rankings") + choice.here),
    }
    response = render(request, "embed.html", context)
    response["Content-Security-Policy"] = POLICY
    return response


@require_safe
@keep_page(personal=False, reads=("url", "format", "maxwidth", "maxheight"))
def oembed(request: HttpRequest) -> HttpResponse:
    """oEmbed 1.0 of a ranking: `url` of its page, `format` json or xml, and `maxwidth` and `maxheight` in pixels."""
    kind = request.GET.get("format") or "json"
    if kind not in ("json", "xml"):
        return HttpResponse(f"format = {kind!r}: use json or xml", status=501, content_type="text/plain; charset=utf-8")
    choice = choice_at(request, request.GET.get("url", ""))
    width, height = at_most(request, "maxwidth", WIDTH), at_most(request, "maxheight", HEIGHT)
    title = title_of(choice.metric, MEASURES[choice.measure], choice.slice)
    description: dict[str, str | int] = {
        "version": "1.0",
        "type": "rich",
        "title": f"{title} · Plumbline",
        "provider_name": "Plumbline",
        "provider_url": request.build_absolute_uri(reverse("rankings")),
        "cache_age": KEPT_SECONDS,
        "width": width,
        "height": height,
        "html": frame(request.build_absolute_uri(reverse("embed") + choice.here), title, width, height),
    }
    if kind == "json":
        return JsonResponse(description)
    root = Element("oembed")
    for name, value in description.items():
        SubElement(root, name).text = sayable(str(value))
    content = tostring(root, encoding="utf-8", xml_declaration=True)
    return HttpResponse(content, content_type="text/xml; charset=utf-8")


def choice_at(request: HttpRequest, url: str) -> RankingChoice:
    """What the page at `url` shows. Raises Http404 where that is no ranking of this board."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.netloc != request.get_host() or parts.path not in (
        reverse("rankings"),
        reverse("front"),
        reverse("embed"),
    ):
        address = request.build_absolute_uri(reverse("rankings"))
        raise Http404(f"url = {url[:200]!r} is not a ranking of this board: use {address}?metric=...")
    page_request = HttpRequest()
    page_request.GET = QueryDict(parts.query)
    if any("\0" in value for values in page_request.GET.lists() for value in (values[0], *values[1])):
        raise Http404(f"url = {url[:200]!r} holds a NUL character: leave %00 out")
    return parse(page_request, metrics_with_versions())


def at_most(request: HttpRequest, name: str, usual: int) -> int:
    """A size in pixels, not larger than asked for. Raises Http404 where that is no number, or nothing fits in it."""
    pixels = read_number(request, name) or usual
    if pixels < LEAST:
        raise Http404(f"{name} = {pixels}: use a number of pixels from {LEAST}")
    return min(usual, pixels)
