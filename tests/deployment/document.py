"""The blocks of deploy/README.md: what they are, and what a reader puts in place of its examples."""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)
COMPOSE, SYSTEMD = "With Docker Compose", "With systemd"  # headings
COMMANDS = "sh"
EXAMPLES = ("json", "yaml", "text")
# What the document has as examples, and what stands there instead on a machine without a name on the internet.
SUBSTITUTES = {
    "REPOSITORY": "/srv/repository.git",
    "board.example.org": "localhost",
    "submission://USER:PASSWORD@smtp.example.org:587": "file:////var/lib/plumbline/letters",
}


@dataclass(frozen=True)
class DocumentBlock:
    """One fenced block: the heading above it, its number below that heading, its language and its text."""

    section: str
    number: int
    language: str
    text: str

    @property
    def title(self) -> str:
        return f"{self.section} ({self.number})"

    @property
    def is_for_compose(self) -> bool:
        """Whether it is run where Docker is. Everything else is run where systemd is."""
        return self.section == COMPOSE or "docker compose" in self.text

    @property
    def installs(self) -> bool:
        """Whether it is one of those that put a board into service, which all others presuppose."""
        return self.section in (COMPOSE, SYSTEMD)

    def fill(self) -> str:
        """Its commands, with the examples replaced."""
        text = self.text
        for example, substitute in SUBSTITUTES.items():
            text = text.replace(example, substitute)
        return text


def read_blocks(path: Path) -> list[DocumentBlock]:
    """All fenced blocks of a Markdown file, in their order."""
    text = path.read_text(encoding="utf-8")
    headings = [(match.start(), match[1]) for match in HEADING.finditer(text) if not _is_fenced(text, match.start())]
    numbers: dict[str, int] = {}
    blocks = []
    for match in FENCE.finditer(text):
        section = [title for start, title in headings if start < match.start()][-1]
        numbers[section] = numbers.get(section, 0) + 1
        blocks.append(DocumentBlock(section, numbers[section], match[1], match[2]))
    return blocks


def list_indented(path: Path) -> list[str]:
    """Lines that Markdown shows as code without a fence: nothing could tell whether they are commands."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return re.findall(r"(?<=\n\n) {4,}(?! *(?:[-*]|\d+\.) ).+", text)


def _is_fenced(text: str, position: int) -> bool:
    return any(match.start() < position < match.end() for match in FENCE.finditer(text))
