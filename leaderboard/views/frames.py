"""How other pages show a ranking: a frame, and where programs ask for it."""

from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from leaderboard.models import Metric
from leaderboard.rankings.ranking import Ranking
from scoring.metrics.formulas import slice_phrase
from scoring.metrics.measures import Measure

WIDTH, HEIGHT = 640, 480  # pixels, where nobody asks for fewer


def title_of(metric: Metric, measure: Measure, name: str) -> str:
    """What a ranking is of."""
    return f"{metric.title}: {measure.label.lower()}, {slice_phrase(name)}"


def frame(address: str, title: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    """The HTML that shows in a page what stands at `address`."""
    return format_html(
        '<iframe src="{}" title="{}" width="{}" height="{}" loading="lazy" style="border:0;max-width:100%"></iframe>',
        address,
        title,
        width,
        height,
    )


def frame_of(request: HttpRequest, query: str, ranking: Ranking) -> str:
    """The HTML that shows the ranking of this query; as text, to be copied."""
    address = request.build_absolute_uri(reverse("embed") + query)
    return str.__str__(frame(address, title_of(ranking.metric, ranking.measure, ranking.slice)))


def oembed_address(request: HttpRequest, query: str) -> str:
    """Where programs ask how to show the ranking of this query."""
    url = request.build_absolute_uri(reverse("rankings") + query)
    return request.build_absolute_uri(f"{reverse('oembed')}?{urlencode({'url': url, 'format': 'json'})}")
