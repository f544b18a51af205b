"""Every command explains itself, and what the guides say to type is taken as they show it."""

import io
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import redirect_stderr
from itertools import product
from pathlib import Path

import pytest
from django.conf import settings as board
from django.core.management import CommandError, get_commands, load_command_class

from leaderboard.queries.docs import APP
from scoring.__main__ import parser as scoring_parser
from scoring.training.__main__ import parser as training_parser

pytestmark = pytest.mark.either_database

GUIDES = ("README.md", "CONTRIBUTING.md")
OWN = sorted(name for name, app in get_commands().items() if app == APP)
PROGRAMS = {"python -m scoring": scoring_parser, "python -m scoring.training": training_parser}
TYPED = re.compile(r"(manage\.py|python -m scoring(?:\.training)?) +([a-z].*|COMMAND .*)")
INCOMPLETE = ("required", "expected one argument", "expected at least one argument")  # what argparse says of a mention
LEAST = 55  # of what the guides show; fewer were not found, rather than not there


def list_typed(text: str) -> Iterator[tuple[str, str, bool]]:
    """What a guide shows: the program, its words, and whether they are whole, as in a block; a mention names less."""
    lines = [(line.strip(), "") if line.startswith("    ") else ("", line) for line in text.splitlines()]
    blocks = re.sub(r"\\\n", " ", "\n".join(code for code, _ in lines)).splitlines()
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", "\n".join(prose for _, prose in lines))]
    for example, is_whole in [*((line, True) for line in blocks), *((span, False) for span in spans)]:
        match = TYPED.search(example) if is_whole else TYPED.match(example)
        if match:
            yield match[1], match[2].strip(), is_whole


SHOWN = sorted({typed for guide in GUIDES for typed in list_typed((Path(board.BASE_DIR) / guide).read_text())})


def parser_of(program: str, command: str) -> ArgumentParser:
    """The parser of a program, or of a command of manage.py."""
    if program in PROGRAMS:
        return PROGRAMS[program]()
    return load_command_class(get_commands()[command], command).create_parser("manage.py", command)


def subparsers_of(parser: ArgumentParser) -> dict[str, ArgumentParser]:
    """What can be named under a command, with the parser of each."""
    names = [action.choices for action in parser._actions if hasattr(action, "_name_parser_map")]
    return dict(names[0]) if names else {}


def options_of(parser: ArgumentParser) -> set[str]:
    """The options of a command and of all that comes under it."""
    own = {option for action in parser._actions for option in action.option_strings}
    return own.union(*map(options_of, subparsers_of(parser).values()))


def spell_out(words: str) -> Iterator[list[str]]:
    """Each way to type what is shown: `a|b` is one of both, what is in brackets is there, capitals stand for a word."""
    line = re.sub(r"[\[\]]", "", re.sub(r" \| ", "|", words)).replace("...", "7")
    line = re.split(r" [<>] ", line)[0]
    choices = [[re.sub(r"^[A-Z][A-Z-]*$", "7", one) for one in word.split("|")] for word in shlex.split(line)]
    yield from map(list, product(*choices))


def read_refusal(parser: ArgumentParser, arguments: list[str]) -> str:
    """What the parser says of arguments that it does not take; "" where it takes them."""
    errors = io.StringIO()
    try:
        with redirect_stderr(errors):
            parser.parse_args(arguments)
    except CommandError as error:
        return str(error)
    except SystemExit:
        return errors.getvalue()
    return ""


def read_help(parser: ArgumentParser, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says of itself with --help."""
    with pytest.raises(SystemExit) as end:
        parser.parse_args(["--help"])
    assert not end.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("name", OWN)
def test_each_command_says_what_it_does(name, capsys):
    command = load_command_class(APP, name)
    parser = command.create_parser("manage.py", name)
    text = read_help(parser, capsys)
    assert text.startswith(f"usage: manage.py {name} ")
    assert len(command.help) > 20
    assert " ".join(command.help.split())[:40] in " ".join(text.split())
    for word, subparser in subparsers_of(parser).items():
        assert read_help(subparser, capsys).startswith(f"usage: manage.py {name} {word} ")


@pytest.mark.parametrize(
    ("program", "words", "is_whole"), SHOWN, ids=[f"{example[0]} {example[1]}" for example in SHOWN]
)
def test_what_a_guide_shows_is_taken(program, words, is_whole):
    command = words.split()[0]
    if program == "manage.py":
        assert command in get_commands(), "there is no such command"
    parser = parser_of(program, command)
    shown_options = {word.split("=")[0] for word in re.findall(r"--[a-z][-a-z]*", words)}
    assert shown_options <= options_of(parser), "there are no such options"
    for typed in spell_out(words):
        if typed[0] == "7":  # any command of the program
            assert all(shown_options <= options_of(one) for one in subparsers_of(parser).values())
            continue
        refusal = read_refusal(parser, typed[1:] if program == "manage.py" else typed)
        assert not refusal or (not is_whole and any(word in refusal for word in INCOMPLETE)), typed


def test_the_guides_are_read():
    assert len(SHOWN) >= LEAST
    assert ("manage.py", "rescore toxicity-profanity --pause | --resume | --cancel", True) in SHOWN
