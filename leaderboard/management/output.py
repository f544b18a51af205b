"""What commands print: sentences for people, or with --json one JSON value for programs; progress goes to stderr."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder

from scoring.artefacts import ArtefactError
from scoring.cage.limits import CageError
from scoring.refusals import Refused


class RefusableCommand(BaseCommand):
    """A command that says in a sentence why what it was asked for cannot be done."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except (Refused, ArtefactError, CageError, OSError) as error:
            raise CommandError(str(error)) from error


class BoardCommand(RefusableCommand):
    """A command that every program can read: `say` is for people, `answer` for --json, and each is silent elsewhere."""

    as_json = False

    def create_parser(self, *args: Any, **options: Any) -> CommandParser:
        parser = super().create_parser(*args, **options)
        parser.add_argument("--json", action="store_true", help="print one JSON value instead of sentences")
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        self.as_json = bool(options.get("json"))
        return super().execute(*args, **options)

    def say(self, line: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            self.stdout.write(line)

    def answer(self, content: Any) -> None:
        """Print what --json asks for; once a command."""
        if self.as_json:
            self.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder))


def json_format(parser: CommandParser) -> None:
    """Let --json be short for --format json, in a command that has formats."""
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
