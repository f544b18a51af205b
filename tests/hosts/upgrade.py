"""`make upgrade-check`: a board goes from one release to the next while people read, submit, and work is done.

The release is this tree; the next one is a copy with another version, one more migration and a model that uses its
column. In the order of deploy/README.md: migrate, workers one by one, web, beat. No request fails, no work is lost or
done twice.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import django

from tests.hosts.__main__ import say
from tests.hosts.board import PYTHON, ROOT, Processes, wait_for
from tests.hosts.network import find_obstacles, network

MIGRATION = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("leaderboard", "{previous}")]
    operations = [
        migrations.AddField(name, "remark", models.CharField(blank=True, db_default="", default="", max_length=9))
        for name in ("scoring", "submission")
    ]
"""
COLUMN = '    remark = models.CharField(max_length=9, blank=True, default="", db_default="")\n'
PARTS = (
    "leaderboard",
    "scoring",
    "templates",
    "static",
    "tests",
    "manage.py",
    "pyproject.toml",
    "requirements.lock",
    "requirements-torch.lock",
    "LICENSE",
)
MOST_SUBMISSIONS = "100000"


def copy_release(folder: Path, *, is_next: bool) -> Path:
    """Copy this tree into `folder`; with a new version, a migration and its columns where it is the next release."""
    folder.mkdir()
    for name in PARTS:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    if is_next:
        project = folder / "pyproject.toml"
        text = project.read_text()
        start = text.index('version = "') + len('version = "')
        project.write_text(f"{text[:start]}99.{text[start:]}")
        migrations = folder / "leaderboard" / "migrations"
        previous = max(path.stem for path in migrations.glob("[0-9]*.py"))
        (migrations / "9001_remark.py").write_text(MIGRATION.format(previous=previous))
        for module, anchor in (("work", "    texts_missing = "), ("submissions", "    concerns = ")):
            path = folder / "leaderboard" / "models" / f"{module}.py"
            head, _, tail = path.read_text().partition(anchor)
            path.write_text(head + COLUMN + anchor + tail)
    return folder


class Upgrade:
    """A board on its way from a release to the next."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self.processes, self.web, self.folder = processes, processes.web, folder
        self.old = copy_release(folder / "release", is_next=False)
        self.new = copy_release(folder / "next-release", is_next=True)
        self.visitors = folder / "visitors"
        self.visitors.mkdir()

    def environment(self) -> dict[str, str]:
        """Variables of all processes."""
        limits = {"SUBMISSIONS_AT_ONCE": MOST_SUBMISSIONS, "SUBMISSIONS_A_DAY": MOST_SUBMISSIONS}
        return self.processes.shared_environment("web") | limits

    def manage(self, code: Path, *arguments: str) -> None:
        """Run a management command of a release."""
        environment = (
            os.environ | self.environment() | {"DATABASE_URL": self.processes.own_environment()["DATABASE_URL"]}
        )
        subprocess.run([PYTHON, "manage.py", *arguments], cwd=code, env=environment, check=True)

    def start(self) -> None:
        """Start the old release, with visitors and work."""
        self.processes.start_services()
        self.manage(self.old, "migrate", "--verbosity", "0")
        self.manage(self.old, "collectstatic", "--noinput", "--verbosity", "0")
        os.environ |= self.processes.own_environment()
        django.setup()
        prepare_visitors(self.visitors)
        (self.folder / "current").write_text(str(self.old))
        listener = [PYTHON, "-m", "tests.hosts.listener", str(self.folder / "current")]
        self.processes.start("web", self.web, listener, self.environment())
        self.processes.start_beat(self.old)
        for name in ("alpha", "beta"):
            self.processes.start_worker(self.web, self.old, name)
        self.await_code(self.old, {"alpha", "beta"})
        self.processes.start("visitors", self.web, [PYTHON, "-m", "tests.hosts.visitors", str(self.visitors)], {})

    def go(self) -> None:
        """Upgrade, one process after the other."""
        self.manage(self.new, "migrate", "--verbosity", "0")
        say("migrated")
        for name in ("alpha", "beta"):
            self.processes.stop(name)
            self.processes.start_worker(self.web, self.new, name)
            self.await_code(self.new, {name})
            say(f"worker {name} is of the next release")
        (self.folder / "current").write_text(str(self.new))
        self.manage(self.new, "collectstatic", "--noinput", "--verbosity", "0")
        self.processes.running["web"].send_signal(1)  # SIGHUP: `systemctl restart`
        wait_for(lambda: self.serves_next(), "the next release answers", 60)
        say("web is of the next release")
        self.processes.stop("beat")
        self.processes.start_beat(self.new)

    def serves_next(self) -> bool:
        """Whether the web server is that of the next release: it expects the migration that is applied."""
        curl = ["curl", "--silent", "--max-time", "20", "http://127.0.0.1:8000/readyz"]
        answer = subprocess.run(self.web.inside(curl), capture_output=True, text=True, check=False).stdout
        processes = subprocess.run(["pgrep", "-f", "gunicorn"], capture_output=True, text=True, check=False).stdout
        folders = {os.readlink(f"/proc/{pid}/cwd") for pid in processes.split() if Path(f"/proc/{pid}/cwd").exists()}
        return '"database": "ok"' in answer and str(self.new) in folders

    def await_code(self, code: Path, names: set[str]) -> None:
        """Wait until living workers of these names have the code of a release and are not refused."""
        from leaderboard.models import Worker

        version = next(
            line for line in (code / "pyproject.toml").read_text().splitlines() if line.startswith("version")
        )
        prefix = version.split('"')[1] + "+"
        workers = {f"worker@{name}" for name in names}
        rows = Worker.objects.alive().filter(name__in=workers, code__startswith=prefix, refusal="")
        wait_for(lambda: rows.count() == len(workers), f"{', '.join(sorted(names))} of {prefix}", 90)

    def end(self) -> None:
        """Wait until all work is done, and count what failed, was lost or was done twice."""
        from leaderboard.models import Scoring, Submission, Work

        self.processes.stop("visitors")
        visits = json.loads((self.visitors / "visits.json").read_text())
        say(f"{visits['counts']}, longest {visits['longest']} s, {len(visits['failures'])} failed")
        count = visits["counts"]["submit"]
        under_way = Submission.objects.exclude(state=Submission.State.RANKED)
        wait_for(
            lambda: not under_way.exists() and not Scoring.objects.exclude(state=Work.State.DONE).exists(), "done", 400
        )
        tried_in_vain = Scoring.objects.exclude(attempts=0).count()
        repetitions = sum(row["n"] - 1 for row in doubled_results())
        ranked_count = Submission.objects.count()
        say(f"{ranked_count} of {count} submissions ranked, {Scoring.objects.count()} entries scored")
        problems = [*visits["failures"]]
        if ranked_count != count or tried_in_vain or repetitions:
            problems.append(f"{count - ranked_count} lost, {tried_in_vain} again, {repetitions} twice")
        if problems:
            raise AssertionError("\n".join(problems))


def doubled_results() -> list[dict[str, int]]:
    """Numbers that an entry has more than once."""
    from django.db.models import Count

    from leaderboard.models import Result

    groups = Result.objects.order_by().values("scoring", "measure", "slice").annotate(n=Count("pk"))
    return list(groups.filter(n__gt=1))


def prepare_visitors(folder: Path) -> None:
    """Make an account with a token, a metric, and a file of outputs."""
    from allauth.account.models import EmailAddress
    from django.contrib.auth.models import User

    from leaderboard.people.services.roles import set_role
    from leaderboard.people.services.tokens import make_token
    from leaderboard.services import artefacts
    from tests.hosts.work import declare

    metric = declare(0)
    ids = artefacts.load(metric.protocol.evaluation_set.artefact)["id"].to_pylist()
    rows = [
        {"prompt_id": key, "index": index, "text": f" and she went on, {index}."} for key in ids for index in range(6)
    ]
    (folder / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    user = User.objects.create_user("visitor", "visitor@example.org")
    EmailAddress.objects.create(user=user, email=user.email, verified=True, primary=True)
    set_role(user, "submitter")
    (folder / "token").write_text(make_token(user, "visits", 1)[1])


def main() -> int:
    """Upgrade a board; 1 where this machine cannot."""
    if obstacles := find_obstacles():
        say(f"upgrade-check needs {', '.join(obstacles)}: run it as root on Linux")
        return 1
    with tempfile.TemporaryDirectory(prefix="plumbline-upgrade-") as name, network("web") as switch:
        folder = Path(name)
        processes = Processes(folder, switch.hosts["web"])
        try:
            upgrade = Upgrade(processes, folder)
            upgrade.start()
            from tests.hosts.work import request_work

            request_work(0)
            upgrade.go()
            request_work(1)
            upgrade.end()
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                say(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise
        finally:
            processes.stop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
