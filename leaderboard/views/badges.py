"""Badges: a picture that says where a model stands, for pages of others."""

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.text import Truncator
from django.views.decorators.http import require_safe

from leaderboard.queries.badges import Badge, badge_of
from leaderboard.views.keeping import keep_page
from leaderboard.views.parameters import pick
from leaderboard.xml import sayable

SHOWN = ("rank", "value")
NARROW, WIDE = set("ilj.,:;'|!() tfrI1-"), set("mwMW@%")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"  # its colours stand in it
MOST = 60  # characters of a part


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a badge: its text, and how wide that is in pixels."""

    text: str

    @property
    def width(self) -> int:
        """About what common fonts need at 11 px; the picture then makes the text just as wide."""
        return round(sum(4 if c in NARROW else 9.5 if c in WIDE else 6.6 for c in self.text))


@require_safe
@keep_page(personal=False, reads=("show",))
def badge(request: HttpRequest, model: str, metric: str) -> HttpResponse:
    """The badge of a model and a metric. `show`: rank, which is usual, or value. 404 where there is no such model."""
    return draw_badge(badge_of(model, metric, pick(request, "show", SHOWN[0], SHOWN)))


def draw_badge(badge: Badge) -> HttpResponse:
    """The badge as SVG."""
    label, message = (Part(sayable(Truncator(text).chars(MOST))) for text in (badge.label, badge.said))
    label_width, right = label.width + 32, message.width + 16  # with the mark and some room
    context = {
        "title": sayable(badge.title),
        "label": label,
        "said": message,
        "left": label_width,
        "right": right,
        "width": label_width + right,
        "said_at": label_width + 8,
    }
    content = render_to_string("badge.svg", context)
    status = 200 if badge.known else 404
    return HttpResponse(
        content, status=status, content_type="image/svg+xml", headers={"Content-Security-Policy": POLICY}
    )
