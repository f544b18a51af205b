"""Text for XML."""

import re

UNSAYABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def sayable(text: str) -> str:
    """`text` without the control characters that make XML malformed: names are others' words."""
    return UNSAYABLE.sub("", text)
