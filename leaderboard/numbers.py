"""Numbers as people read them."""

MINUS = "−"  # noqa: RUF001 (it is as wide as a plus)


def minus(text: str) -> str:
    """The numbers in `text` with a minus as wide as a plus."""
    return text.replace("-", MINUS)


def decimals(value: float, digits: int) -> str:
    """A value with so many digits after the point; never a negative nothing."""
    text = f"{value:.{digits}f}"
    return minus(text) if float(text) else text.removeprefix("-")


def plus(value: float, digits: int) -> str:
    """A change with its sign; 0 alone where there is none."""
    return minus(f"{value:+.{digits}f}") if value else "0"
