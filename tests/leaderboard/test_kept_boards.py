"""Boards that one process of tests builds and others find, with their files: for an hour, by the same code."""

import os
import time

import pytest

from tests import rows
from tests.rows import Board, recall_boards

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


class Builder:
    """Gives a board, and counts how often it was asked to."""

    def __init__(self, board: Board) -> None:
        self.board, self.count = board, 0

    def __call__(self) -> list[Board]:
        self.count += 1
        return [self.board]


@pytest.fixture
def builder(living_rows) -> Builder:
    return Builder(living_rows[1])


def test_a_second_process_finds_the_rows_and_the_files(builder, tmp_path, settings):
    assert recall_boards(tmp_path, "one", builder) == [builder.board]
    settings.MEDIA_ROOT = tmp_path / "storage of another process"
    assert recall_boards(tmp_path, "one", builder) == [builder.board]
    assert builder.count == 1
    (artefacts,) = (table for table in builder.board if table.model.__name__ == "Artefact")
    assert len(list(settings.MEDIA_ROOT.glob("*/*.parquet"))) == len(artefacts.values) > 1


@pytest.mark.parametrize("change", ["an hour later", "other code"])
def test_a_board_is_built_again_and_replaced_when_it_is_out_of_date(builder, tmp_path, monkeypatch, change):
    recall_boards(tmp_path, "one", builder)
    (path,) = tmp_path.glob("one-*")
    if change == "other code":
        monkeypatch.setattr(rows, "hash_code", lambda: "other")
    else:
        os.utime(path, (time.time() - 3601,) * 2)
    recall_boards(tmp_path, "one", builder)
    assert builder.count == 2
    assert len(list(tmp_path.glob("one-*"))) == 1
