"""Whether whoever asked for a page still waits for it: none is made for a closed connection."""

import socket
from typing import Any

from django.http import HttpRequest

CLIENT_CLOSED = 499  # as nginx logs it


class ClientGone(Exception):
    """The connection that the request came by was closed."""


def require_client(request: HttpRequest) -> None:
    """Raise ClientGone where the connection was closed. To be called before and between the costly parts of a page.

    Only gunicorn hands its socket over; with any other server this does nothing.
    """
    connection: Any = request.META.get("gunicorn.socket")
    if type(connection) is not socket.socket:  # one of TLS cannot be looked into
        return
    try:
        is_closed = connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except (BlockingIOError, InterruptedError):
        return
    except OSError:
        is_closed = True
    if is_closed:
        raise ClientGone
