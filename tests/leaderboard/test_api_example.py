"""The example of the API: what the page and the README show is what is run."""

from pathlib import Path

import pytest

from leaderboard.rankings.changes import record_of
from tests.leaderboard.ranks import ranked
from tests.leaderboard.test_api import two_versions

EXAMPLE = Path("leaderboard/api/example.py")


def test_the_readme_has_the_example_that_is_run():
    example = EXAMPLE.read_text(encoding="utf-8")
    indented = "".join(f"    {line}" if line.strip() else line for line in example.splitlines(keepends=True))
    assert indented in Path("README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_example_reads_a_served_board(live_server, monkeypatch, capsys):
    metric = two_versions()
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), live_server.url])
    exec(compile(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE), "exec"), {})  # noqa: S102 (it is ours)
    said = capsys.readouterr().out
    moved = [of for of in record_of(metric).changes.models if of.change]
    assert said.startswith("Rude\n")
    assert all(f"{of.model}: rank {of.from_board_rank} to {of.to_board_rank}\n" in said for of in moved)
    standings = ranked(metric)
    for row in standings:
        assert f" {row.rank} of {len(standings)} (all)  {row.result.value:.4f}  {row.model.name}\n" in said
