from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from leaderboard.formats import FORMATS, Table, TableColumn
from leaderboard.management.output import BoardCommand
from leaderboard.services.licences import list_licences


class Command(BoardCommand):
    help = "The licences of all packages that Plumbline runs with, as they state them; --texts prints them in full."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--texts", action="store_true", help="with the licence files of each package")

    def handle(self, texts: bool, **_: Any) -> None:
        packages = list_licences(settings.BASE_DIR / "pyproject.toml")
        names = ("name", "version", "licence")
        fields = (*names, "texts") if texts else names
        self.answer([{name: getattr(package, name) for name in fields} for package in packages])
        rows = [[getattr(package, name) for name in names] for package in packages]
        columns = [TableColumn(name.capitalize(), False) for name in names]
        self.say(FORMATS["markdown"](Table("Licences of third parties", columns, rows)))
        for package in packages if texts else ():
            self.say(f"\n{'=' * 78}\n{package.name} {package.version}: {package.licence}\n")
            for text in package.texts or ("The package brings no licence file.",):
                self.say(text)
