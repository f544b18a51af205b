"""`make hosts-check`: the cables of a board's hosts are pulled one at a time, and made bad.

Database, broker, a bucket with the board's files, web server and beat are on one host, workers on two others. After
each fault: all work is done, by the other host where one has no network, once and with the same bytes as without a
fault; pages and alerts name what is away, and nothing once it is back.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import django

from tests.hosts.board import PYTHON, ROOT, Processes, wait_for
from tests.hosts.network import Switch, find_obstacles, network

FAULTS = [("alpha", "pulled"), ("beta", "bad"), ("web", "pulled"), ("beta", "pulled"), ("alpha", "bad"), ("web", "bad")]
WORK_SECONDS, ALERT_SECONDS, RETURN_SECONDS = 400.0, 120.0, 120.0


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def read_page(processes: Processes, path: str) -> str:
    """Read a page from a browser on the host of the web server."""
    curl = ["curl", "--silent", "--max-time", "20", f"http://127.0.0.1:8000{path}"]
    return subprocess.run(processes.web.inside(curl), capture_output=True, text=True, check=False).stdout


class Campaign:
    """One board, and the faults one after the other."""

    def __init__(self, switch: Switch, processes: Processes) -> None:
        self.switch, self.processes = switch, processes

    def start(self) -> None:
        """Start the board; the tests' own process becomes one of its web host."""
        self.processes.start_services()
        self.processes.web.enter()
        self.processes.start_bucket()
        os.environ |= self.processes.own_environment()
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        web, environment = self.processes.web, self.processes.shared_environment("web")
        gunicorn = [PYTHON, "-m", "gunicorn", "--config", "python:leaderboard.serving", "--bind", "127.0.0.1:8000"]
        self.processes.start("web", web, gunicorn, environment)
        self.processes.start_beat()
        from django.contrib.auth.models import User
        from django.test import Client

        self.operator = Client(HTTP_HOST="127.0.0.1")
        self.operator.force_login(User.objects.create_superuser("operator"))
        for name in ("alpha", "beta"):
            self.processes.start_worker(self.switch.hosts[name])

    def try_fault(self, number: int, name: str, state: str) -> None:
        """Ask for work, do something to a cable while it is done, and look at what becomes of it."""
        from leaderboard.models import Work
        from tests.hosts.work import living_workers, open_incidents, request_work

        scorings = request_work(number)
        own_scorings = type(scorings[0]).objects.filter(pk__in=[scoring.pk for scoring in scorings])
        runs = type(scorings[0].run).objects.filter(scorings__in=own_scorings)
        rest = own_scorings.exclude(state=Work.State.DONE)
        wait_for(runs.filter(state=Work.State.RUNNING).exists, "some work is under way", 120)
        self.switch.change_cable(name, state)
        alert_seconds = 0.0
        if state == "pulled":
            alerts = {f"away:worker@{host}" for host in (("alpha", "beta") if name == "web" else (name,))}
            alert_seconds = wait_for(lambda: alerts <= open_incidents(), "an alert", ALERT_SECONDS)
            self.look_at_page(name)
        if (name, state) == ("web", "pulled"):
            self.switch.change_cable(name, "good")
        if (name, state) == ("web", "bad"):  # every query and file of every worker crosses this cable
            slow_seconds = wait_for(
                own_scorings.filter(state=Work.State.DONE).exists, "one entry is scored", 2 * WORK_SECONDS
            )
            say(f"web    bad     the first of {len(scorings)} entries is scored after {slow_seconds:5.1f} s")
            self.switch.change_cable(name, "good")
        work_seconds = wait_for(lambda: not rest.exists(), f"all is done, {name} {state}", WORK_SECONDS)
        self.switch.change_cable(name, "good")
        workers = {"worker@alpha", "worker@beta"}
        return_seconds = wait_for(
            lambda: living_workers() == workers and not open_incidents(), "the workers are back", RETURN_SECONDS
        )
        say(
            f"{name:6} {state:7} alert after {alert_seconds:5.1f} s, all done {work_seconds:5.1f} s later, "
            f"back {return_seconds:4.1f} s after the cable"
        )

    def look_at_page(self, name: str) -> None:
        """Read the operators' page of workers on the web host: it names who is away. And readyz answers."""
        page = self.operator.get("/operate/workers/").content.decode()
        for host in ("alpha", "beta") if name == "web" else (name,):
            if f"worker@{host} is away" not in page:
                raise AssertionError(f"/operate/workers/ does not say that worker@{host} is away")
        answer = json.loads(read_page(self.processes, "/readyz"))
        if answer["checks"]["database"] != "ok":
            raise AssertionError(f"/readyz: {answer}")

    def compare(self) -> None:
        """Compare all hashes and counts with those of the same work in one process, undisturbed."""
        from tests.hosts.work import describe_results

        database = "reference"
        environment = self.processes.own_environment(database) | {
            "PLUMBLINE_VAR": str(self.processes.folder / database),
            "STORAGE_URL": "",
        }
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {database}")
        command = [PYTHON, "-m", "tests.hosts.work", str(len(FAULTS))]
        answer = subprocess.run(
            command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
        )
        reference = json.loads(answer.stdout.splitlines()[-1])
        results = json.loads(json.dumps(describe_results()))
        differences = sorted(key for key in reference if results.get(key) != reference[key])
        if differences or len(results) != len(reference):
            raise AssertionError(f"other numbers than undisturbed: {differences}\n{results}\n{reference}")
        say(f"{len(results)} entries have the same bytes and numbers as undisturbed, and each was counted once")


def main() -> int:
    """Try all faults; 1 where this machine cannot."""
    if obstacles := find_obstacles():
        say(
            f"hosts-check needs {', '.join(obstacles)}: run it as root on Linux, outside a container without privileges"
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="plumbline-hosts-") as folder, network("web", "alpha", "beta") as switch:
        processes = Processes(Path(folder), switch.hosts["web"])
        campaign = Campaign(switch, processes)
        try:
            campaign.start()
            for number, (name, state) in enumerate(FAULTS):
                campaign.try_fault(number, name, state)
            campaign.compare()
        except BaseException:
            for log in sorted(Path(folder).glob("*.log")):
                say(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise
        finally:
            processes.stop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
