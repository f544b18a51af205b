import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.files import File
from django.core.management.base import CommandError, CommandParser
from django.forms import Field
from tqdm import tqdm

from leaderboard.card.form import FIELDS
from leaderboard.management.lookup import user_called
from leaderboard.management.output import RefusableCommand
from leaderboard.models import LanguageModel, Submission
from leaderboard.submissions import intake
from leaderboard.submissions.forms.hub import HubForm
from leaderboard.submissions.forms.outputs import OutputsForm, ToolForm
from leaderboard.submissions.queries.progress import SubmissionProgress, describe_submissions, submissions_by

POLL_SECONDS = 0.5
State = Submission.State
FAILED = (State.REFUSED, State.FAILED, State.CANCELLED, State.WITHDRAWN)
WAITS_FOR_SOMEBODY = (State.MODERATED, State.RETURNED)
OF_ALL = ("revision", *FIELDS)
OF_HUB = ("precision",)
OF_OUTPUTS = ("kind", "made_with", "temperature", "top_p", "max_new_tokens")
OF_TOOL = ("k",)


class Command(RefusableCommand):
    help = "Submit a model as the pages do: a hub model, outputs of a closed model, or the log of a tool."

    def add_arguments(self, parser: CommandParser) -> None:
        forms = parser.add_subparsers(dest="form", required=True, metavar="hub|outputs|tool")
        hub = forms.add_parser(Submission.Form.HUB, help="a model of the hub")
        hub.add_argument("hub_id", help="as in org/name, or the address of its page")
        interfaces = LanguageModel.Interface.values
        hub.add_argument("--interface", action="append", choices=interfaces, help="how it is asked; may be given again")
        outputs = forms.add_parser(Submission.Form.OUTPUTS, help="outputs of a closed model, made with our prompts")
        outputs.add_argument("file", type=Path, help="JSON lines, CSV or Parquet")
        tool = forms.add_parser(Submission.Form.TOOL, help="the log of lm-evaluation-harness, HELM or Inspect")
        tool.add_argument("file", type=Path, help="as the tool wrote it")
        tool.add_argument("--results", type=Path, help="results_*.json of lm-evaluation-harness")
        tool.add_argument("--leave-out-others", action="store_true", default=None, help="where it has other prompts")
        for form, fields, more in (
            (hub, HubForm.base_fields, OF_HUB),
            (outputs, OutputsForm.base_fields, OF_OUTPUTS),
            (tool, ToolForm.base_fields, OF_TOOL),
        ):
            form.add_argument("--metric", action="append", dest="metrics", metavar="SLUG", help="may be given again")
            for name in (*OF_ALL, *more):
                form.add_argument(f"--{name.replace('_', '-')}", help=describe(fields[name]))
            form.add_argument("--as", dest="user", metavar="USER", help="whose submission it is")
            form.add_argument("--wait", action="store_true", help="show progress until it is ranked")
            form.add_argument("--json", action="store_true", help="say it as the API does")

    def handle(self, form: str, user: str | None, wait: bool, **options: Any) -> None:
        path: Path | None = options.get("file")
        names = ("hub_id", "interface", "metrics", "leave_out_others", *OF_ALL, *OF_HUB, *OF_OUTPUTS, *OF_TOOL)
        values = {name: options[name] for name in names if options.get(name) is not None}
        owner = user_called(user) if user else self.only_operator()
        open_files: list[File[bytes]] = []
        try:
            upload = self.open_file(path, open_files) if path else None
            if options.get("results"):
                values["results"] = self.open_file(options["results"], open_files)
            submissions = intake.submit(owner, form, values, upload)
        finally:
            for file in open_files:
                file.close()
        for submission in submissions:
            if wait:
                self.follow(owner, submission.pk)
            progress = describe_submissions([submissions_by(owner).get(pk=submission.pk)])[0]
            self.stdout.write(
                json.dumps(asdict(progress), default=str, indent=2) if options["json"] else in_words(progress)
            )

    def only_operator(self) -> User:
        """Who submits where nobody is named."""
        operators = User.objects.filter(is_superuser=True, is_active=True)
        if len(operators) != 1:
            raise CommandError("whose submission is it? Say so with --as USER")
        return operators[0]

    def open_file(self, path: Path, open_files: "list[File[bytes]]") -> "File[bytes]":
        """The file, to be closed with the others."""
        try:
            file = File(path.open("rb"), name=path.name)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from error
        open_files.append(file)
        return file

    def follow(self, owner: User, pk: int) -> None:
        """Show its progress until it has ended, or waits for somebody. Ctrl-C stops the watching, not the work."""
        with tqdm(desc=f"submission {pk}", unit="text") as bar:
            while True:
                progress = describe_submissions([submissions_by(owner).get(pk=pk)])[0]
                bar.total = sum(metric_progress.total for metric_progress in progress.metrics) or None
                bar.update(sum(metric_progress.done for metric_progress in progress.metrics) - bar.n)
                if progress.state in FAILED:
                    raise CommandError(f"{progress.in_words.lower()}: {progress.reason}")
                if progress.state == State.RANKED or progress.state in WAITS_FOR_SOMEBODY:
                    return
                time.sleep(POLL_SECONDS)


def describe(field: Field) -> str:
    """What a field of a form says of itself, as help of an argument."""
    return f"{field.label}. {field.help_text}".strip().replace("%", "%%")


def in_words(progress: SubmissionProgress) -> str:
    """A submission in a line or two."""
    metrics = ", ".join(metric_progress.metric for metric_progress in progress.metrics)
    reason = f" ({progress.reason})" if progress.reason else ""
    place = f" It is at {progress.model_path}" if progress.model_path else ""
    return (
        f"submission {progress.id}: {progress.name} at {progress.revision}, for {metrics}. "
        f"{progress.in_words}{reason}; its page is {progress.path}.{place}"
    )
