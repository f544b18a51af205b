"""Asking a hub: every answer within limits of bytes, time and redirects, none of them slept for.

The hub is trusted no more than the repositories on it: it may be slow, endless, or send its readers elsewhere.
"""

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Timer
from typing import Any
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies

import httpx2
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import hf_raise_for_status

from scoring.language_models.refusals import HubBusy, HubUnavailable, ModelRefused

MOST_REDIRECTS = 5
MOST_ERROR_BYTES = 2**12
MOST_METADATA_BYTES = 16 * 2**20  # a repository of 20,000 files has about 8 MB of them
BLOCK = 2**20
TO_PRIVATE = "redirects to an address that is not public, or not by https, which is not followed"
# Addresses that a gateway translates to IPv4 ones, private ones too: NAT64 and 6to4; and the old private ones of IPv6.
TRANSLATED = tuple(ipaddress.ip_network(network) for network in ("64:ff9b::/96", "2002::/16", "fec0::/10"))


@dataclass(frozen=True)
class HubClient:
    """Reads from the hub at `endpoint`; `patience` is how many seconds it may take to answer, body not included."""

    endpoint: str
    token: str | None
    patience: float
    client: httpx2.Client = field(init=False)

    def __post_init__(self) -> None:
        client = httpx2.Client(timeout=self.patience, follow_redirects=False, verify=_read_certificates())
        object.__setattr__(self, "client", client)

    def read_json(self, path: str) -> dict[str, Any]:
        """The JSON object at `path` of the hub, read within `patience` seconds. Raises HubUnavailable."""
        content = bytearray()
        with self.stream(path, seconds=self.patience) as response:
            for part in response.iter_bytes(BLOCK):
                content += part
                if len(content) > MOST_METADATA_BYTES:
                    raise HubUnavailable(
                        f"{self.endpoint} answers with more than {MOST_METADATA_BYTES:,} bytes of metadata"
                    )
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise HubUnavailable(f"{self.endpoint} answers with what is no JSON") from error
        if not isinstance(value, dict):
            raise HubUnavailable(f"{self.endpoint} answers with JSON that is no object")
        return value

    @contextmanager
    def stream(self, path: str, seconds: float, headers: dict[str, str] | None = None) -> Iterator[httpx2.Response]:
        """The answer to GET `path`, its body unread. After `seconds` the connection is cut, whatever comes over it.

        Redirects are followed to public addresses and to the hub's own only; the token stays with the hub. Raises as
        huggingface_hub does on an error's status, and HubUnavailable.
        """
        url = f"{self.endpoint}{path}"
        deadline = time.monotonic() + seconds
        for _ in range(MOST_REDIRECTS + 1):
            with self._get(url, deadline, headers or {}) as response:
                if response.is_redirect:
                    url = self._follow(url, response.headers.get("location", ""))
                    continue
                if response.is_error:
                    _raise(response)
                yield response
                return
        raise HubUnavailable(f"{self.endpoint} redirects more than {MOST_REDIRECTS} times")

    @contextmanager
    def _get(self, url: str, deadline: float, headers: dict[str, str]) -> Iterator[httpx2.Response]:
        is_hub = _host(url) == _host(self.endpoint)
        token = self.token if is_hub else None
        sockets: list[socket.socket] = []
        is_cut = False

        def note_socket(event: str, info: dict[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":
                connection = info["return_value"].get_extra_info("socket")
                if not is_hub and not getproxies() and not _is_public_address(connection.getpeername()[0]):
                    connection.close()  # the name led elsewhere when it was checked
                    raise HubUnavailable(f"{self.endpoint} {TO_PRIVATE}")
                sockets.append(connection)

        def hang_up() -> None:
            nonlocal is_cut
            is_cut = True
            for connection in sockets:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # closed already
                    continue

        # Timeouts of the client count from byte to byte: a byte a second would be read for ever.
        timer = Timer(max(0.0, deadline - time.monotonic()), hang_up)
        timer.daemon = True
        timer.start()
        try:
            with self.client.stream(
                "GET",
                url,
                headers={**build_hf_headers(token=token or False), "Accept-Encoding": "identity", **headers},
                extensions={"trace": note_socket},
            ) as response:
                # A connection that was used before makes no new socket.
                stream = response.extensions.get("network_stream")
                if stream is not None and not sockets:
                    sockets.append(stream.get_extra_info("socket"))
                yield response
            if is_cut:  # an answer without a length ends where the connection does
                raise HubUnavailable(f"{self.endpoint} did not answer in time: it was cut off")
        except httpx2.HTTPError as error:
            if is_cut:
                raise HubUnavailable(f"{self.endpoint} did not answer in time: it was cut off") from error
            raise
        finally:
            timer.cancel()

    def _follow(self, url: str, location: str) -> str:
        """Where a redirect leads. Raises HubUnavailable unless that is the hub itself, or https at a public address."""
        target = urljoin(url, location)
        parts = urlsplit(target)
        if _host(target) == _host(self.endpoint):
            return target
        if parts.scheme != "https" or not parts.hostname or not _is_public(parts.hostname):
            raise HubUnavailable(f"{self.endpoint} {TO_PRIVATE}")
        return target


def file_path(ref: str, commit: str, name: str) -> str:
    """Where a hub has a file of a repository at a commit."""
    return f"/{quote(ref)}/resolve/{quote(commit, safe='')}/{quote(name)}"


@cache
def _read_certificates() -> ssl.SSLContext:
    """The certificates to trust, read once: that takes longer than to look a model up."""
    return httpx2.create_ssl_context()


def _host(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    try:
        return parts.scheme, parts.hostname or "", parts.port
    except ValueError:  # a port that is none
        return "", "", None


def _is_public(hostname: str) -> bool:
    try:
        addresses = {address[4][0] for address in socket.getaddrinfo(hostname, 443, proto=socket.IPPROTO_TCP)}
    except OSError:
        return False
    return bool(addresses) and all(_is_public_address(str(address)) for address in addresses)


def _is_public_address(text: str) -> bool:
    address = ipaddress.ip_address(text.split("%")[0])
    return address.is_global and not address.is_multicast and not any(address in network for network in TRANSLATED)


def _raise(response: httpx2.Response) -> None:
    """Raise what the status means, having read no more of the body than a message."""
    wait = response.headers.get("retry-after", "")
    if response.status_code in (429, 503) and wait.isdecimal():
        statement = f"{response.request.url.host} answered with status {response.status_code}"
        raise HubBusy(f"{statement} and asks to wait {wait} s", float(wait))
    content = bytearray()
    for part in response.iter_bytes(MOST_ERROR_BYTES):
        content += part
        break
    short = httpx2.Response(
        response.status_code,
        headers={name: value for name, value in response.headers.items() if name.lower().startswith("x-")},
        content=bytes(content[:MOST_ERROR_BYTES]),
        request=response.request,
    )
    hf_raise_for_status(short)
    raise ModelRefused(f"the hub answered with status {response.status_code}")
