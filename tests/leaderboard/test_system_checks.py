"""System checks: each names the setting that is wrong and what to set it to."""

from io import BytesIO
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.core.checks import run_checks

from leaderboard.models import LanguageModel, Reading, Run
from leaderboard.services import cages
from leaderboard.services.cages import is_strict
from leaderboard.storage.addresses import WrongAddress, read_both, read_storage_address
from scoring.cage import CageUnavailable, supervisor
from scoring.cage.protections import Protection
from scoring.language_models import BUNDLED
from scoring.language_models.revisions import folder_revision
from tests.leaderboard.conftest import CAUSAL

GOOD = {
    "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
    "EMAIL_HOST": "smtp.example.org",
    "EMAIL_HOST_PASSWORD": "x",
    "EMAIL_USE_TLS": True,
    "DEFAULT_FROM_EMAIL": "Board <board@example.org>",
    "HTTPS_ONLY": True,
    "ALLAUTH_TRUSTED_PROXY_COUNT": 1,
    "SITE_URL": "https://board.example.org",
    "ALLOWED_HOSTS": ["board.example.org"],
    "SECRET_KEY": "k" * 20 + "0123456789" * 4,
    "CAGE": "required",
}


@pytest.fixture
def good(settings, tmp_path: Path):
    """The settings of a board that others may visit."""
    for name, value in GOOD.items():
        setattr(settings, name, value)
    (tmp_path / "var").mkdir(mode=0o700)
    settings.VAR, settings.BASE_DIR = tmp_path / "var", tmp_path
    return settings


def problems() -> dict[str, str]:
    """The hints of this board's own checks, by id."""
    return {message.id: message.hint for message in run_checks(include_deployment_checks=True) if "plumb" in message.id}


def test_a_board_as_it_should_be_has_no_problems(good):
    assert problems() == {}


@pytest.mark.parametrize(
    ("name", "value", "identifier", "remedy"),
    [
        ("EMAIL_BACKEND", "leaderboard.terminal_letters.TerminalLetters", "plumbline.W001", "Set EMAIL_URL to"),
        ("DEFAULT_FROM_EMAIL", "Plumbline <plumbline@localhost>", "plumbline.W002", "Set DEFAULT_FROM_EMAIL"),
        ("EMAIL_USE_TLS", False, "plumbline.W003", "submission://"),
        ("SITE_URL", "http://board.example.org", "plumbline.W021", "Set SITE_URL"),
        ("SECRET_KEY", "short", "plumbline.E030", "Set SECRET_KEY"),
        ("SECRET_KEY", "changeme" * 10, "plumbline.E030", "Set SECRET_KEY"),
        ("METRICS_TOKEN", "1234", "plumbline.W031", "Set METRICS_TOKEN"),
        ("ALERT_SECRET", "1234", "plumbline.W031", "Set ALERT_SECRET"),
        ("ALLAUTH_TRUSTED_PROXY_COUNT", 0, "plumbline.W040", "Set TRUSTED_PROXIES"),
        ("ALLOWED_HOSTS", ["*"], "plumbline.W042", "Set ALLOWED_HOSTS"),
        ("CSP_REPORT_ONLY", True, "plumbline.W050", "Set CSP_REPORT_ONLY=false"),
        ("CAGE", "best", "plumbline.W051", "Set CAGE=required"),
        ("STORAGE_DOWNLOADS", "signed", "plumbline.W061", "Set STORAGE_URL to a bucket"),
        ("ALLOWED_HOSTS", ["other.example.org"], "plumbline.W043", "Add board.example.org to ALLOWED_HOSTS"),
    ],
)
def test_a_setting_that_is_wrong_has_a_check_with_a_remedy(good, name, value, identifier, remedy):
    setattr(good, name, value)
    assert list(problems()) == [identifier]
    assert remedy in problems()[identifier]


@pytest.mark.parametrize(("name", "least"), [("SECRET_KEY", 32), ("METRICS_TOKEN", 16), ("ALERT_SECRET", 16)])
def test_a_secret_is_long_enough_from_its_least_number_of_characters_on(good, name, least):
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    setattr(good, name, letters[:least])
    assert problems() == {}
    setattr(good, name, letters[: least - 1])
    assert len(problems()) == 1


@pytest.mark.parametrize(("cage", "expected"), [("required", True), ("best", False)])
def test_protections_are_required_where_the_setting_says_so(settings, cage, expected):
    settings.CAGE = cage
    assert is_strict() is expected


def open_upload(path: Path) -> None:
    with cages.open_upload(path, Mock(work=Reading(total=2))):
        pass


def open_model(_path: Path) -> None:
    revision = folder_revision(BUNDLED / CAUSAL)
    model = LanguageModel(slug="m", name="m", source="bundled", location=CAUSAL, revision=revision)
    with cages.open_model(model, "float32", Mock(work=Run())):
        pass


READERS = {
    "an upload": open_upload,
    "results of a tool": lambda path: cages.read_results(BytesIO(path.read_bytes())),
    "a model to run": open_model,
    "a model": lambda _path: cages.resolve_model(str(BUNDLED / CAUSAL)),
    "several models": lambda _path: cages.resolve_folders([BUNDLED / CAUSAL]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_where_a_required_protection_is_missing_nothing_is_read(settings, monkeypatch, tmp_path, name):
    path = tmp_path / "sent"
    path.write_bytes(b"{}")
    settings.CAGE = "required"
    protection = Protection("network", "No network", False, "the kernel is too old")
    monkeypatch.setattr(supervisor, "missing_protections", lambda _protections: [protection])
    with pytest.raises(CageUnavailable, match="this host lacks protections that CAGE=required"):
        READERS[name](path)


def test_without_tls_both_passwords_and_the_claimed_addresses_are_told(good):
    good.HTTPS_ONLY = False
    assert set(problems()) == {"plumbline.W020", "plumbline.W041"}
    assert all(hint and "HTTPS_ONLY=true" in hint for hint in problems().values())
    good.ALLAUTH_TRUSTED_PROXY_COUNT = 0
    assert set(problems()) == {"plumbline.W020"}


def test_files_that_others_may_read_are_named_without_deployment_checks_too(good):
    database = good.VAR / "plumbline.sqlite3"
    database.touch()
    database.chmod(0o644)
    (found,) = [message for message in run_checks() if message.id == "plumbline.W010"]
    assert str(database) in found.msg
    assert found.hint.startswith(f"chmod -R go= {good.VAR}")


def test_a_folder_of_another_user_is_told(good, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert "one user" in problems()["plumbline.W011"]


def test_a_file_of_settings_that_others_may_read_is_told(good):
    file = good.BASE_DIR / ".env"
    file.touch()
    file.chmod(0o640)
    assert problems() == {"plumbline.W032": f"chmod 600 {file}"}


def test_the_board_as_it_comes_passes_what_lint_asks():
    assert [message for message in run_checks() if message.id.startswith("plumbline")] == []


BUCKET = "s3://files-of-board/prefix?endpoint=https://storage.example.org"
FOLDER = "file:///srv/files"


@pytest.mark.parametrize(
    ("addresses", "cache", "found"),
    [
        ((BUCKET,), 20, {}),
        ((BUCKET.replace("https", "http"),), 20, {"plumbline.W062": "Set its endpoint to https://"}),
        ((BUCKET, FOLDER), 20, {"plumbline.W060": "Take it out once `manage.py storage move` copies nothing more."}),
        ((BUCKET,), 10**9, {"plumbline.W064": "Set STORAGE_CACHE_GB to what may lie there"}),
    ],
)
def test_settings_of_the_storage_have_checks_with_remedies(good, monkeypatch, addresses, cache, found):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    entries = [read_storage_address(address) for address in addresses]
    entry = read_both(*entries) if len(entries) == 2 else entries[0]
    good.STORAGES = good.STORAGES | {"default": entry}
    good.STORAGE_CACHE_GB = cache
    hints = problems()
    assert hints.keys() == found.keys()
    assert all(hints[identifier].startswith(remedy) for identifier, remedy in found.items())
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert problems().keys() - hints.keys() == {"plumbline.W063"}


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("s3://key:word@bucket/", "it holds credentials: take them out, and set AWS_ACCESS_KEY_ID"),
        ("s3://Bucket_1/", "it names no bucket"),
        ("s3://bucket?endpiont=https://x", "it has the parameter endpiont: the parameters are endpoint and region"),
        ("s3://bucket?endpoint=storage.example.org", "its endpoint is no address"),
        ("s3://bucket?endpoint=https://key:word@x", "its endpoint is no address"),
        ("file:files", "a folder is given by its absolute path"),
        ("/srv/files", "it begins with no scheme: set it to file:///absolute/folder or s3://"),
        ("s3://[bucket", "it is no address"),
    ],
)
def test_an_address_of_a_storage_that_is_wrong_is_refused_without_showing_it(address, problem):
    with pytest.raises(WrongAddress, match=problem) as caught:
        read_storage_address(address)
    assert "word" not in str(caught.value)
