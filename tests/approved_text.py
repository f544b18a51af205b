"""What an answer says, as text that is kept in a file of tests/approved and compared."""

import difflib
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

APPROVED = Path(__file__).with_name("approved")
IS_APPROVING = bool(os.environ.get("PLUMBLINE_APPROVE"))

MOST_LINES = 250  # that are kept of an answer; the rest is kept as its hash
FRAME = re.compile(
    r"<header class=\"site\">.*?</header>|<footer class=\"site\">.*?</footer>|<style.*?</style>", re.DOTALL
)
DRAWING = re.compile(r"<svg.*?</svg>", re.DOTALL)
DATA = re.compile(r"<script[^>]*application/json[^>]*>(.*?)</script>", re.DOTALL)
# What differs from run to run or from machine to machine, and what stands for it.
TRANSIENT = (
    (re.compile(r" at commit (?:<[^>]+>)?[0-9a-f]{7,64}(?:</\w+>)?"), ""),  # which only a tree with git knows
    (re.compile(r'"device": "[^"]*"'), '"device": DEVICE'),
    (re.compile(r'"at": "[^"]+\.\d+Z"'), '"at": NOW'),  # a look at workers; others are whole seconds
    (re.compile(r'"commit": (?:null|"[0-9a-f]*")'), '"commit": COMMIT'),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b(?=[0-9]*[a-f])[0-9a-f]{7,64}\b"), "HASH"),
    (re.compile(r"\b\d+\.\d+\.\d+(?:[+.]\w+)*\b"), "VERSION"),
    (re.compile(r"\b\d+\xa0(?:minute|hour|day|week|month|year)s?(?:, \d+\xa0\w+)?"), "SPAN"),
    (re.compile(r"\b\d+ (?:minute|hour|day|week|month|year)s?(?:, \d+ \w+)?(?= ago| old)"), "SPAN"),
    (re.compile(r"\b\d[\d,.]*[ \xa0](?:bytes|[kK]B|MB|GB)\b"), "SIZE"),
    (re.compile(r"\b\d\d:\d\d:\d\d UTC\b"), "TIME"),
)
# Processors differ in the last digits of what they compute, and in what is left where two numbers cancel out.
LONG_NUMBER = re.compile(r"-?\b\d+\.\d{7,}(?:e[-+]?\d+)?\b|-?\b\d+(?:\.\d+)?e-\d+\b")
SMALLEST = 1e-12
BLOCK = re.compile(
    r"p|li|tr|d[td]|h[1-4]|div|section|option|label|caption|summary|form|fieldset|legend|table|pre|button|input|select"
    r"|textarea|title|meta"
)
# What an attribute says of looks or of machines, and what stands beside it in words anyway.
LOOKS = {
    "class",
    "style",
    "id",
    "for",
    "aria-labelledby",
    "aria-describedby",
    "aria-controls",
    "src",
    "scope",
    "tabindex",
}


class PageReader(HTMLParser):
    """Collects the lines of a page: a line for each block, with what attributes say in brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "script" or (tag in ("meta", "link") and values.get("name") != "description"):
            return
        if BLOCK.fullmatch(tag):
            self.lines.append(f"{tag}: ")
        elif tag in ("td", "th"):
            self.lines[-1] += " | "
        if values.get("name") == "csrfmiddlewaretoken":
            return
        notes = [f"{name}={value}" if value else name for name, value in attrs if value != "" and name not in LOOKS]
        self.lines[-1] += f"[{' '.join(notes)}]" if notes else ""

    def handle_data(self, data: str) -> None:
        self.lines[-1] += data


def shorten(text: str) -> str:
    """A short hash, which stands for what nobody reads line by line; without a letter that a hash of a board has."""
    return hashlib.sha256(text.encode()).hexdigest()[:12].translate(str.maketrans("abcdef", "ghijkl"))


def drop_transient(text: str) -> str:
    """The text without what differs from run to run, and with six digits of long numbers."""
    for pattern, word in TRANSIENT:
        text = pattern.sub(word, text)
    return LONG_NUMBER.sub(shorten_number, text)


def shorten_number(match: re.Match[str]) -> str:
    """Six digits of a number; 0 for what is left of a difference of equal ones."""
    number = float(match[0])
    return f"{number:.6g}" if abs(number) > SMALLEST else "0"


def read_html(html: str) -> list[str]:
    """The lines of a page, without what stands on every page."""
    html = drop_transient(FRAME.sub("", html))
    html = DRAWING.sub(lambda match: f"<p>drawing {shorten(match[0])}</p>", html)
    html = DATA.sub(lambda match: f"<p>data {shorten(match[1])}</p>", html)
    reader = PageReader()
    reader.feed(html)
    return [line for line in (" ".join(line.split()) for line in reader.lines) if not re.fullmatch(r"\w*:?", line)]


def describe_answer(answer) -> str:
    """What an answer of the test client says: its status, where it leads, and its lines."""
    kind = answer.get("Content-Type", "").partition(";")[0]
    lines = [f"{answer.status_code} {kind} {drop_transient(answer.get('Location', ''))}".strip()]
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    if kind.startswith("text/html"):
        lines += read_html(body.decode())
    elif kind == "application/json":
        lines += drop_transient(json.dumps(json.loads(body), indent=1, ensure_ascii=False)).splitlines()
    elif kind.startswith(("text/", "application/xml", "application/atom", "image/svg")):
        lines += drop_transient(body.decode()).splitlines()
    elif body:
        lines.append("content that is no text")
    if rest := lines[MOST_LINES:]:
        lines[MOST_LINES:] = [f"{len(rest)} more lines {shorten(chr(10).join(rest))}"]
    return "\n".join([*lines, ""])


def name_file(path: str) -> str:
    """The name of the file that keeps what is at an address."""
    return re.sub(r"[^a-z0-9.=-]+", "_", path.lower()).strip("_")[:120] + ".txt"


def compare_with_approved(name: str, text: str) -> None:
    """Fail where the file of this name holds something else; keep the text there where that is asked for."""
    file = APPROVED / name
    if IS_APPROVING:
        file.write_text(text)
    approved_text = file.read_text() if file.exists() else ""
    lines = difflib.unified_diff(approved_text.splitlines(), text.splitlines(), "approved", "now", lineterm="")
    difference = "\n".join(lines)
    assert not difference, (
        f"{name} is something else; if it should be, run `make approve` and read git diff\n{difference}"
    )
