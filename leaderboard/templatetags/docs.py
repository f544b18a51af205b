"""Headings that can be linked to, a table of contents of them, and code in sentences."""

from itertools import cycle

from django import template
from django.template.base import NodeList, Parser, Token
from django.template.context import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

register = template.Library()
HEADINGS = "headings of the guide"


class GuideNode(template.Node):
    """See `guide`."""

    def __init__(self, nodelist: NodeList) -> None:
        self.nodelist = nodelist

    def render(self, context: Context) -> str:
        headings: list[tuple[str, str]] = []
        with context.push(**{HEADINGS: headings}):
            body = self.nodelist.render(context)
        links = format_html_join("", '<li><a href="#{}">{}</a></li>', headings)
        return format_html(
            '<div class="guide"><nav class="toc" aria-labelledby="toc-title"><p id="toc-title">On this page</p>'
            '<ul>{}</ul></nav><div class="prose">{}</div></div>',
            links,
            body,
        )


@register.tag
def guide(parser: Parser, token: Token) -> GuideNode:
    """`{% guide %}...{% endguide %}`: a text with its table of contents, of every `heading` of level 2 in it."""
    nodelist = parser.parse(("endguide",))
    parser.delete_first_token()
    return GuideNode(nodelist)


@register.simple_tag(takes_context=True)
def heading(context: Context, level: int, anchor: str, title: str) -> SafeString:
    """A heading with a link to itself."""
    if level == 2:
        context[HEADINGS].append((anchor, title))
    return format_html(
        '<h{0} id="{1}">{2} <a class="anchor" href="#{1}" aria-label="Link to: {2}">#</a></h{0}>', level, anchor, title
    )


@register.filter
def coded(text: str) -> SafeString:
    """A sentence in which what stands between backticks is code."""
    parts = zip(cycle(("{}", "<code>{}</code>")), text.split("`"), strict=False)
    return mark_safe("".join(format_html(form, part) for form, part in parts))  # noqa: S308 (each part is escaped)


@register.simple_tag
def listing(code: str, title: str, step: int, words: str) -> SafeString:
    """Lines of code of a step of a recipe, which scroll by themselves; `words` say what they are."""
    form = (
        '<div class="listing" tabindex="0" role="region" aria-label="{}, step {}: {}"><pre><code>{}</code></pre></div>'
    )
    return format_html(form, title, step, words, code.strip("\n"))
