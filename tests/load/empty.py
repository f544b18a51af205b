"""The physical limit: an answer as large as a page, for which nothing is done."""

import os

BODY = os.urandom(30_000)  # as a ranking is, compressed


def application(_environ, start_response):
    """The same bytes for whatever is asked."""
    head = [("Content-Type", "text/html"), ("Content-Encoding", "gzip"), ("Content-Length", str(len(BODY)))]
    start_response("200 OK", head)
    return [BODY]
