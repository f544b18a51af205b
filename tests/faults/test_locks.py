"""Submissions and publications at one time: nobody waits for whoever waits for them."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import OperationalError, connection

from leaderboard.models import Artefact, FolderFile, LanguageModel, Metric, Scoring, StoredFolder
from leaderboard.services import artefacts, rescore
from leaderboard.services.access import hide_model, set_access
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.publish import publish_standings
from leaderboard.services.rescore import advance, cancel, open_rescoring
from tests.leaderboard.living import drain, entrant, small_metric, standing_in

pytestmark = [
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time"),
]

SUBMISSIONS, PUBLICATIONS, RANKED = 50, 20, 3


def withdraw(model: LanguageModel) -> None:
    set_access(model, LanguageModel.Access.WITHDRAWN, "a complaint")


def hide(model: LanguageModel) -> None:
    hide_model(model, "a complaint")


def count_deadlocks() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_fifty_submissions_during_twenty_publications_see_no_deadlock(tmp_path):
    with standing_in():
        metric = small_metric(tmp_path)
        for number in range(RANKED):
            request_evaluation(entrant(number, metric), metric, send=False)
        drain()
        version = metric.current_version()
        models = [entrant(number, metric) for number in range(RANKED, RANKED + SUBMISSIONS)]
        before = count_deadlocks()

        def submit(model: LanguageModel) -> None:
            try:
                request_evaluation(model, Metric.objects.get(pk=metric.pk), send=False)
            finally:
                connection.close()

        def publish(number: int) -> None:
            try:
                publish_standings(version)
                hidden = LanguageModel.objects.get(slug=f"entrant-{number % RANKED}")
                hide_model(hidden, "" if hidden.hidden_note else "a complaint")
                if number % 5 == 0:
                    rescoring = open_rescoring(metric, f"publication {number}")
                    advance(rescoring)
                    cancel(rescoring)
            finally:
                connection.close()

        with ThreadPoolExecutor(6) as pool:
            submitted = [pool.submit(submit, model) for model in models]
            publications = [pool.submit(publish, number) for number in range(PUBLICATIONS)]
            for one in (*submitted, *publications):
                one.result()
    assert count_deadlocks() == before
    assert Scoring.objects.filter(metric_version=version, state="queued").count() == SUBMISSIONS


@pytest.mark.parametrize("leave", [withdraw, hide])
def test_a_model_that_leaves_while_a_version_is_published_is_not_in_it(tmp_path, monkeypatch, leave):
    with standing_in():
        metric = small_metric(tmp_path)
        for number in range(RANKED):
            request_evaluation(entrant(number, metric), metric, send=False)
        drain()
        open_rescoring(metric, "all anew")
        published, publish = Event(), rescore.publish_standings

        def publish_slowly(*args, **options):
            publish(*args, **options)
            published.set()
            time.sleep(0.5)  # the other transaction would have ended by now

        def publish_the_new_version() -> None:
            try:
                drain()
            finally:
                connection.close()

        monkeypatch.setattr(rescore, "publish_standings", publish_slowly)
        with ThreadPoolExecutor(1) as pool:
            publication = pool.submit(publish_the_new_version)
            assert published.wait(60)
            leave(LanguageModel.objects.get(slug="entrant-1"))
            publication.result()
    version = metric.current_version()
    assert version.number == 2
    assert set(version.standings.values_list("model__slug", flat=True)) == {"entrant-0", "entrant-2"}


def test_nothing_refers_to_a_file_while_it_is_forgotten(tmp_path, monkeypatch):
    path = tmp_path / "words.txt"
    path.write_text("rain\n")
    artefact = artefacts.store_file(path)
    folder = StoredFolder.objects.create(name="scorer own", sha256="0" * 64, single=True)
    refusals = []

    def refer() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '300ms'")
            FolderFile.objects.create(folder=folder, path="words.txt", artefact=artefact)
        except OperationalError as error:
            refusals.append(error)
        finally:
            connection.close()

    delete = type(artefacts.board_storage()).delete

    def delete_while_another_refers(storage, name):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(refer).result()
        delete(storage, name)

    monkeypatch.setattr(type(artefacts.board_storage()), "delete", delete_while_another_refers)
    artefacts.forget(artefact)
    assert len(refusals) == 1
    assert not Artefact.objects.exists()
    assert not artefacts.is_stored(artefact)
