import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.files import File
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from leaderboard.management.lookup import user_called
from leaderboard.models import Submission
from leaderboard.queries.sent import Sent, described, sent_by
from leaderboard.services import submissions

POLL_SECONDS = 0.5
State = Submission.State
FAILED = (State.REFUSED, State.FAILED, State.CANCELLED, State.WITHDRAWN)
WAITS_FOR_SOMEBODY = (State.MODERATED, State.RETURNED)
OF_ALL = ("revision", "name", "family", "licence", "notes")
OF_OUTPUTS = ("kind", "made_with", "temperature", "top_p", "max_new_tokens")
OF_TOOL = ("k",)


class Command(BaseCommand):
    help = "Submit a model as the pages do: a hub model, outputs of a closed model, or the log of a tool."

    def add_arguments(self, parser: CommandParser) -> None:
        forms = parser.add_subparsers(dest="form", required=True, metavar="hub|outputs|tool")
        hub = forms.add_parser(Submission.Form.HUB, help="a model of the hub")
        hub.add_argument("hub_id", help="as in org/name, or the address of its page")
        outputs = forms.add_parser(Submission.Form.OUTPUTS, help="outputs of a closed model, made with our prompts")
        outputs.add_argument("file", type=Path, help="JSON lines, CSV or Parquet")
        tool = forms.add_parser(Submission.Form.TOOL, help="the log of lm-evaluation-harness, HELM or Inspect")
        tool.add_argument("file", type=Path, help="as the tool wrote it")
        tool.add_argument("--results", type=Path, help="results_*.json of lm-evaluation-harness")
        tool.add_argument("--leave-out-others", action="store_true", default=None, help="where it has other prompts")
        for form, more in ((hub, ()), (outputs, OF_OUTPUTS), (tool, OF_TOOL)):
            form.add_argument("--metric", action="append", dest="metrics", metavar="SLUG", help="may be given again")
            for name in (*OF_ALL, *more):
                form.add_argument(f"--{name.replace('_', '-')}")
            form.add_argument("--as", dest="user", metavar="USER", help="whose submission it is")
            form.add_argument("--wait", action="store_true", help="show progress until it is ranked")
            form.add_argument("--json", action="store_true", help="say it as the API does")

    def handle(self, form: str, user: str | None, wait: bool, **options: Any) -> None:
        path: Path | None = options.get("file")
        names = ("hub_id", "metrics", "leave_out_others", *OF_ALL, *OF_OUTPUTS, *OF_TOOL)
        values = {name: options[name] for name in names if options.get(name) is not None}
        owner = user_called(user) if user else self.only_operator()
        opened = []
        try:
            upload = self.opened(path, opened) if path else None
            if options.get("results"):
                values["results"] = self.opened(options["results"], opened)
            submission = submissions.submit(owner, form, values, upload)
        except submissions.SubmissionRefused as refused:
            raise CommandError(str(refused)) from refused
        finally:
            for file in opened:
                file.close()
        if wait:
            self.follow(owner, submission.pk)
        found = described([sent_by(owner).get(pk=submission.pk)])[0]
        self.stdout.write(json.dumps(asdict(found), default=str, indent=2) if options["json"] else in_words(found))

    def only_operator(self) -> User:
        """Who submits where nobody is named."""
        found = User.objects.filter(is_superuser=True, is_active=True)
        if len(found) != 1:
            raise CommandError("whose submission is it? Say so with --as USER")
        return found[0]

    def opened(self, path: Path, opened: list[File]) -> File:
        """The file, to be closed with the others."""
        try:
            file = File(path.open("rb"), name=path.name)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from error
        opened.append(file)
        return file

    def follow(self, owner: User, pk: int) -> None:
        """Show its progress until it has ended, or waits for somebody. Ctrl-C stops the watching, not the work."""
        with tqdm(desc=f"submission {pk}", unit="text") as bar:
            while True:
                found = described([sent_by(owner).get(pk=pk)])[0]
                bar.total = sum(asked.total for asked in found.metrics) or None
                bar.update(sum(asked.done for asked in found.metrics) - bar.n)
                if found.state in FAILED:
                    raise CommandError(f"{found.in_words.lower()}: {found.reason}")
                if found.state == State.RANKED or found.state in WAITS_FOR_SOMEBODY:
                    return
                time.sleep(POLL_SECONDS)


def in_words(sent: Sent) -> str:
    """A submission in a line or two."""
    metrics = ", ".join(asked.metric for asked in sent.metrics)
    reason = f" ({sent.reason})" if sent.reason else ""
    where = f" It is at {sent.model_path}" if sent.model_path else ""
    return (
        f"submission {sent.id}: {sent.name} at {sent.revision}, for {metrics}. "
        f"{sent.in_words}{reason}; its page is {sent.path}.{where}"
    )
