"""What `make release` does to the tree, and what it refuses."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.release import (
    ReleaseRefused,
    build_images,
    describe_origin,
    freeze_migrations,
    hash_file,
    release,
    run,
    write_address,
    write_version,
)

pytestmark = pytest.mark.either_database
LOG = """# Changelog

## [Unreleased]

### Changed

- A page is faster.

[Unreleased]: #unreleased
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the files that a release writes, and one migration that an earlier release had."""
    root = tmp_path / "checkout"
    for folder in ("tests/releases", "leaderboard/migrations"):
        (root / folder).mkdir(parents=True)
    (root / "CHANGELOG.md").write_text(LOG)
    (root / "pyproject.toml").write_text('[project]\nname = "plumbline"\nversion = "0.1.0"\n')
    (root / "SECURITY.md").write_text("The address of the project: not published yet.\n\nMore.\n")
    (root / "CITATION.cff").write_text("title: Plumbline\nversion: 0.1.0\nlicense: Apache-2.0\n")
    for name in ("0001_initial", "0002_pulse"):
        (root / f"leaderboard/migrations/{name}.py").write_text(f"# {name}\n")
    (root / "tests/releases/migrations.sha256").write_text("00  0001_initial.py\n")
    for command in (("init",), ("add", "."), ("commit", "--message", "All")):
        run(root, "git", "-c", "user.name=A", "-c", "user.email=a@example.org", *command)
    return root


def test_what_was_unreleased_becomes_the_section_of_the_version_and_twice_is_as_once(checkout):
    write_version(checkout, "0.2.0", "2030-01-02")
    write_version(checkout, "0.2.0", "2030-01-02")
    log = (checkout / "CHANGELOG.md").read_text()
    assert "## [Unreleased]\n\n## [0.2.0] - 2030-01-02\n\n### Changed\n\n- A page is faster.\n" in log
    assert log.count("## [0.2.0]") == 1
    assert log.endswith("[Unreleased]: #unreleased\n[0.2.0]: #020---2030-01-02\n")
    assert (checkout / "pyproject.toml").read_text().endswith('version = "0.2.0"\n')
    citation = (checkout / "CITATION.cff").read_text()
    assert citation == "title: Plumbline\nversion: 0.2.0\ndate-released: 2030-01-02\nlicense: Apache-2.0\n"


def test_the_address_of_the_project_stands_where_people_report_and_cite_and_a_new_one_in_its_place(checkout):
    for url in ("https://forge.example/plumbline", "https://forge.example/team/plumbline"):
        write_address(checkout, url)
    assert (checkout / "SECURITY.md").read_text() == f"The address of the project: {url}\n\nMore.\n"
    citation = f'title: Plumbline\nrepository-code: "{url}"\nversion: 0.1.0\nlicense: Apache-2.0\n'
    assert (checkout / "CITATION.cff").read_text() == citation
    for wrong in (
        "http://forge.example/plumbline",
        'https://forge.example/"\ntitle: x',
        r"https://forge.example/\g<0>",
    ):
        with pytest.raises(ReleaseRefused, match="give the https:// address of the project"):
            write_address(checkout, wrong)
    assert (checkout / "CITATION.cff").read_text() == citation


def test_migrations_that_no_release_had_are_frozen_by_their_hashes(checkout):
    freeze_migrations(checkout)
    new = hashlib.sha256(b"# 0002_pulse\n").hexdigest()
    record = (checkout / "tests/releases/migrations.sha256").read_text()
    assert record == f"00  0001_initial.py\n{new}  0002_pulse.py\n"


def test_a_release_without_changes_for_people_a_dirty_tree_and_no_version_are_refused_and_change_nothing(checkout):
    with pytest.raises(ReleaseRefused, match="use three numbers"):
        release(checkout, "next")
    (checkout / "CHANGELOG.md").write_text(LOG.replace("- A page is faster.\n", ""))
    with pytest.raises(ReleaseRefused, match="changes that are not committed"):
        release(checkout, "0.2.0")
    with pytest.raises(ReleaseRefused, match=r"nothing under \[Unreleased\]"):
        write_version(checkout, "0.2.0", "2030-01-02")
    assert 'version = "0.1.0"' in (checkout / "pyproject.toml").read_text()


def test_a_release_that_is_interrupted_goes_on_with_the_same_command(checkout, monkeypatch):
    for name, value in (("user.name", "A"), ("user.email", "a@example.org")):
        run(checkout, "git", "config", name, value)

    def interrupt(_root: Path, target: Path) -> None:
        target.write_bytes(b"half a board")
        raise KeyboardInterrupt

    monkeypatch.setattr("tests.release.dump_board", interrupt)
    with pytest.raises(KeyboardInterrupt):
        release(checkout, "0.2.0")
    assert run(checkout, "git", "status", "--porcelain") == ""
    assert not list((checkout / "tests/releases").glob("*.gz"))
    monkeypatch.setattr("tests.release.dump_board", lambda _root, target: target.write_bytes(b"a board"))
    monkeypatch.setattr("tests.release.build_files", lambda _root, _version, folder: folder)
    assert release(checkout, "0.2.0", "https://forge.example/plumbline") == checkout / "dist" / "0.2.0"
    assert 'repository-code: "https://forge.example/plumbline"' in run(checkout, "git", "show", "v0.2.0:CITATION.cff")
    assert run(checkout, "git", "tag", "--list").strip() == "v0.2.0"
    assert (checkout / "tests/releases/0.2.0.board.sql.gz").read_bytes() == b"a board"


def test_a_version_whose_tag_is_another_commit_is_refused(checkout):
    run(checkout, "git", "tag", "v0.2.0")
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    run(checkout, "git", *identity, "commit", "--allow-empty", "--message", "More")
    with pytest.raises(ReleaseRefused, match=r"v0.2.0 is another commit"):
        release(checkout, "0.2.0")


def test_the_origin_names_the_commit_each_lock_and_the_hash_of_each_file(checkout, tmp_path):
    for lock in ("", "-torch", "-site", "-dev"):
        (checkout / f"requirements{lock}.lock").write_text(f"numpy{lock}==1\n")
    run(checkout, "git", "tag", "v0.2.0")
    files = tmp_path / "files"
    files.mkdir()
    (files / "plumbline.tar.gz").write_bytes(b"code")
    statement = describe_origin(checkout, "0.2.0", files, "not made: no tool")
    assert statement["subject"] == [
        {"name": "plumbline.tar.gz", "digest": {"sha256": hashlib.sha256(b"code").hexdigest()}}
    ]
    definition = statement["predicate"]["buildDefinition"]
    commit, *locks = definition["resolvedDependencies"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True)
    assert commit["digest"]["gitCommit"] == head.stdout.strip()
    assert {lock["name"]: lock["digest"]["sha256"] for lock in locks} == {
        path.name: hash_file(path) for path in checkout.glob("*.lock")
    }
    assert definition["internalParameters"] == {"images": "not made: no tool"}


BUILDER = """#!/bin/sh
echo "$@" >> "$LOG"
[ "$1" = info ] && exit {answer}
for word; do case "$word" in *image.tar) : > "${{word#docker-archive:}}";; esac; done
"""


@pytest.mark.parametrize(
    ("running", "saving"),
    [
        ("docker", "save --output {archive} {image}"),
        ("podman", "save --output {archive} {image}"),
        ("buildah", "push {image} docker-archive:{archive}"),
    ],
)
def test_the_images_of_workers_and_of_the_site_are_built_and_kept_by_the_tool_that_runs(
    running, saving, tmp_path, monkeypatch
):
    """`docker` is often installed where nothing runs that it talks to."""
    tools, folder, log = tmp_path / "tools", tmp_path / "files", tmp_path / "log"
    for path in (tools, folder):
        path.mkdir()
    for tool in ("docker", running):
        (tools / tool).write_text(BUILDER.format(answer=int(tool != running)))
        (tools / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setenv("LOG", str(log))
    assert build_images(tmp_path, "0.2.0", folder) == f"built with {running}"
    names = ("plumbline-0.2.0-image.tar", "plumbline-site-0.2.0-image.tar")
    assert {path.name for path in folder.iterdir()} == set(names)
    workers, site = (folder / name for name in names)
    assert [line for line in log.read_text().splitlines() if line != "info"] == [
        "build --file deploy/Dockerfile --tag plumbline:0.2.0 .",
        saving.format(archive=workers, image="plumbline:0.2.0"),
        "build --file deploy/Dockerfile --tag plumbline-site:0.2.0 --build-arg REQUIREMENTS=requirements-site.lock .",
        saving.format(archive=site, image="plumbline-site:0.2.0"),
    ]


def test_where_nothing_builds_images_the_release_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_images(tmp_path, "0.2.0", tmp_path) == "not made: neither docker nor podman nor buildah runs here"
