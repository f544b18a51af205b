"""What report cards of scorers say of texts."""

from django import template
from django.utils.translation import get_language_info

register = template.Library()

EXPECTED = {"_nh": "not hateful", "_h": "hateful"}  # the ends of HateCheck's names


@register.filter
def language_name(code: str) -> str:
    """The English name of a language by its code, as in German; the code where it has no name here."""
    try:
        return str(get_language_info(code.lower())["name"])
    except KeyError:
        return code


@register.filter
def functionality_label(name: str) -> str:
    """A functionality as people read it, as in "derog neg emote (hateful)" of derog_neg_emote_h."""
    for end, label in EXPECTED.items():
        if name.endswith(end):
            return f"{name.removesuffix(end).replace('_', ' ')} ({label})"
    return name.replace("_", " ")


@register.filter
def thousandfold(cost: float) -> str:
    """What 1,000 texts cost, of the cost of one: in three digits, as in 0.38 or 1,000."""
    return write_three_digits(1000 * cost)


@register.filter
def speed(rate: float) -> str:
    """Texts a second in three digits, as in 0.982, 41.2 or 42,900."""
    return write_three_digits(rate)


def write_three_digits(value: float) -> str:
    """The value in three significant digits, thousands apart."""
    return f"{float(f'{value:.3g}'):,.15g}"
