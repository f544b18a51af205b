"""How templates are written, and what they are laid out with."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Template, engines
from django.template.library import import_library

from leaderboard.models import MetricVersion
from leaderboard.templatetags.layout import counted

TEMPLATES = settings.BASE_DIR / "templates"
LONGEST = 160


def long_lines(path: Path) -> list[str]:
    """The lines of a template that are too long to review, each with its place."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return [f"{path.relative_to(TEMPLATES)}:{number}" for number, line in lines if len(line) > LONGEST]


def test_no_line_is_too_long_to_review():
    # A letter in plain text is exempt: its lines are those that its reader gets.
    paths = [path for path in sorted(TEMPLATES.rglob("*.*")) if path.suffix in {".html", ".svg"}]
    assert len(paths) > 150
    assert [line for path in paths for line in long_lines(path)] == []


@pytest.mark.parametrize(
    ("tag", "opening"),
    [
        ('scroll "Runs of {}" name', 'class="scroll" tabindex="0" role="region" aria-label="Runs of &lt;b&gt;"'),
        ('scroll heading="runs"', 'class="scroll" tabindex="0" role="region" aria-labelledby="runs"'),
        ('scroll "Runs" look="tall"', 'class="scroll tall" tabindex="0" role="region" aria-label="Runs"'),
    ],
)
def test_a_region_that_scrolls_is_named_and_keeps_its_content(tag: str, opening: str):
    page = Template(f"{{% {tag} %}}<table>{{{{ name }}}}</table>{{% endscroll %}}")
    assert page.render(Context({"name": "<b>"})) == f"<div {opening}><table>&lt;b&gt;</table></div>"


@pytest.mark.parametrize(
    ("tag", "caption"),
    [
        ('caption "Runs of {}" name', "<caption>Runs of &lt;b&gt;</caption>"),
        ('caption "Runs" count=0', '<caption>Runs <span class="count">0</span></caption>'),
        ('caption "Runs" count=3 remark=" in all"', '<caption>Runs <span class="count">3 in all</span></caption>'),
        ('caption "Runs" name="runs"', '<caption id="runs">Runs</caption>'),
        ('caption "Runs" visually_hidden=True', '<caption class="visually-hidden">Runs</caption>'),
        ('digest "0123456789abcdef"', '<code title="0123456789abcdef">0123456789ab</code>'),
    ],
)
def test_captions_and_digests(tag: str, caption: str):
    assert Template(f"{{% {tag} %}}").render(Context({"name": "<b>"})) == caption


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [(0, "run", "0 runs"), (1, "run", "1 run"), (1234, "run", "1,234 runs"), (2, "entry,entries", "2 entries")],
)
def test_what_is_counted_agrees_with_its_number(number: int, noun: str, words: str):
    assert counted(number, noun) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0.0004, "&lt; 0.001"),
        (0.021, "0.021"),
        (0.0496, "0.0496"),
        (0.0504, "0.0504"),
        (0.0561, "0.056"),
        (0.372, "0.37"),
        (1.0, "1.00"),
    ],
)
def test_a_p_value_is_never_rounded_onto_or_across_what_tells_apart(value: float | None, text: str):
    assert Template("{% load board %}{{ value|p }}").render(Context({"value": value})) == text


def test_a_line_of_provenance_says_version_status_and_origin():
    versions = [
        MetricVersion(number=2, provenance="measured", status="current", published_at=datetime(2024, 5, 6, tzinfo=UTC)),
        MetricVersion(number=1, provenance="published", status="superseded", source="A & B 2023"),
    ]
    assert [Template("{% provenance version %}").render(Context({"version": version})) for version in versions] == [
        '<span class="badge badge-measured">Measured here</span> Metric version 2, of 6 May 2024',
        '<span class="badge badge-published">Published figures</span> Metric version 1, superseded: A &amp; B 2023',
    ]


def test_templates_load_what_they_use_and_every_tag_is_used():
    used_names = set()
    for path in sorted(TEMPLATES.rglob("*.*")):
        text = path.read_text()
        names = set(re.findall(r"(?:{%\s*|\|)(\w+)", text))
        used_names |= names
        for libraries in re.findall(r"{% load ([\w ]+) %}", text):
            idle = [library for library in libraries.split() if not names & provided_names(library)]
            assert idle == [], path
    own_libraries = [path.stem for path in (settings.BASE_DIR / "leaderboard/templatetags").glob("[a-z]*.py")]
    assert len(own_libraries) > 4
    assert [name for library in own_libraries for name in provided_names(library) - used_names] == []


def provided_names(library: str) -> set[str]:
    """The tags and filters of a library of tags."""
    module = import_library(engines["django"].engine.libraries[library])
    return {*module.tags, *module.filters}
