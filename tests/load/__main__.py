"""`make load`: a large board under load, as Markdown tables, each beside what the machine can do at most.

    python -m tests.load [limit kept cost anew mixed peer growth ranges]

Everything shares this machine: the generator, Caddy, gunicorn and PostgreSQL. Nothing else should run. SECONDS sets
how long each line is measured, LONG the mixed one; MODELS and MORE the two sizes. Boards stay in PLUMBLINE_LOAD, and
are built where they are not there: a thousand models take three minutes, ten thousand half an hour.
"""

import argparse
import asyncio
import itertools
import os
import shutil
import sys
import time
from collections.abc import Iterator

import numpy as np

from tests.load.client import PATIENCE, Report, read_pages, tables_of
from tests.load.site import manage, memory_of, open_board, run_broker, seconds_of, serve, transactions
from tests.load.submitters import enter_submitters, submit_in_turn

SECONDS, LONG = float(os.environ.get("SECONDS", "60")), float(os.environ.get("LONG", "300"))
MODELS, MORE = int(os.environ.get("MODELS", "1000")), int(os.environ.get("MORE", "10000"))
CONNECTIONS = (1, 20, 100)
METRIC = "metric=synthetic"
PAGES = {
    "front": "/",
    "rankings": f"/rankings/?{METRIC}",
    "rankings, a slice, sorted": f"/rankings/?{METRIC}&slice=women&kind=all&sort=model&page=3",
    "history": f"/history/?{METRIC}",
    "demographics": f"/demographics/?{METRIC}",
    "model": "/models/synthetic-0001/",
    "compare": f"/compare/?{METRIC}&m=synthetic-0001&m=synthetic-0002&m=synthetic-0003",
    "metric": "/metrics/synthetic/",
    "agreement": "/agreement/",
    "about": "/about/",
}
HEAD = f"""| what | connections | pages/s | of the limit | p50 | p95 | p99 | longest (ms) | 503 | errors |
{"|---" * 10}|"""
PUBLISH = """
from leaderboard.models import MetricVersion
from leaderboard.services.publish import publish_standings
import time
version = MetricVersion.objects.get(metric__slug="synthetic", status="current")
began = time.perf_counter()
publish_standings(version, read_files=False)
print(version.standings.count(), time.perf_counter() - began)
"""
PUBLISH_WITH_RANGES = """
from leaderboard.models import MetricVersion
from leaderboard.services.publish import publish_standings
import resource, time
version = MetricVersion.objects.get(metric__slug="synthetic", status="current")
began, spent = time.perf_counter(), time.process_time()
publish_standings(version)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(time.perf_counter() - began, time.process_time() - spent, memory)
"""


def new_pages() -> Iterator[str]:
    """Addresses that nobody asked for before."""
    start = int(time.time()) % 100_000 * 1000
    for number in itertools.count(start):
        yield f"/rankings/?{METRIC}&q={number}"
        yield f"/compare/?{METRIC}&m=synthetic-{1 + number % 999:04}&m=synthetic-{1 + number % 997:04}&q={number}"


def print_line(what: str, connections: int, report: Report, limit: float) -> None:
    """A line of the table of answers."""
    p50, p95, p99, longest = report.percentiles(200) if report.seconds.get(200) else report.percentiles()
    share = f"{report.rate / limit:.2f}" if limit else ""
    print(
        f"| {what} | {connections} | {report.rate:.0f} | {share} | {p50:.0f} | {p95:.0f} | {p99:.0f} | {longest:.0f} "
        f"| {report.refused} | {report.error_count} |",
        flush=True,
    )


def limit_table(environment: dict[str, str]) -> dict[int, float]:
    """An answer of 30 kB for which nothing is done, by the same generator through the same Caddy and gunicorn."""
    rates = {}
    with serve(environment, "tests.load.empty") as (port, _):
        read_pages(port, ["/"], 100, 3)
        for connections in CONNECTIONS:
            report = read_pages(port, ["/"], connections, min(SECONDS, 20))
            rates[connections] = report.rate
            print_line("limit: an empty answer", connections, report, 0)
    return rates


def kept_table(environment: dict[str, str], limit: dict[int, float]) -> None:
    """Pages that are ready, closed and open loop."""
    with serve(environment) as (port, web):
        read_pages(port, PAGES.values(), 1, 15)
        for connections in CONNECTIONS:
            before = seconds_of(web), transactions(environment)
            report = read_pages(port, PAGES.values(), connections, SECONDS)
            print_line("kept pages", connections, report, limit.get(connections, 0))
            cpu, queries = 1000 * (seconds_of(web) - before[0]), transactions(environment) - before[1]
            print(f"<!-- {cpu / report.count:.2f} ms of CPU and {queries / report.count:.4f} queries a page -->")
        for rate in (500, 1000):
            report = read_pages(port, PAGES.values(), 100, SECONDS, rate)
            print_line(f"kept pages, {rate} a second (open loop)", 100, report, limit.get(100, 0))


def cost_table(environment: dict[str, str], _limit: dict[int, float]) -> None:
    """The processor time of each page that is made anew, beside what a sum takes meanwhile on this machine."""
    print("\n| page | ms of CPU | a sum of two million numbers, ms | queries | p50 (ms) |\n|---|---|---|---|---|")
    with serve({**environment, "CACHE_URL": "dummy://"}) as (port, web):
        for name, path in PAGES.items():
            read_pages(port, [path], 1, 2)
            before = time_sum()
            cpu, ended = seconds_of(web), transactions(environment)
            report = read_pages(port, [path], 1, max(3, SECONDS / 10))
            cost = 1000 * (seconds_of(web) - cpu) / report.count
            queries = (transactions(environment) - ended) / report.count
            speed = (before + time_sum()) / 2
            print(f"| {name} | {cost:.0f} | {speed:.0f} | {queries:.0f} | {report.percentiles()[0]:.0f} |", flush=True)


def time_sum() -> float:
    """Milliseconds of the processor that Python needs for a sum of two million numbers, the median of five."""
    times = []
    for _ in range(5):
        began = time.process_time()
        sum(range(2_000_000))
        times.append(1000 * (time.process_time() - began))
    return sorted(times)[2]


def anew_table(environment: dict[str, str], limit: dict[int, float]) -> None:
    """Pages that nobody asked for before, by few and by many readers."""
    print(f"\n{HEAD}")
    with serve(environment) as (port, _):
        paths = list(itertools.islice(new_pages(), 100_000))
        for number, connections in enumerate(CONNECTIONS):
            report = read_pages(port, paths[number * 20_000 :], connections, SECONDS)
            print_line("new pages", connections, report, limit.get(connections, 0))
            print_late(report)

        async def publish() -> None:
            await asyncio.to_thread(manage, environment, "shell", "-c", PUBLISH)

        report = read_pages(port, paths[60_000:], 100, SECONDS, beside=publish)
        print_line("new pages, beside a publication", 100, report, limit.get(100, 0))
        print_late(report)
        report = read_pages(port, paths[80_000:], 100, SECONDS, 40)
        print_line("new pages, 40 a second (open loop)", 100, report, limit.get(100, 0))
        print_late(report)


def print_late(report: Report) -> None:
    """How many answers, refusals too, came after readers' patience."""
    p50, _, _, longest = report.percentiles()
    print(
        f"<!-- of all {report.count} answers, refusals too: p50 {p50:.0f}, longest {longest:.0f} ms; "
        f"{report.late.total()} came after more than {PATIENCE:g} s, within {len(report.late)} different seconds -->"
    )


def mixed_table(environment: dict[str, str], limit: dict[int, float]) -> None:
    """Readers, a publication and 50 submissions at once; each table has to be that of before or that of after."""
    with run_broker(environment) as with_broker, serve(with_broker) as (port, web):
        samples: list[float] = []
        published: list[str] = []
        submitters = enter_submitters(with_broker)
        submitted = Report()
        quiet = read_pages(port, PAGES.values(), 1, 15, keeps_bodies=True)

        async def beside() -> None:
            publication = asyncio.create_task(asyncio.to_thread(publish_later, with_broker))
            submissions = asyncio.create_task(submit_in_turn(port, submitters, LONG / 5, 4 * LONG / 5, submitted))
            began = time.monotonic()
            while time.monotonic() - began < LONG:
                samples.append(sum(memory_of(web)))
                await asyncio.sleep(1)
            await submissions
            published.append(await publication)

        report = read_pages(port, PAGES.values(), 100, LONG, keeps_bodies=True, beside=beside)
        print_line("kept pages, a publication and 50 submissions", 100, report, limit.get(100, 0))
        print_line("the 50 submissions", len(submitters), submitted, 0)
        after = read_pages(port, PAGES.values(), 1, 15, keeps_bodies=True)
    whole = {path: {tables_of(body) for (own, _), body in (*quiet.bodies.items(), *after.bodies.items()) if own == path}
             for path in PAGES.values()}  # fmt: skip
    mixed = sum(tables_of(body) not in whole[path] for (path, _), body in report.bodies.items())
    half = samples[len(samples) // 2 :]
    growth = np.mean(half[-len(half) // 4 :]) / np.mean(half[: len(half) // 4]) - 1
    print(f"\n{len(report.bodies)} different answers, {mixed} of them of neither version; published: {published}")
    print(f"Memory of both web processes: {samples[0]:.0f} MB at first, {np.mean(half):.0f} MB in the last half,")
    print(f"where it grew by {growth:.1%}.")


def publish_later(environment: dict[str, str]) -> str:
    """A third of the way, what a worker does."""
    time.sleep(LONG / 3)
    return manage(environment, "shell", "-c", PUBLISH).strip()


def peer_table(environment: dict[str, str], limit: dict[int, float]) -> None:
    """The same rows as a plain Django list."""
    with serve(environment, "tests.load.peer") as (port, _):
        read_pages(port, ["/"], 20, 3)
        for connections in CONNECTIONS:
            report = read_pages(port, ["/"], connections, min(SECONDS, 20))
            print_line("a plain Django list of the same rows", connections, report, limit.get(connections, 0))


def growth_table(limit: dict[int, float]) -> None:
    """Both sizes beside each other: the seconds of each page made anew and of a publication."""
    costs: dict[int, dict[str, float]] = {}
    for models in (MODELS, MORE):
        environment = open_board(models)
        costs[models] = {}
        with serve({**environment, "CACHE_URL": "dummy://"}) as (port, _):
            for name, path in PAGES.items():
                read_pages(port, [path], 1, 1)
                costs[models][name] = read_pages(port, [path], 1, max(3, SECONDS / 10)).percentiles()[0]
        answer = manage(environment, "shell", "-c", PUBLISH).split()
        costs[models]["a publication"] = 1000 * float(answer[-1])
    print(f"| page | {MODELS} models (ms) | {MORE} models (ms) | ratio |\n|---|---|---|---|")
    for (name, few), many in zip(costs[MODELS].items(), costs[MORE].values(), strict=True):
        print(f"| {name} | {few:.0f} | {many:.0f} | {many / few:.1f} |", flush=True)


def ranges_table() -> None:
    """A publication with ranges of ranks, which compare every two entries of a slice, of both sizes."""
    print("\n| models | ms of a sum | seconds | seconds of the processor | MB at most |\n|---|---|---|---|---|")
    for models in (MODELS, MORE):
        environment = {**open_board(models, versions=1), "OMP_NUM_THREADS": "1"}
        seconds, processor, memory = map(float, manage(environment, "shell", "-c", PUBLISH_WITH_RANGES).split()[-3:])
        print(f"| {models} | {time_sum():.0f} | {seconds:.1f} | {processor:.1f} | {memory:.0f} |", flush=True)


def main() -> None:
    """Print the tables asked for, all by default."""
    names = ("limit", "kept", "cost", "anew", "mixed", "peer", "growth", "ranges")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=names, metavar="TABLE", help="(default: all)")
    tables = parser.parse_args().tables
    if tables == ["ranges"]:  # reads no page
        return ranges_table()
    if not shutil.which("caddy"):
        parser.error("Caddy is not installed, and everything is measured behind it: apt-get install caddy")
    environment = open_board(MODELS)
    print(HEAD)
    limit: dict[int, float] = {}
    for name in tables:
        match name:
            case "limit":
                limit = limit_table(environment)
            case "growth":
                growth_table(limit)
            case "ranges":
                ranges_table()
            case _:
                getattr(sys.modules[__name__], f"{name}_table")(environment, limit)


if __name__ == "__main__":
    main()
