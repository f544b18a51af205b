"""What every page says of itself: to browsers, to search engines, and where it is shared."""

from urllib.parse import urlencode

from django import template
from django.template.base import NodeList, Parser, Token
from django.template.context import Context, RequestContext
from django.templatetags.static import static
from django.utils.safestring import mark_safe

register = template.Library()


class KeepNode(template.Node):
    """See `keep`."""

    def __init__(self, name: str, nodelist: NodeList) -> None:
        self.name, self.nodelist = name, nodelist

    def render(self, context: Context) -> str:
        context[self.name] = mark_safe(" ".join(self.nodelist.render(context).split()))  # noqa: S308 (rendered)
        return ""


@register.tag
def keep(parser: Parser, token: Token) -> KeepNode:
    """`{% keep "name" %}...{% endkeep %}`: what stands between them, to be used more than once; shown nowhere itself.

    A block can stand in a template once only, and a title is said to browsers and to whoever shares a page.
    """
    name = token.split_contents()[1].strip("\"'")
    nodelist = parser.parse(("endkeep",))
    parser.delete_first_token()
    return KeepNode(name, nodelist)


@register.simple_tag(takes_context=True)
def canonical(context: RequestContext) -> str:
    """The whole address of this view: its parameters in order, without empty ones, so that one view has one address."""
    request = context["request"]
    parameters = sorted((name, value) for name, values in request.GET.lists() for value in values if value)
    return str(request.build_absolute_uri(request.path + ("?" + urlencode(parameters) if parameters else "")))


@register.simple_tag(takes_context=True)
def preview_image(context: RequestContext) -> str:
    """The whole address of the picture that stands for the board where a page is shared."""
    return str(context["request"].build_absolute_uri(static("img/preview.png")))
