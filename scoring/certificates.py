"""The certificates that requests to servers trust."""

import ssl
from functools import cache

import httpx


@cache
def read_certificates() -> ssl.SSLContext:
    """The certificates to trust, read once: that takes longer than a request, and clients may make one alone."""
    return httpx.create_ssl_context()
