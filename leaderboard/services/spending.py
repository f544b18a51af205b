"""What runs of chat services spend: counted in the database before it is spent, whatever becomes of the worker.

Before each part of the texts is asked, twice what it takes is set aside, as requests may have to be tried again, or as
much as the limit leaves. What was not spent is given back afterwards. A worker that is killed between the two leaves
too much counted, never too little.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import F

from leaderboard.models import Run
from scoring.refusals import Refused
from scoring.served import Allowance

MARGIN = 2  # times what is planned is set aside


class SpendingLimitReached(Refused):
    """The next requests might pass the limit of a run; the message says what was spent and how to raise it."""


@contextmanager
def set_aside(run: Run, requests: int, tokens: int) -> Iterator[Allowance]:
    """What `run` may spend on a part that takes so many requests and at most so many tokens.

    Raises SpendingLimitReached where the limits leave too little for it.
    """
    row = Run.objects.filter(pk=run.pk)
    spent_requests, spent_tokens = row.values_list("requests_made", "tokens_used").get()
    free_requests = settings.SERVED_MOST_REQUESTS - spent_requests
    free_tokens = settings.SERVED_MOST_TOKENS - spent_tokens
    if requests > free_requests or tokens > free_tokens:
        raise SpendingLimitReached(
            f"the run stopped before its spending limit: {spent_requests:,} of {settings.SERVED_MOST_REQUESTS:,} "
            f"requests and {spent_tokens:,} of {settings.SERVED_MOST_TOKENS:,} tokens are spent, and the next part may "
            f"take {requests:,} requests and {tokens:,} tokens. Raise SERVED_MOST_REQUESTS or SERVED_MOST_TOKENS and "
            "evaluate the model again: what was collected is kept"
        )
    allowance = Allowance(min(MARGIN * requests, free_requests), min(MARGIN * tokens, free_tokens))
    _count(run, allowance.most_requests, allowance.most_tokens)
    try:
        yield allowance
    finally:
        _count(run, allowance.requests - allowance.most_requests, allowance.tokens - allowance.most_tokens)


def _count(run: Run, requests: int, tokens: int) -> None:
    Run.objects.filter(pk=run.pk).update(
        requests_made=F("requests_made") + requests, tokens_used=F("tokens_used") + tokens
    )


def key_for(address: str) -> str | None:
    """The key for the server at `address`: that of the longest address in COMPLETIONS_API_KEYS that it begins with.

    Where none does, it is COMPLETIONS_API_KEY.
    """
    target = urlsplit(address)
    matches = [
        (len(path), key)
        for other, key in settings.COMPLETIONS_API_KEYS.items()
        if (place := urlsplit(other))[:2] == target[:2]
        and f"{target.path}/".startswith(f"{(path := place.path.rstrip('/'))}/")
    ]
    return max(matches)[1] if matches else settings.COMPLETIONS_API_KEY
