"""What people write for a model of the hub: its id, or the address of its page."""

import re
from urllib.parse import unquote, urlsplit

from django.conf import settings

from scoring.language_models import HUB_ID

HUBS = ("huggingface.co", "www.huggingface.co", "hf.co")  # whose addresses are understood, beside the board's own hub
LONGEST_ID = 96
OF_A_MODEL = ("tree", "blob", "resolve", "raw", "commit", "commits", "blame", "discussions", "settings")
NAMES_REVISION = ("tree", "blob", "resolve", "raw", "commit", "commits", "blame")
OTHER_THINGS = {"datasets": "a dataset", "spaces": "a space", "collections": "a collection", "papers": "a paper"}
REVISION = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}", re.ASCII)
SHOWN = 120  # characters of what was written, in messages


class NotAnId(ValueError):
    """What was written names no model of the hub; the message says why and what to write."""


def read_reference(written: str) -> tuple[str, str]:
    """The hub id that `written` means, and the revision that an address names ("" where none). Raises NotAnId.

    An id is a path below the board's own hub and nothing else; of an address only the id and the revision are taken.
    """
    text = written.strip()
    if "://" in text or text.lower().startswith(tuple(f"{host}/" for host in HUBS)):
        found, revision = _of_address(text if "://" in text else f"https://{text}")
    else:
        found, revision = text.rstrip("/"), ""
    if len(found) > LONGEST_ID:
        raise NotAnId(f"{found[:SHOWN]!r} has {len(found)} characters, and ids have {LONGEST_ID} at most: check it.")
    if not HUB_ID.fullmatch(found) or found.lower().endswith(".git"):
        raise NotAnId(
            f"{text[:SHOWN]!r} is no id of the hub: write it as in org/name, with Latin letters, digits, and "
            "hyphens, dots and underscores between them."
        )
    return found, check_revision(revision)


def check_revision(written: str) -> str:
    """A branch, tag or commit as it is written, without blanks around it; "" for none. Raises NotAnId."""
    text = written.strip()
    if text and not REVISION.fullmatch(text):
        raise NotAnId(f"{text[:SHOWN]!r} is no revision: write a branch, tag or commit, as in main.")
    return text


def _of_address(text: str) -> tuple[str, str]:
    try:
        address = urlsplit(text)
        host, port = address.hostname or "", address.port
    except ValueError as error:
        raise NotAnId(f"{text[:SHOWN]!r} is no address ({error}): write the model's id, as in org/name.") from error
    own = urlsplit(settings.HUB_ENDPOINT)
    if (host, port) != (own.hostname, own.port) and (host not in HUBS or port):
        raise NotAnId(
            f"{text[:SHOWN]!r} is not an address of this board's hub, {own.netloc}: write the model's id there, as in "
            "org/name."
        )
    parts = [unquote(part) for part in address.path.split("/") if part]
    if parts and parts[0] in OTHER_THINGS:
        raise NotAnId(f"{text[:SHOWN]!r} is {OTHER_THINGS[parts[0]]}, not a model: write a model's id, as in org/name.")
    place = 1 if len(parts) > 2 and parts[1] in OF_A_MODEL else 2  # old models have no organisation
    named = len(parts) > place + 1 and parts[place] in NAMES_REVISION
    return "/".join(parts[:place]), parts[place + 1] if named else ""
