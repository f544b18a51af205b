"""Fetching in a process of its own: it can be ended at once, whatever the hub does, and goes on where it stopped.

python -m scoring.language_models.fetching      # what to fetch on stdin, as JSON; a line of JSON for each step
"""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import constants

from scoring.language_models import refusals
from scoring.language_models.hub import fetch
from scoring.language_models.refusals import HubBusy, HubUnavailable

MOMENT = 0.25  # seconds between two looks
ROOT = Path(__file__).resolve().parent.parent.parent
MOST_LINE = 2**16
KEPT = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CACHE_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)


def fetch_apart(
    ref: str,
    commit: str,
    endpoint: str,
    token: str | None,
    *,
    quota: int | None,
    progress: Callable[[int], None],
    check: Callable[[], None],
    idle_seconds: float,
    private_too: bool = True,
) -> Path:
    """As `scoring.language_models.hub.fetch`. `progress` gets the bytes that came so far.

    `check` is called several times a second; what it raises ends the process. Raises what `fetch` does, and
    HubUnavailable where nothing came for `idle_seconds`.
    """
    request: dict[str, Any] = {"ref": ref, "commit": commit, "endpoint": endpoint, "token": token}
    request |= {"quota": quota, "private_too": private_too, "cache": constants.HF_HUB_CACHE}
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_TELEMETRY": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "scoring.language_models.fetching"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None  # noqa: S101 (for mypy: it is a pipe)
    assert process.stdout is not None  # noqa: S101 (the same)
    try:
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        last_arrival, lines = time.monotonic(), b""
        while True:
            check()
            if time.monotonic() - last_arrival > idle_seconds:
                raise HubUnavailable(f"{endpoint} sent nothing of {ref} for {idle_seconds:g} s")
            if not select.select([process.stdout], [], [], MOMENT)[0]:
                continue
            piece = os.read(process.stdout.fileno(), MOST_LINE)
            if not piece:
                raise HubUnavailable(f"the process that fetched {ref} ended (status {process.wait()})")
            last_arrival = time.monotonic()
            *whole, lines = (lines + piece).split(b"\n")
            for line in whole:
                message: dict[str, Any] = json.loads(line)
                if "folder" in message:
                    return Path(message["folder"])
                if "error" in message:
                    raise _error(message)
                progress(message["done"])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _error(message: dict[str, Any]) -> Exception:
    if message["error"] == HubBusy.__name__:
        return HubBusy(message["message"], float(message["seconds"]))
    kind: type[Exception] | None = vars(refusals).get(message["error"])
    if kind is None:
        return HubUnavailable(f"{message['error']}: {message['message']}")
    return kind(message["message"])


def main() -> None:
    """Fetch what stdin says."""
    request = json.loads(sys.stdin.read())
    constants.HF_HUB_CACHE = request.pop("cache")
    last_report, last, previous_bytes = 0.0, 0, 0

    def tell(**values: Any) -> None:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()

    def progress(of_file: int) -> None:
        nonlocal last_report, last, previous_bytes
        previous_bytes += last if of_file < last else 0  # another file
        last = of_file
        if time.monotonic() - last_report > MOMENT:
            last_report = time.monotonic()
            tell(done=previous_bytes + last)

    try:
        folder = fetch(**request, progress=progress)
    except HubBusy as busy:
        tell(error="HubBusy", message=str(busy), seconds=busy.seconds)
    except Exception as error:  # noqa: BLE001 - told to the process that asked
        tell(error=type(error).__name__, message=str(error)[:2000])
    else:
        tell(folder=str(folder))


if __name__ == "__main__":
    main()
