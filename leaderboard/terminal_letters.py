"""Letters to the terminal of whoever tries a board out, as they are.

Celery leads what its processes print into the log, which hides addresses that log in their reader: the link that a
letter is about among them.
"""

import sys
from typing import Any

from django.core.mail.backends import console


class TerminalLetters(console.EmailBackend):
    """Django's backend for the terminal, past the log."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"stream": sys.__stdout__} | options)
