"""`make release VERSION=x.y.z`: a release as a commit, a tag and a folder of files, ready to be pushed by hand.

1. In the tree: the section of CHANGELOG.md, the version in pyproject.toml and CITATION.cff, the project's address in
   CITATION.cff and SECURITY.md where PROJECT_URL=... names it, the hashes of migrations that are frozen from now on,
   and a dump of a new board, which the tests of later releases migrate. One commit.
2. The annotated tag vVERSION.
3. In dist/VERSION: the code as an archive, the engine as a wheel, the images of the workers and of the site where
   docker, podman or buildah runs, SHA256SUMS, and provenance.json, an in-toto statement of what they were made from.

An interrupted first step leaves the tree as it was; a commit and a tag that are there are left as they are. The same
command goes on. `--rehearse` does everything in a clone, whose folder it prints.
"""

import argparse
import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-torch.lock", "requirements-site.lock", "requirements-dev.lock")
# What the images of deploy/Dockerfile are called, and the arguments that they are built with.
IMAGES = {"plumbline": (), "plumbline-site": ("--build-arg", "REQUIREMENTS=requirements-site.lock")}
NO_ADDRESS = "not published yet."
WHEEL = "from setuptools import build_meta; build_meta.build_wheel({folder!r})"


class ReleaseRefused(Exception):
    """What stands in the way, and what to do."""


def release(root: Path, version: str, project_url: str = "") -> Path:
    """Commit, tag and build `version` of the checkout `root`; returns the folder of its files.

    project_url: where the project is published from now on. Raises ReleaseRefused, before anything is changed, where
    the tree has changes, nothing is noted as unreleased, the address is none, or the tag is elsewhere; and
    CalledProcessError where a tool fails.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ReleaseRefused(f"VERSION={version}: use three numbers, as in 0.2.0")
    if run(root, "git", "status", "--porcelain"):
        raise ReleaseRefused("the tree has changes that are not committed: commit or remove them")
    tag = f"v{version}"
    if not run(root, "git", "tag", "--list", tag):
        try:
            if project_url:
                write_address(root, project_url)
            write_version(root, version, f"{datetime.now(UTC):%Y-%m-%d}")
            freeze_migrations(root)
            dump_board(root, root / "tests" / "releases" / f"{version}.board.sql.gz")
            run(root, "git", "add", "--all")
            if run(root, "git", "status", "--porcelain"):
                run(root, "git", "commit", "--quiet", "--message", f"Release {version}")
        except BaseException:  # Ctrl-C, too: the tree was as committed, and is so again
            run(root, "git", "reset", "--quiet", "--hard")
            run(root, "git", "clean", "--quiet", "--force", "tests/releases")
            raise
        run(root, "git", "tag", "--annotate", tag, "--message", f"Plumbline {version}")
    if run(root, "git", "rev-parse", f"{tag}^{{commit}}") != run(root, "git", "rev-parse", "HEAD"):
        raise ReleaseRefused(f"{tag} is another commit than this one: check that out, or choose another version")
    return build_files(root, version, root / "dist" / version)


def write_address(root: Path, url: str) -> None:
    """Say in SECURITY.md and CITATION.cff where the project is. Raises ReleaseRefused where that is no address."""
    if not re.fullmatch(r"https://[\w.:/~+-]+", url, re.ASCII):
        raise ReleaseRefused(f"PROJECT_URL={url}: give the https:// address of the project's repository")
    for name, pattern, line in (
        ("SECURITY.md", r"^The address of the project: .*$", f"The address of the project: {url}"),
        ("CITATION.cff", r"^(title: .*)(\nrepository-code: .*)?$", rf'\1\nrepository-code: "{url}"'),
    ):
        content = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(re.sub(pattern, line, content, count=1, flags=re.MULTILINE), encoding="utf-8")


def write_version(root: Path, version: str, day: str) -> None:
    """Put the version into the change log, pyproject.toml and CITATION.cff, unless it is there."""
    log = root / "CHANGELOG.md"
    text = log.read_text(encoding="utf-8")
    if f"\n## [{version}]" not in text:
        body = text.partition("## [Unreleased]\n")[2].partition("\n## [")[0]
        if not re.search(r"^- ", body, re.MULTILINE):
            raise ReleaseRefused("CHANGELOG.md has nothing under [Unreleased]: say what changes for people")
        text = text.replace("## [Unreleased]\n", f"## [Unreleased]\n\n## [{version}] - {day}\n", 1)
        anchor = f"#{version.replace('.', '')}---{day}"
        text = text.replace("[Unreleased]: #unreleased\n", f"[Unreleased]: #unreleased\n[{version}]: {anchor}\n", 1)
        log.write_text(text, encoding="utf-8")
    for name, pattern, line in (
        ("pyproject.toml", r'^version = ".*"$', f'version = "{version}"'),
        ("CITATION.cff", r"^version: .*$(\ndate-released: .*$)?", f"version: {version}\ndate-released: {day}"),
    ):
        content = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(re.sub(pattern, line, content, count=1, flags=re.MULTILINE), encoding="utf-8")


def freeze_migrations(root: Path) -> None:
    """Note the hash of each migration that no release had: a test refuses changes of them from now on."""
    record = root / "tests" / "releases" / "migrations.sha256"
    names = {line.split("  ")[1] for line in record.read_text(encoding="utf-8").splitlines()}
    with record.open("a", encoding="utf-8") as file:
        for path in sorted((root / "leaderboard" / "migrations").glob("[0-9]*.py")):
            if path.name not in names:
                file.write(f"{hash_file(path)}  {path.name}\n")


def dump_board(root: Path, target: Path) -> None:
    """Write the SQL of a migrated and seeded board on SQLite, compressed."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "PLUMBLINE_VAR": folder,
            "SECRET_KEY": "for this only",
            "DATABASE_URL": f"sqlite:///{folder}/board",
            **dict.fromkeys(("STORAGE_URL", "STORAGE_ALSO_URL"), ""),  # or .env would name the storage of a board
        }
        for command in ("migrate", "seed"):
            run(root, sys.executable, "manage.py", command, variables=variables)
        with closing(sqlite3.connect(f"{folder}/board")) as board:
            target.write_bytes(gzip.compress("\n".join(board.iterdump()).encode(), mtime=0))


def build_files(root: Path, version: str, folder: Path) -> Path:
    """Make the files of a release from its tag, not from the tree around it."""
    tag, name = f"v{version}", f"plumbline-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = folder / f"{name}.tar.gz"
    run(root, "git", "archive", f"--prefix={name}/", f"--output={archive}", tag)
    with tempfile.TemporaryDirectory() as place:
        shutil.unpack_archive(archive, place, filter="data")
        code = Path(place) / name
        moment = {"SOURCE_DATE_EPOCH": run(root, "git", "log", "-1", "--format=%ct", tag)}
        run(code, sys.executable, "-c", WHEEL.format(folder=str(folder)), variables=moment)
        shutil.copy(root / "tests" / "releases" / f"{version}.board.sql.gz", folder / f"{name}-board.sql.gz")
        images = build_images(code, version, folder)
    statement = describe_origin(root, version, folder, images)
    (folder / "provenance.json").write_text(json.dumps(statement, indent=2) + "\n", encoding="utf-8")
    sums = "".join(f"{hash_file(path)}  {path.name}\n" for path in sorted(folder.iterdir()))
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return folder


def build_images(code: Path, version: str, folder: Path) -> str:
    """Save each image as an archive, by what builds images here; returns how, or why there is none."""
    tools = {"docker": ("save", "--output"), "podman": ("save", "--output"), "buildah": ("push",)}
    for tool, saving in tools.items():
        if shutil.which(tool) and subprocess.run([tool, "info"], capture_output=True, check=False).returncode == 0:
            for name, arguments in IMAGES.items():
                image, archive = f"{name}:{version}", str(folder / f"{name}-{version}-image.tar")
                run(code, tool, "build", "--file", "deploy/Dockerfile", "--tag", image, *arguments, ".")
                places = (image, f"docker-archive:{archive}") if tool == "buildah" else (archive, image)
                run(code, tool, *saving, *places)
            return f"built with {tool}"
    return "not made: neither docker nor podman nor buildah runs here"


def describe_origin(root: Path, version: str, folder: Path, images: str) -> dict[str, object]:
    """What the files were made from and by, as an in-toto statement with SLSA's provenance."""
    commit = run(root, "git", "rev-parse", f"v{version}^{{commit}}")
    locks = [{"name": name, "digest": {"sha256": hash_file(root / name)}} for name in LOCKS]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": hash_file(path)}} for path in sorted(folder.iterdir())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:plumbline:make-release",
                "externalParameters": {"version": version},
                "internalParameters": {"images": images},
                "resolvedDependencies": [{"name": "commit", "digest": {"gitCommit": commit}}, *locks],
            },
            "runDetails": {
                "builder": {
                    "id": "urn:plumbline:make-release",
                    "version": {"python": platform.python_version(), "system": platform.system()},
                },
                "metadata": {"finishedOn": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
            },
        },
    }


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(folder: Path, *command: str, variables: dict[str, str] | None = None) -> str:
    """What a command prints in `folder`. Raises CalledProcessError; its own messages go to standard error."""
    environment = os.environ | (variables or {})
    process = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return process.stdout.strip()


def main() -> None:
    """Make a release, or rehearse it."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__.partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--project-url", default="", help="where the project is published, once it changes")
    parser.add_argument("--rehearse", action="store_true", help="in a clone of the last commit")
    arguments = parser.parse_args()
    root = ROOT
    if arguments.rehearse:
        root = Path(tempfile.mkdtemp(prefix="plumbline-release-"))
        run(ROOT, "git", "clone", "--quiet", str(ROOT), str(root))
    try:
        folder = release(root, arguments.version, arguments.project_url)
    except ReleaseRefused as refusal:
        sys.exit(f"make release: {refusal}")
    statement = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    print((folder / "SHA256SUMS").read_text(encoding="utf-8"), end="")
    print(f"the images were {statement['predicate']['buildDefinition']['internalParameters']['images']}")
    if f": {NO_ADDRESS}\n" in (root / "SECURITY.md").read_text(encoding="utf-8"):
        print("SECURITY.md does not say where the project is: give PROJECT_URL=https://... before you publish it")
    print(f"look at {folder} and at `git -C {root} show v{arguments.version}`; then push the branch and the tag")


if __name__ == "__main__":
    main()
