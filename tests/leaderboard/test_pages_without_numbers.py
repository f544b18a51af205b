"""Pages of a board that has no numbers of its own yet."""

import pytest

from leaderboard.models import Run, Work
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.seed import seed_metrics
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, seed_figures
from tests.leaderboard.test_compare import PUBLISHED, VALUES, refused
from tests.leaderboard.test_history import page, said, table

pytestmark = [pytest.mark.django_db, pytest.mark.either_database]


def test_progress_and_failures_show_with_their_reason(client, metric, models):
    run = request_evaluation(models[CAUSAL], metric).run
    Run.objects.filter(pk=run.pk).update(done=36, total=144)
    other = request_evaluation(models[OTHER_CAUSAL], metric).run
    Run.objects.filter(pk=other.pk).update(state=Work.State.FAILED, reason="the disk is full")
    html = page(client, "/rankings/")
    assert "36 of 144" in html
    assert "the disk is full" in html
    assert 'hx-trigger="every 2s"' in html


def test_an_empty_board_says_so(client, db):
    assert "manage.py seed" in client.get("/rankings/").content.decode()
    seed_metrics()
    assert "No numbers here yet" in page(client, "/rankings/")


def test_a_reader_who_asks_for_measured_numbers_is_led_to_the_published_ones_that_there_are(client, db):
    seed_figures()
    html = page(client, "/rankings/?metric=safety-toxigen&provenance=measured")
    assert "Nothing of this metric was measured here yet: it has published figures ." in said(html)
    assert 'href="?metric=safety-toxigen">published figures' in html
    assert "No model has a value" not in html


def test_a_reader_who_asks_for_published_figures_is_led_to_the_measured_numbers_that_there_are(client, board):
    html = page(client, "/rankings/?metric=safety-starter&provenance=published")
    assert "No figures of this metric are published: it has numbers that were measured here ." in said(html)
    assert 'href="?metric=safety-starter">numbers that were measured here' in html


def test_a_frame_shows_no_figures_of_another_metric(client, db):
    seed_figures()
    frame = client.get("/embed/?metric=safety-starter").content.decode()
    assert "No numbers here yet." in frame
    assert "<tbody>" not in frame
    assert "<tbody>" in client.get("/embed/?metric=safety-toxigen").content.decode()


def test_comparing_on_an_empty_board_asks_for_its_seed(client, db):
    assert "run manage.py seed" in refused(client, "/compare/")


def test_comparing_without_numbers_says_that_there_are_none(client, db):
    seed_metrics()
    assert "has no numbers yet" in said(page(client, "/compare/"))


def test_published_models_alone_are_compared_on_a_metric_that_has_them(client, db):
    seed_figures()
    assert "GPT-2" in {row[0] for row in table(page(client, PUBLISHED), VALUES)}
