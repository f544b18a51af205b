"""Charts in pages."""

from typing import Any
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils.safestring import SafeString, mark_safe

from leaderboard.charts import Chart
from leaderboard.charts.svg import draw_inline

register = template.Library()


@register.simple_tag
def draw(chart: Chart) -> SafeString:
    """The chart as SVG, whole and narrow."""
    return mark_safe(draw_inline(chart))  # noqa: S308 (all words in it are escaped)


@register.simple_tag
def plotly_script() -> str:
    """Where Plotly's script is."""
    return static(settings.PLOTLY_SCRIPT)


@register.simple_tag(takes_context=True)
def chart_address(context: dict[str, Any], chart: Chart, extension: str) -> str:
    """Where the file of a chart is: this page's own address and more; `chart_query` is that of a part kept for many."""
    query = context.get("chart_query")
    if query is None:
        query = [
            (name, value)
            for name, values in context["request"].GET.lists()
            for value in values
            if name not in ("chart", "format")
        ]
    return "?" + urlencode([*query, ("chart", chart.name), ("format", extension)])
