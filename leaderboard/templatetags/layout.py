"""What pages are laid out with: every template has these without loading them."""

from django import template
from django.contrib.humanize.templatetags.humanize import intcomma
from django.template.defaultfilters import date
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

from leaderboard.glossary import TERMS
from leaderboard.models import MetricVersion

register = template.Library()


@register.simple_block_tag
def scroll(content: str, label: str = "", *parts: object, heading: str = "", look: str = "") -> SafeString:
    """`{% scroll "Ranks of {}" name %}...{% endscroll %}`: what may be wider than a phone, to be scrolled by keys too.

    label: what it is called, with a pair of braces for each of `parts`.
    heading: in place of a label, the id of the element that names it. look: classes beside `scroll`.
    """
    name = (
        format_html('aria-labelledby="{}"', heading)
        if heading
        else format_html('aria-label="{}"', label.format(*parts))
    )
    classes = f"scroll {look}".strip()
    return format_html('<div class="{}" tabindex="0" role="region" {}>{}</div>', classes, name, content)


@register.simple_tag
def provenance_badge(version: MetricVersion) -> SafeString:
    """Whether the numbers of a version were measured here or published elsewhere, as a badge."""
    return format_html('<span class="badge badge-{}">{}</span>', version.provenance, version.get_provenance_display())


@register.simple_tag
def provenance(version: MetricVersion) -> SafeString:
    """Which version of a metric made the numbers: badge, number, status unless it is current, and its day or source."""
    status = "" if version.status == MetricVersion.Status.CURRENT else f", {version.get_status_display().lower()}"
    day = date(localtime(version.published_at), "j F Y")
    origin = f", of {day}" if version.measured else f": {version.source}"
    return format_html("{} Metric version {}{}{}", provenance_badge(version), version.number, status, origin)


@register.simple_tag
def term(key: str, name: str = "") -> SafeString:
    """A word of the glossary, as a link to its meaning there. name: other words for it."""
    return format_html('<a class="term" href="{}#{}">{}</a>', reverse("docs_glossary"), key, name or TERMS[key].name)


@register.simple_tag
def meaning(key: str) -> str:
    """What a word of the glossary means."""
    return TERMS[key].meaning


@register.simple_tag
def digest(sha256: str) -> SafeString:
    """The beginning of a hash, which says the whole of it where a pointer rests on it."""
    return format_html('<code title="{}">{}</code>', sha256, sha256[:12])


@register.simple_tag
def caption(
    title: str, *parts: object, count: object = "", remark: str = "", name: str = "", visually_hidden: bool = False
) -> SafeString:
    """`{% caption "Runs of {}" model count=3 %}`: the title of a table, and how many rows it has.

    title: with a pair of braces for each of `parts`. remark: what follows the count at once.
    name: the id by which a region is labelled. visually_hidden: whether only screen readers get it.
    """
    attributes = format_html(' id="{}"', name) if name else SafeString("")
    if visually_hidden:
        attributes += SafeString(' class="visually-hidden"')
    rows = "" if count == "" else format_html(' <span class="count">{}{}</span>', count, remark)
    return format_html("<caption{}>{}{}</caption>", attributes, title.format(*parts), rows)


@register.filter
def counted(number: int, noun: str) -> str:
    """`{{ 3|counted:"model" }}`: 3 models; of a noun with another plural, both: `"entry,entries"`."""
    singular, _, plural = noun.partition(",")
    return f"{intcomma(number)} {singular if number == 1 else plural or f'{singular}s'}"
