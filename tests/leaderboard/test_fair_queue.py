"""No requester's work waits for more than one slice of each other's, and places in the queue are told as they are."""

from collections import Counter, deque
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from leaderboard import tasks
from leaderboard.models import LanguageModel, MetricVersion, Rescoring, Run, Scoring, Work
from leaderboard.services import collect, queue
from leaderboard.services.turns import Turns, Waiting

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
WHO = st.sampled_from([None, 1, 2, 3, 4])
SLICES = st.integers(1, 4)


def at(second: int) -> datetime:
    return MIDNIGHT + timedelta(seconds=second)


class World:
    """Workers that do what `Turns` says: slices of any length, while more work comes in."""

    def __init__(self, works: list[tuple[int | None, int]], workers: int) -> None:
        self.left = {pk: [who, slices] for pk, (who, slices) in enumerate(works)}
        self.workers = workers
        self.running: list[int] = []
        self.served: list[int | None] = []
        self.begun: list[int | None] = []

    def turns(self) -> Turns:
        free = [Waiting(at(pk), pk, who) for pk, (who, _) in self.left.items() if pk not in self.running]
        return Turns(free, [self.left[pk][0] for pk in self.running], self.served)

    def begin(self) -> int | None:
        work = self.turns().next()
        if work is None:
            return None
        self.running.append(work.pk)
        self.served = [who for who in self.served if who != work.requester] + [work.requester]
        self.begun.append(work.requester)
        return work.pk

    def end(self, place: int) -> None:
        pk = self.running.pop(place)
        self.left[pk][1] -= 1
        if not self.left[pk][1]:
            del self.left[pk]


@pytest.mark.slow
@given(st.lists(st.tuples(WHO, SLICES), min_size=1, max_size=25), st.integers(1, 3), st.data())
def test_whoever_has_nothing_running_waits_for_one_slice_of_each_other_requester_at_most(works, workers, data):
    world = World(works, workers)
    waited: dict[int | None, Counter] = {}
    while world.left:
        while len(world.running) < workers and (pk := world.begin()) is not None:
            mine = world.left[pk][0]
            waited.pop(mine, None)
            idle = {who for who, _ in world.left.values()} - {world.left[of][0] for of in world.running}
            for who in idle:
                waited.setdefault(who, Counter())[mine] += 1
                assert max(waited[who].values()) == 1, f"{who} waited: {waited[who]}"
        world.end(data.draw(st.integers(0, len(world.running) - 1)))


@given(st.lists(WHO, min_size=1, max_size=25), st.lists(WHO, max_size=3), st.permutations([None, 1, 2, 3, 4]))
def test_the_order_that_is_told_is_the_order_in_which_workers_begin(waiting, running, served):
    works = [(who, 1) for who in (*running, *waiting)]
    world = World(works, max(1, len(running)))
    world.running = list(range(len(running)))
    world.served = [who for who in served if who not in running] + list(dict.fromkeys(running))
    told = [work.pk for work in world.turns().in_order()]
    order = []
    while world.left:
        if len(world.running) == world.workers:
            world.end(0)
        pk = world.begin()
        if pk is not None:
            order.append(pk)
        elif world.running:
            world.end(0)
    assert told == order
    assert sorted(told) == list(range(len(running), len(works)))


def test_one_with_a_hundred_runs_and_one_with_one_take_turns():
    many = [Waiting(at(second), second, 1) for second in range(100)]
    one = Waiting(at(1000), 1000, 2)
    assert [work.pk for work in Turns([*many, one], [], []).in_order()][:3] == [0, 1000, 1]
    assert [work.pk for work in Turns([*many, one], [1], [1]).in_order()][:3] == [1000, 0, 1]


# On a real board, with the real claims.


@pytest.fixture
def people(db) -> list[User]:
    return [User.objects.create_user(name) for name in ("ada", "bob", "eve")]


@pytest.fixture
def runs(metric, people) -> dict[str, Run]:
    """Three of ada's, one of bob's, one of the board's, in the order in which they were asked for."""
    found = {}
    for number, (name, who) in enumerate(
        [("ada 1", people[0]), ("ada 2", people[0]), ("ada 3", people[0]), ("bob 1", people[1]), ("board", None)]
    ):
        model = LanguageModel.objects.create(
            slug=f"m{number}", name=name, kind="causal", source="local", location=f"/m/{number}", revision="1"
        )
        found[name] = Run.objects.create(model=model, protocol=metric.protocol, requester=who)
        Run.objects.filter(pk=found[name].pk).update(created_at=at(number))
    return found


def a_slice(claimed: list[str], ends: bool = False):
    """What a worker does with a run it gets: a slice, and the run is there again; or done with, at once."""

    def do(pk: int) -> bool:
        run, lease = Run.objects.get(pk=pk), uuid4()
        if not run.claim(lease):
            return False
        claimed.append(run.model.name)
        return run.release(lease, Work.State.FAILED if ends else Work.State.QUEUED, reason="enough")

    return do


def test_slices_go_round_whatever_run_a_message_names(runs):
    claimed: list[str] = []
    for _ in range(7):
        assert queue.do_fairest(Run, a_slice(claimed))
    assert claimed == ["ada 1", "bob 1", "board", "ada 1", "bob 1", "board", "ada 1"]


def test_places_are_those_in_which_the_runs_begin(runs):
    told = queue.places(Run, [run.pk for run in runs.values()])
    claimed: list[str] = []
    while queue.do_fairest(Run, a_slice(claimed, ends=True)):
        pass
    assert sorted(told, key=told.get) == [runs[name].pk for name in claimed]
    assert sorted(told.values()) == [1, 2, 3, 4, 5]
    assert claimed == ["ada 1", "bob 1", "board", "ada 2", "ada 3"]


def test_a_run_that_another_worker_took_a_moment_ago_leaves_the_turn_to_the_next(runs):
    claimed: list[str] = []
    do, quicker = a_slice(claimed), deque([uuid4()])

    def late(pk: int) -> bool:
        if quicker:
            Run.objects.get(pk=pk).claim(quicker.pop())
        return do(pk)

    assert queue.do_fairest(Run, late)
    assert claimed == ["bob 1"], "ada has one running now"


def test_work_that_is_paused_pausing_or_in_living_hands_has_no_place_and_a_silent_worker_counts_for_nothing(runs):
    now = timezone.now()
    Run.objects.filter(pk=runs["ada 1"].pk).update(held=True)
    Run.objects.filter(pk=runs["ada 2"].pk).update(not_before=now + timedelta(minutes=1))
    Run.objects.filter(pk=runs["bob 1"].pk).update(
        state=Work.State.RUNNING, lease=uuid4(), lease_expires_at=now - timedelta(seconds=1), turn_at=at(1)
    )
    told = queue.places(Run, [run.pk for run in runs.values()])
    assert told == {runs["ada 3"].pk: 1, runs["board"].pk: 2, runs["bob 1"].pk: 3}


def test_the_task_collects_the_fairest_run_and_nothing_where_none_waits(runs, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(collect, "collect", lambda run: a_slice(asked, ends=True)(run.pk))
    for _ in range(7):
        tasks.collect_run()
    assert asked == ["ada 1", "bob 1", "board", "ada 2", "ada 3"]


def test_the_queue_asks_the_database_as_often_for_many_as_for_one(runs, django_assert_num_queries):
    with django_assert_num_queries(3):
        queue.places(Run, [runs["ada 3"].pk])
    with django_assert_num_queries(0):
        queue.places(Run, [])


def test_a_claim_reads_the_oldest_work_of_each_requester_alone(runs, monkeypatch):
    rows = []

    def note(waiting_work: list[Waiting], *others) -> Turns:
        rows.extend(waiting_work)
        return Turns(waiting_work, *others)

    monkeypatch.setattr(queue, "Turns", note)
    work = queue.next_work(Run)
    assert sorted(row.pk for row in rows) == [runs[name].pk for name in ("ada 1", "bob 1", "board")]
    assert work == queue.all_turns(Run).next()
    assert queue.next_work(Scoring) is None


def test_of_requesters_who_had_no_turn_yet_the_one_with_the_oldest_work_is_next(runs):
    Run.objects.filter(pk=runs["bob 1"].pk).update(created_at=at(-5))
    assert queue.next_work(Run).pk == runs["bob 1"].pk
    Run.objects.filter(pk=runs["ada 3"].pk).update(created_at=at(-9))
    assert queue.next_work(Run).pk == runs["ada 3"].pk, "it was asked for first, though it was entered last"
    Run.objects.filter(pk=runs["ada 1"].pk).update(turn_at=at(1))
    assert queue.next_work(Run).pk == runs["bob 1"].pk


def test_entries_that_are_scored_again_are_the_boards_own_turn(runs, metric, people):
    version = MetricVersion.objects.create(
        metric=metric, number=1, protocol=metric.protocol, scorer="", scorer_fingerprint="", formula_version=1
    )
    again = MetricVersion.objects.create(
        metric=metric, number=2, protocol=metric.protocol, scorer="", scorer_fingerprint="", formula_version=1
    )
    Rescoring.objects.create(metric=metric, from_version=version, to_version=again, reason="a drift")
    Run.objects.filter(pk=runs["bob 1"].pk).update(created_at=at(9))
    for name in ("ada 1", "bob 1"):
        for of in (version, again):
            Scoring.objects.create(run=runs[name], model=runs[name].model, metric_version=of)
    whose = dict(Scoring.objects.annotate(whose=queue._requester_of_scoring()).values_list("pk", "whose"))
    assert [whose[pk] for pk in sorted(whose)] == [people[0].pk, None, people[1].pk, None]
