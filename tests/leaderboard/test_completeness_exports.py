"""Every field of what a file or an answer is written from is in it, or on a list with the reason."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from django.db import transaction
from django.urls import URLResolver, get_resolver

from leaderboard.api.agreement import MeasureCorrelation, SizeCorrelation
from leaderboard.api.rank_changes import RankChangesPage, RankingSide, RankMove
from leaderboard.api.reading import Page
from leaderboard.api.standings import Corrected, RankedEntry
from leaderboard.queries.docs import APP
from tests.leaderboard import exports_of_pages as pages
from tests.leaderboard.exports import Export, build_board
from tests.leaderboard.exports_of_commands import EXPORTS, SAY_WHAT_THEY_DID

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]

OF_PAGES = (
    *(*pages.AGREEMENT, *pages.SCORERS, *pages.SCENARIOS, *pages.SUCCESSIONS),
    *(*pages.CORRECTED, *pages.RANKINGS, *pages.MANIFESTS),
)
# Addresses of CSV or JSON without rows of the board, with the reason.
OTHER_ADDRESSES = {
    "published_file": "a file of the project, passed on as it is",
    "outputs_template": "a form to fill in: the columns are those that uploads are read by",
    "openapi-json": "the description of the API itself",
}


@pytest.fixture(scope="module")
def board(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A board that has some of all: for every test of the module, none of which changes it."""
    with django_db_blocker.unblock(), transaction.atomic():
        build_board()
        with django_db_blocker.block():
            yield
        transaction.set_rollback(True)


@pytest.mark.slow_cases
@pytest.mark.parametrize("export", [*OF_PAGES, *EXPORTS], ids=str)
def test_each_field_is_a_column_or_has_a_reason(client, board, export):
    columns = export.read(client)
    names = set().union(*(source.fields | source.columns for source in export.sources))
    for source in export.sources:
        unwritten = source.fields - columns - set(source.written)
        assert unwritten == set(source.left_out), f"{source.table.__name__}: write these fields, or say why not"
        assert source.columns <= columns, f"{source.table.__name__}: these columns are missing"
        assert set(source.written) <= source.fields, "these are no fields"
    assert columns - names == set(export.beside) - names, "what is written beside the fields"


def addresses(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The pattern and the name of every address."""
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern, prefix + str(pattern.pattern))
        else:
            yield prefix + str(pattern.pattern), str(pattern.name)


def test_every_address_of_csv_or_json_is_held_to_what_it_is_written_from():
    names = {name for pattern, name in addresses(get_resolver()) if "csv" in pattern or "json" in pattern}
    assert names == {export.place for export in OF_PAGES} | set(OTHER_ADDRESSES)


def test_every_command_that_prints_csv_or_json_is_held_to_what_it_is_written_from():
    names = {name for name, app in get_commands().items() if app == APP and {"--json", "--format"} & options_of(name)}
    assert names == {export.place for export in EXPORTS} | set(SAY_WHAT_THEY_DID)


def options_of(command: str) -> set[str]:
    """The options of a command and of what comes under it."""
    parser = load_command_class(APP, command).create_parser("manage.py", command)
    parsers = [parser]
    for action in parser._actions:
        parsers += (getattr(action, "choices", None) or {}).values() if hasattr(action, "_name_parser_map") else []
    return {option for one in parsers for action in one._actions for option in action.option_strings}


@pytest.mark.parametrize(
    ("export", "schema", "others"),
    [
        (Export("/rankings.json?metric=careful", "entries"), RankedEntry, ("slices",)),
        (Export("/rankings.json?metric=careful&measure=toxic_fraction", "entries.corrected"), Corrected, ()),
        (Export("/agreement/correlations.csv"), MeasureCorrelation, ()),
        (Export("/agreement/sizes.csv"), SizeCorrelation, ()),
        (Export("rank_changes careful --json", "from"), RankingSide, ()),
        (Export("rank_changes careful --json", "models"), RankMove, ()),
        (Export("rank_changes careful --json"), RankChangesPage, ("models", "distribution_shift")),
    ],
    ids=str,
)
def test_the_api_says_what_the_file_says(client, board, export, schema, others):
    fields = {one.alias or name for name, one in schema.model_fields.items()} - set(Page.model_fields) - {"items"}
    assert export.read(client) - set(others) == fields, "the API drops what its schema does not name"
