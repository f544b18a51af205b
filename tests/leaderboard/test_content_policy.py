"""The content security policy as it is sent: with the nonce of the scripts of the same page, of kept pages too."""

import re

import pytest
from django.core.cache import caches
from django.test import Client

from tests.addresses import METRIC, addresses
from tests.leaderboard.conftest import CAUSAL

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

HEADER, REPORT_ONLY = "Content-Security-Policy", "Content-Security-Policy-Report-Only"
MODEL = f"/models/{CAUSAL}/"
SCRIPT = re.compile(r"<script\b([^>]*)>")
ONE_NONCE = re.compile(r"'nonce-[\w+/=-]{22,}'")


@pytest.fixture
def _kept(settings):
    """Pages that are kept, as outside of tests."""
    memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "content-policy"}
    settings.CACHES = {**settings.CACHES, "pages": memory}
    caches["pages"].clear()
    yield
    caches["pages"].clear()


def directives(answer) -> dict[str, str]:
    """The policy of an answer, by directive."""
    parts = (part.strip().partition(" ") for part in answer[HEADER].split(";"))
    return {name: sources for name, _, sources in parts}


def nonces(answer) -> set[str]:
    """Those of the scripts of a page."""
    return set(re.findall(r'<script src="[^"]+" nonce="([^"]+)" defer>', answer.content.decode()))


def faults(path: str, answer) -> list[str]:
    """What of an answer could let text become code."""
    policy, html = directives(answer), answer.content.decode(errors="replace")
    wrong = []
    if policy["default-src"] != "'none'" or "unsafe-eval" in answer[HEADER]:
        wrong.append(answer[HEADER])
    if not answer["Content-Type"].startswith("text/html") or path.startswith("/embed/"):
        return wrong
    if not policy["frame-ancestors"] == policy["base-uri"] == "'none'":
        wrong.append(answer[HEADER])
    wrong += [tag for tag in SCRIPT.findall(html) if " src=" not in tag and "application/json" not in tag]
    wrong += re.findall(r"<[a-z][^>]*\son[a-z]+=|javascript:", html)
    expected = "'self'" if path.startswith("/admin/") else " ".join(f"'nonce-{nonce}'" for nonce in nonces(answer))
    # A page without scripts may have the nonce of the page that could not be made: no text can know it.
    is_unused = not nonces(answer) and ONE_NONCE.fullmatch(policy["script-src"])
    return wrong if policy["script-src"] == expected or is_unused else [*wrong, policy["script-src"]]


@pytest.mark.slow
def test_every_answer_has_a_policy_by_which_no_text_becomes_code(admin_client):
    answers = {path: admin_client.get(path) for path in addresses() if not path.endswith((".zip", "/readyz"))}
    assert {path: wrong for path, answer in answers.items() if (wrong := faults(path, answer))} == {}


def test_each_page_that_is_made_has_a_nonce_of_its_own(client, board):
    first, second = client.get(MODEL), client.get(MODEL)
    assert len(nonces(first)) == len(nonces(second)) == 1
    assert nonces(first).isdisjoint(nonces(second))


@pytest.mark.usefixtures("_kept")
def test_a_kept_page_is_sent_with_the_nonce_that_stands_in_it(board):
    first, second = Client().get(MODEL), Client().get(MODEL)
    (nonce,) = nonces(first)
    assert nonces(second) == {nonce}
    assert directives(first)["script-src"] == directives(second)["script-src"] == f"'nonce-{nonce}'"
    assert nonces(Client().get(f"{MODEL}?metric={METRIC}")) != {nonce}


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("reported", [False, True])
def test_who_has_a_page_keeps_its_policy(client, board, settings, reported):
    if reported:
        policy = settings.CONTENT_SECURITY_POLICY
        settings.CONTENT_SECURITY_POLICY, settings.CONTENT_SECURITY_POLICY_REPORT_ONLY = None, policy
    first = client.get(MODEL)
    again = client.get(MODEL, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    assert (HEADER in first, REPORT_ONLY in first) == (not reported, reported)
    assert HEADER not in again
    assert REPORT_ONLY not in again


def test_a_frame_and_a_badge_have_policies_of_their_own(client, board):
    frame = directives(client.get(f"/embed/?metric={METRIC}"))
    assert (frame["frame-ancestors"], frame["style-src"]) == ("*", "'self'")
    assert "script-src" not in frame
    badge = directives(client.get(f"/badges/{CAUSAL}/{METRIC}.svg"))
    assert badge == {"default-src": "'none'", "style-src": "'unsafe-inline'"}
