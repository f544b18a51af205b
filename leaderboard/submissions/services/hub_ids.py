"""Parse how people name a model of the hub: by its id, or by the address of its page."""

import re
from urllib.parse import unquote, urlsplit

from django.conf import settings

from scoring.language_models import HUB_ID
from scoring.refusals import Refused

HUBS = ("huggingface.co", "www.huggingface.co", "hf.co")  # whose addresses are understood, beside the board's own hub
LONGEST_ID = 96
MODEL_PAGES = ("tree", "blob", "resolve", "raw", "commit", "commits", "blame", "discussions", "settings")
NAMES_REVISION = ("tree", "blob", "resolve", "raw", "commit", "commits", "blame")
OTHER_THINGS = {"datasets": "a dataset", "spaces": "a space", "collections": "a collection", "papers": "a paper"}
REVISION = re.compile(r"(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9._/-]{0,99}", re.ASCII)
SHOWN = 120  # characters of what was written, in messages


def read_reference(reference: str) -> tuple[str, str]:
    """Return the hub id in `reference`, and the revision that an address names ("" if none). Raises Refused.

    An id is a path below the board's own hub. Of an address, only the id and the revision are used.
    """
    text = reference.strip()
    if "://" in text or text.lower().startswith(tuple(f"{host}/" for host in HUBS)):
        hub_id, revision = _parse_address(text if "://" in text else f"https://{text}")
    else:
        hub_id, revision = text.rstrip("/"), ""
    if len(hub_id) > LONGEST_ID:
        raise Refused(f"{hub_id[:SHOWN]!r} has {len(hub_id)} characters, and ids have {LONGEST_ID} at most: check it.")
    if not HUB_ID.fullmatch(hub_id) or hub_id.lower().endswith(".git"):
        raise Refused(
            f"{text[:SHOWN]!r} is not a hub id: write it as in org/name, with Latin letters, digits, and "
            "hyphens, dots and underscores between them."
        )
    return hub_id, check_revision(revision)


def check_revision(revision: str) -> str:
    """Return a branch, tag or commit without blanks around it; "" for none. Raises Refused."""
    text = revision.strip()
    if text and not REVISION.fullmatch(text):
        raise Refused(f"{text[:SHOWN]!r} is not a revision: write a branch, tag or commit, as in main.")
    return text


def _parse_address(text: str) -> tuple[str, str]:
    try:
        address = urlsplit(text)
        host, port = address.hostname or "", address.port
    except ValueError as error:
        raise Refused(f"{text[:SHOWN]!r} is not an address ({error}): write the model's id, as in org/name.") from error
    own = urlsplit(settings.HUB_ENDPOINT)
    if (host, port) != (own.hostname, own.port) and (host not in HUBS or port):
        raise Refused(
            f"{text[:SHOWN]!r} is not an address of this board's hub, {own.netloc}: write the model's id there, as in "
            "org/name."
        )
    parts = [unquote(part) for part in address.path.split("/") if part]
    if parts and parts[0] in OTHER_THINGS:
        raise Refused(f"{text[:SHOWN]!r} is {OTHER_THINGS[parts[0]]}, not a model: write a model's id, as in org/name.")
    place = 1 if len(parts) > 2 and parts[1] in MODEL_PAGES else 2  # old models have no organisation
    names_revision = len(parts) > place + 1 and parts[place] in NAMES_REVISION
    return "/".join(parts[:place]), parts[place + 1] if names_revision else ""
