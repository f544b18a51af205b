"""What every page says, as somebody has read and approved it: `make approve` keeps what it says now.

A change of a page shows in the files of tests/approved, which are read like code when a change is reviewed.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator
from datetime import date
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.core import mail
from django.core.management import CommandError, CommandParser, call_command, get_commands, load_command_class
from django.db import connection, transaction
from django.test import Client, override_settings

from leaderboard.celery import app
from leaderboard.exchange.schemas import describe_table
from leaderboard.exchange.tables import BY_NAME
from leaderboard.management.output import BoardCommand
from leaderboard.models import Metric, Submission
from leaderboard.queries.docs import METHODS, chapters
from leaderboard.services.seed import METRICS
from leaderboard.submissions.services.letters import SUBJECTS, send_news
from scoring.__main__ import parser as engine_parser
from scoring.scorers import perspective
from scoring.training.__main__ import parser as recipes_parser
from tests.addresses import addresses
from tests.approved_text import (
    APPROVED,
    IS_APPROVING,
    compare_with_approved,
    describe_answer,
    drop_transient,
    name_file,
)
from tests.leaderboard.approved_board import MODEL, add_everything, build, fix_dates, restart_counting
from tests.leaderboard.conftest import keep_quickly
from tests.leaderboard.living import (
    SLUG,
    standing_in,
)
from tests.leaderboard.submitting import entered_by_number
from tests.rows import Board, load_board, recall_boards

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.either_database,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="numbers rows as SQLite does: the run on SQLite tests it"),
]

RANKING = f"metric={SLUG}"
TOXIGEN = "metric=safety-toxigen"
GPT_2, OTHER = "hosseini-2023-gpt-2", "hosseini-2023-bert-base-uncased"
# Metrics of published figures, with those of their measures that models are ranked by.
PRINTED = {
    "regard": ("regard_safety_score", "regard_score"),
    "rtp-detoxification": ("expected_max_toxicity", "toxic_fraction", "toxicity_probability"),
    "rtp-detoxify-multilingual": ("expected_max_toxicity", "toxic_fraction"),
    "rtp-helm-perspective": ("expected_max_toxicity", "toxic_fraction_unique", "toxicity_probability"),
    "rtp-lexicon-farrell": ("lexicon_frequency",),
    "rtp-perspective": ("expected_max_toxicity", "toxicity_probability"),
    "safety-implicit-hate": ("safety_score",),
    "safety-toxigen": ("likelihood_auc", "safety_excess"),
    "stereoset": ("icat", "language_modelling_score"),
    "winobias": ("total_effect", "total_effect_filtered"),
    "winogender": ("total_effect", "total_effect_filtered"),
}
VIEWS = (
    *(f"/{page}/?metric={metric}" for metric in PRINTED for page in ("rankings", "history")),
    *(f"/demographics/?metric={metric}" for metric in ("regard", "safety-implicit-hate")),
    *(f"/rankings.markdown?metric={metric}&measure={key}" for metric, keys in PRINTED.items() for key in keys),
    f"/rankings/?{RANKING}",
    f"/rankings/?{RANKING}&version=1",
    f"/rankings/?{RANKING}&measure=toxic_fraction&slice=insult:all",
    f"/rankings/?{RANKING}&columns=family&columns=kind&columns=licence&columns=revision&columns=precision&sort=-model",
    f"/rankings/?{RANKING}&q=entrant 2&model_kind=causal&size=unknown&rows=25",
    "/rankings/?metric=rtp-helm-perspective&sort=-value&rows=25&page=2",
    f"/rankings/?{TOXIGEN}&as_of=2025-01-01",
    f"/rankings/?{TOXIGEN}&family=GPT-2",
    f"/rankings/?{TOXIGEN}&kind=masked&slice=women",
    f"/rankings.csv?{RANKING}",
    f"/rankings.json?{RANKING}",
    f"/rankings.latex?{RANKING}",
    f"/rankings.markdown?{RANKING}",
    f"/rankings.csv?{TOXIGEN}&kind=masked",
    f"/history/?{RANKING}",
    f"/history/?{RANKING}&from=1&to=2",
    f"/drift/?{RANKING}",
    f"/drift/?{RANKING}&check=2",
    f"/demographics/?{TOXIGEN}",
    f"/demographics/?{TOXIGEN}&demographic=women&kind=causal",
    f"/compare/?m={MODEL}&m=entrant-2&m=entrant-3",
    f"/compare/?m={GPT_2}",
    f"/contrast/?m={MODEL}&m=entrant-2",
    f"/compare-scorers/?a={SLUG}@1&b={SLUG}@2",
    f"/compare-scorers.csv?a={SLUG}@1&b={SLUG}@2",
    f"/compare-scorers.json?a={SLUG}@1&b={SLUG}@2",
    f"/compare-scorers.csv?a={SLUG}@1&b=safety-toxigen",
    "/agreement/?numbers=measured&coefficient=kendall",
    "/agreement/?x=safety-toxigen/safety_score/average&y=regard/regard_score/asian",
    "/search/?q=gpt",
    "/search/?q=standin",
    "/search/?q=nothing at all",
    f"/models/{GPT_2}/",
    "/models/gpt-2/",
    "/models/?sort=-parameters&family=GPT-2",
    f"/embed/?{RANKING}",
    f"/api/v1/metrics/{SLUG}/standings?version=1",
    f"/api/v1/models/{MODEL}/results?limit=3",
    f"/metrics/{SLUG}/versions/2/manifest.json",
    f"/history/?{RANKING}&measure=toxic_fraction&model={MODEL}",
    "/history/?metric=rtp-helm-perspective&top=10",
    f"/drift/?{RANKING}&check=6",
    f"/drift/?{RANKING}&check=3",
    f"/about/changes/?{RANKING}",
    "/operate/work/?kind=scorings&state=failed",
    "/operate/audit/?verb=find+drift",
    "/operate/models/?q=entrant",
    "/operate/submissions/?state=moderated",
    f"/oembed?url=http://testserver/rankings/?{RANKING}&format=json",
    "/scorers/standin/",
    f"/models/{MODEL}/samples/?{RANKING}&show=yes&order=lowest",
    *(f"/submissions/{number}/" for number in range(2, 7)),
    "/api/v1/nothing",
    "/api/v1/metrics/none",
    f"/api/v1/metrics/{SLUG}/standings?version=9",
    f"/api/v1/metrics/{SLUG}/standings?measure=none",
    f"/api/v1/metrics/{SLUG}/standings?slice=none",
    f"/api/v1/metrics/{SLUG}/standings?as_of=yesterday",
    f"/api/v1/metrics/{SLUG}/standings?as_of=2020-01-01",
    f"/api/v1/metrics/{SLUG}/rank-changes?from=1&to=2",
    f"/api/v1/metrics/{SLUG}/rank-changes?from=1&to=9",
    "/api/v1/models?limit=0",
    "/api/v1/models?limit=many",
    "/api/v1/models?search=entrant&kind=causal",
    f"/api/v1/models/{GPT_2}",
    "/api/v1/scorers/standin",
    f"/api/v1/agreement?metric={SLUG}",
    f"/rankings/?{RANKING}&version=9",
    f"/rankings/?{RANKING}&as_of=2020-01-01",
    f"/rankings/?{RANKING}&sort=none",
    "/history/?metric=none",
    f"/history/?{RANKING}&from=2&to=1",
    f"/drift/?{RANKING}&check=99",
    "/compare/?m=none",
    f"/contrast/?m={MODEL}",
    "/oembed?url=http://testserver/about/",
    f"/badges/{MODEL}/{SLUG}.svg?show=value",
    f"/badges/{GPT_2}/safety-toxigen.svg",
    *(f"/models/entrant-{number}/" for number in range(2, 9)),
    *(f"/api/v1/models/entrant-{number}" for number in (4, 6, 7)),
    f"/badges/entrant-6/{SLUG}.svg",
    f"/rankings/?{RANKING}&version=3",
    f"/compare/?m={MODEL}&m=entrant-6&m=entrant-7&{RANKING}",
    "/models/?kind=causal&source=server",
    *(f"/operate/entries/{number}/release/" for number in (1, 2)),
    "/operate/work/?kind=scorings",
    "/operate/work/?kind=downloads",
    f"/models/{MODEL}/?chart=entrant-1-toxicity-standin-measured-ranks&format=svg",
    f"/models/{MODEL}/?chart=entrant-1-toxicity-standin-measured-ranks&format=json",
    *(f"/docs/metrics/{definition.name}/" for chapter in chapters() for definition in chapter.definitions),
    *(f"/docs/methods/{name}/" for name in METHODS),
    *(f"/metrics/{values['slug']}/" for values in tomllib.loads(METRICS.read_text(encoding="utf-8"))["metrics"]),
)
# What operators do, each on a page of its own that asks before.
STEPS = (
    *(f"/operate/rescorings/2/{step}/" for step in ("pause", "resume", "cancel")),
    *(f"/operate/models/{MODEL}/{step}/" for step in ("restrict", "withdraw", "hide", "show")),
    "/operate/models/entrant-6/open/",
    *(f"/operate/submissions/{number}/{step}/" for number in (2, 6) for step in ("accept", "return", "reject")),
    *(f"/operate/entries/3/{step}/" for step in ("release", "refuse")),
    "/operate/workers/gpu@gamma/restart/",
)
REASONS = {"reason": "To be sure.", "note": "Its makers asked."}
# Commands that only say something.
COMMANDS = (
    f"standings {SLUG}",
    f"standings {SLUG} --metric-version 1 --measure toxic_fraction",
    "standings safety-toxigen --slice women",
    f"rank_changes {SLUG} --from 1 --to 2",
    "rank_changes rtp-helm-perspective --measure toxic_fraction_unique --slice toxic --from 1 --to 2",
    "work",
    "work scorings --state failed",
    "submissions",
    "submissions --state returned --json",
    "audit",
    "alerts",
    f"set_policy {SLUG}",
    f"compare_scorers {SLUG}@1 {SLUG}@2",
    f"verify {SLUG}",
    f"evaluate {MODEL} --metric {SLUG}",
    "check_services",
    "fetch_data",
    f"manifest {SLUG} --output {{folder}}/manifest",
    f"manifest {SLUG} --metric-version 9 --output {{folder}}/manifest",
    "manifest safety-toxigen --output {folder}/manifest",
    "export {folder}/board.zip",
    "join_model entrant-1 --to gpt-2 --reason same",
    "hide_model entrant-6 --show",
    "hide_model entrant-1 --note Asked",
    "retry scorings 1",
    "cancel scorings 1",
    f"rescore {SLUG} --reason again",
    "submissions --state moderated",
    *(f"rescore {SLUG} --{step}" for step in ("pause", "resume", "cancel", "estimate")),
    "verify --recompute -1",
    "storage check --dry-run",
    "storage gc --from-start",
    "add_model none --weights none",
    "calibrate toxicity-profanity",
    "add_metric m --evaluation-set ten-prompts",
    "add_metric m --evaluation-set ten-prompts --scorer none",
    "add_metric m --evaluation-set none --scorer profanity",
    "add_metric m --evaluation-set ten-prompts --scorer profanity --formula safety",
    "add_metric m --evaluation-set ten-prompts --scorer profanity --harm-label none",
    "rank_changes toxicity-profanity --from 1 --to 2",
    f"rank_changes {SLUG} --from 1 --to 9",
    f"succession {SLUG} --to none",
    f"succession {SLUG} --to profanity",
    "work runs",
    "set_role ada moderator",
    "retire_scorer profanity --reason Slow",
    "retire_scorer standin --reason Again --bring-back",
    "moderate 2 accept",
    "moderate 2 reject --reason No",
    "retry scorings --failed",
    "cancel scorings 237",
    "cancel runs 1",
    f"set_policy {SLUG} --mean-difference 0.1 --reason Strict",
    "add_metric m --evaluation-set ten-prompts --scorer profanity",
    "evaluate entrant-2 --metric toxicity-profanity",
    "join_model gpt-2 --to entrant-1 --reason same",
    "mark_storage",
    f"manifest {SLUG} --metric-version 1 --output {{folder}}/manifest",
    "cancel runs 99",
    "retry runs --failed",
    "retry scorings 99",
    f"set_access {MODEL} restricted --reason licence",
    f"set_access {MODEL} restricted --reason licence",
    "join_model entrant-1 --to none --reason same",
    "moderate 2 return",
    "moderate 99 accept",
    "import_lexicon own /none",
    "import_scorer none /none",
    "import_evaluation_set toxigen-human /none",
    "import_evaluation_set own /none --prompts --licence CC0",
    "audit --since yesterday",
    "set_role nobody viewer",
    f"set_policy {SLUG} --mean-difference 7 --reason none",
)
OTHERS = ("card_drawings.txt", "data_package.txt", "failures.txt", "letters.txt", "options.txt", "settings.txt")
# What the board notes for itself alone.
WITHOUT_ROWS = {"CacheEntry", "OutboxMessage", "Pulse", "ScorerProbe", "SearchPage", "SearchState"}
PERSONAL = {"operate": "olga", "admin": "olga", "submissions": "ada", "submit": "ada", "accounts": "ada"}


@pytest.fixture(scope="session")
def approved_rows(
    django_db_setup: None, django_db_blocker: Any, kept_boards: Path, tmp_path_factory: pytest.TempPathFactory
) -> Board:
    """The rows of the board."""
    folder = tmp_path_factory.mktemp("approved")
    with django_db_blocker.unblock(), standing_in() as stage:
        return recall_boards(kept_boards, "approved", lambda: [keep_quickly(lambda: build(folder, stage))])[0]


@pytest.fixture(scope="module")
def clients(approved_rows: Board, _static_files: None, django_db_blocker: Any) -> Iterator[dict[str, Client]]:
    """Browsers of a visitor and of two people on the board, by name."""
    settings = override_settings(BACKUP_SECONDS=86400.0)
    with (
        django_db_blocker.unblock(),
        standing_in(),
        settings,
        transaction.atomic(),
        pytest.MonkeyPatch.context() as patch,
        entered_by_number(patch),
    ):
        patch.setattr(perspective, "END_OF_SERVICE", date(2126, 12, 31))  # whenever these tests run
        app.control.purge()
        restart_counting()
        load_board(approved_rows)
        add_everything(Metric.objects.get(slug=SLUG))
        browsers = {name: Client(raise_request_exception=False) for name in ("", "ada", "olga")}
        for name in ("ada", "olga"):
            browsers[name].force_login(User.objects.get(username=name))
        fix_dates()
        yield browsers
        transaction.set_rollback(True)


@pytest.mark.usefixtures("clients")
def test_the_board_has_rows_of_every_kind_that_a_page_can_show():
    kinds = {model for model in apps.get_app_config("leaderboard").get_models() if not model._base_manager.exists()}
    assert {model.__name__ for model in kinds} == WITHOUT_ROWS


def list_pages() -> list[str]:
    """The addresses whose answers are kept: those of machines change with the machine, and others are not ours."""
    left_out = re.compile(
        r"/metrics|/readyz|/about/board.zip|.*\.pdf|/admin/(?!leaderboard|auth).*|/accounts/(oidc|elsewhere).*"
    )
    return [path for path in (*addresses(MODEL, SLUG), *VIEWS, *STEPS) if not left_out.fullmatch(path)]


@pytest.mark.parametrize("path", list_pages())
def test_an_answer_says_what_was_approved(path: str, clients: dict[str, Client]):
    answer = clients[PERSONAL.get(path.split("/")[1], "")].get(path)
    compare_with_approved(name_file(path), describe_answer(answer))


def list_forms() -> list[str]:
    """The addresses to which people that are logged in send something."""
    forms = re.compile(r"/(operate|submissions|submit|accounts)/.*")
    return [path for path in (*addresses(MODEL, SLUG), *STEPS) if forms.fullmatch(path)]


@pytest.mark.parametrize("path", list_forms())
@pytest.mark.parametrize("fields", [{}, REASONS], ids=["nothing", "a reason"])
@pytest.mark.usefixtures("clients")
def test_what_is_sent_is_answered_as_was_approved(path: str, fields: dict[str, str]):
    client = Client(raise_request_exception=False)  # its own: what the answer says is shown on the next page
    with transaction.atomic():
        client.force_login(User.objects.get(username=PERSONAL[path.split("/")[1]]))
        answer = client.post(path, fields)
        text = describe_answer(answer) + "".join(f"{message}\n" for message in get_messages(answer.wsgi_request))
        transaction.set_rollback(True)  # the others are sent to the same board
    compare_with_approved(name_file(f"post {'reason' if fields else ''} {path}"), drop_transient(text))


def read_command(name: str, words: list[str], folder: Path) -> str:
    """What a command prints, which may write to a folder; the board stays as it is."""
    output = StringIO()
    with transaction.atomic(), TemporaryDirectory(dir=folder) as own_folder:
        try:
            call_command(name, *(word.format(folder=own_folder) for word in words), stdout=output, stderr=output)
        except CommandError as error:
            output.write(f"CommandError: {error}\n")
        transaction.set_rollback(True)  # the others are asked of the same board
    return drop_transient(output.getvalue().replace(own_folder, "FOLDER"))


@pytest.mark.usefixtures("clients")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_was_approved_for_people_and_for_programs(command: str, tmp_path: Path):
    name, *words = command.split()
    text = read_command(name, words, tmp_path)
    if isinstance(load_command_class("leaderboard", name), BoardCommand) and "--json" not in words:
        for_programs = read_command(name, [*words, "--json"], tmp_path)
        text += f"--json:\n{for_programs}" if for_programs != text else ""  # what is refused is so in the same words
    compare_with_approved(name_file(f"manage.py {command}"), text)


def describe_option(action: argparse.Action) -> str:
    """What a command takes, as one line."""
    words = [*action.option_strings, action.dest, type(action).__name__.strip("_"), f"default={action.default!r}"]
    words += [f"{name}={value}" for name in ("nargs", "const", "metavar") if (value := getattr(action, name))]
    words += [f"choices={', '.join(map(str, action.choices))}"] if action.choices else []
    kind = getattr(action.type, "__name__", None)
    return " ".join([*words, *([kind] if kind else []), *(["required"] if action.required else [])])


def list_parsers(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """What reads the options of a command, and of the commands below it, each by its name."""
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, one in action.choices.items():
                yield from list_parsers(f"{name} {word}", one)


def make_parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Those of the commands of the board, of the engine and of its recipes."""
    for name, home in sorted(get_commands().items()):
        if home == "leaderboard":
            parser = CommandParser()
            load_command_class(home, name).add_arguments(parser)
            yield from list_parsers(name, parser)
    yield from list_parsers("scoring", engine_parser())
    yield from list_parsers("scoring.training", recipes_parser())


def test_commands_take_the_options_that_were_approved():
    lines = [f"{name}: {describe_option(action)}" for name, parser in make_parsers() for action in parser._actions]
    compare_with_approved("options.txt", "\n".join([*lines, ""]))


@pytest.mark.usefixtures("clients")
def test_letters_about_submissions_say_what_was_approved():
    submission = Submission.objects.get(state="ranked")
    Submission.objects.filter(pk=submission.pk).update(reason="Say which texts it was trained on.")
    for state in SUBJECTS:
        submission.messages.add_news(state)
        assert send_news(submission.messages.get(event=state))
    letters = [f"To {', '.join(one.to)}: {one.subject}\n\n{one.body}" for one in mail.outbox]
    compare_with_approved("letters.txt", drop_transient("\n".join(letters)))


def test_the_data_package_describes_its_tables_as_was_approved():
    schemas = {table.name: describe_table(table) for table in BY_NAME.values()}
    compare_with_approved("data_package.txt", json.dumps(schemas, indent=1) + "\n")


def test_each_has_a_file_of_its_own_and_nothing_that_is_gone_has_one():
    paths = [*list_pages(), *(f"manage.py {command}" for command in COMMANDS)]
    paths += [f"post {word} {path}" for word in ("", "reason") for path in list_forms()]
    names = {*map(name_file, paths), *OTHERS}
    for file in APPROVED.glob("*.txt") if IS_APPROVING else ():
        if file.name not in names:
            file.unlink()
    assert len(names) == len(set(paths)) + len(OTHERS)
    assert {file.name for file in APPROVED.glob("*.txt")} == names
