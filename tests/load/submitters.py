"""People who submit models while others read: each has an account and a token, and sends a file to the API."""

import asyncio
import json
import time

import urllib3

from tests.load.client import Report
from tests.load.site import manage

COUNT = 50
SECONDS_TO_ANSWER = 60
METRIC = "safety-starter"
# Fills the template of the metric, as somebody who computed the numbers elsewhere, and makes accounts with tokens.
ENTER = f"""
import json, time
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from leaderboard.models import Metric
from leaderboard.people.services.roles import set_role
from leaderboard.people.services.tokens import make_token
from leaderboard.submissions.services.templates import template_of
rows = [json.loads(line) for line in template_of(Metric.objects.get(slug="{METRIC}").protocol, "jsonl")]
tokens = []
for number in range({COUNT}):
    name = f"load-{{time.time_ns()}}"
    user = User.objects.create_user(name, f"{{name}}@example.org")
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    set_role(user, "submitter")
    tokens.append(make_token(user, "load")[1])
print(json.dumps({{"rows": rows, "tokens": tokens}}))
"""


def enter_submitters(environment: dict[str, str]) -> list[tuple[str, bytes]]:
    """Make accounts on the board; returns the token of each, and the file that it is to send."""
    answer = json.loads(manage(environment, "shell", "--verbosity", "0", "-c", ENTER))
    submitters = []
    for number, token in enumerate(answer["tokens"]):
        values = [-1.5 - number / 100, -0.5]
        lines = [json.dumps({**row, "token_log_likelihoods": values}) for row in answer["rows"]]
        submitters.append((token, "\n".join(lines).encode()))
    return submitters


async def submit_in_turn(
    port: int, submitters: list[tuple[str, bytes]], first: float, last: float, report: Report
) -> None:
    """Let each submit once, at even pauses from `first` to `last`, in seconds from now; what came of it is in `report`.

    The time of a submission runs from the moment at which it was due.
    """
    began = time.monotonic()
    pause = (last - first) / (len(submitters) - 1)
    dues = [began + first + number * pause for number in range(len(submitters))]
    await asyncio.gather(*(submit_at(due, port, *one, report) for due, one in zip(dues, submitters, strict=True)))
    report.whole = last - first


async def submit_at(due: float, port: int, token: str, content: bytes, report: Report) -> None:
    """Submit a model when it is due."""
    await asyncio.sleep(due - time.monotonic())
    status = await asyncio.to_thread(submit, port, token, content)
    report.seconds.setdefault(status, []).append(time.monotonic() - due)
    if status != 201:
        report.errors[str(status)] += 1


def submit(port: int, token: str, content: bytes) -> int:
    """Send a file of likelihoods as one person's model; returns the status of the answer."""
    fields = {
        **{"form": "outputs", "metrics": METRIC, "name": f"Load {token[-8:]}", "revision": "1", "kind": "causal"},
        **{"licence": "mit", "file": ("outputs.jsonl", content)},
    }
    answer = urllib3.request(
        "POST",
        f"http://127.0.0.1:{port}/api/v1/submissions",
        fields=fields,
        headers={"Authorization": f"Bearer {token}"},
        timeout=SECONDS_TO_ANSWER,
        retries=False,
    )
    if answer.status != 201:
        print(f"<!-- a submission was answered with {answer.status}: {answer.data[:500].decode()} -->")
    return answer.status
