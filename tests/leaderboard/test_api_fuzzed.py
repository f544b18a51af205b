"""The API, asked everything that its description allows, and much that it does not."""

import re
from collections.abc import Callable
from functools import cache

import pytest
import schemathesis
from django.conf import settings as site
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

from leaderboard.api import api, front

EXAMPLES = 3  # of each operation, beside what its description makes certain to be tried

project = ProjectConfig(
    generation=GenerationConfig(deterministic=True, max_examples=EXAMPLES),
    headers={"Accept-Encoding": "identity"},  # its WSGI client reads nothing else
)
config = SchemathesisConfig(projects=ProjectsConfig(default=project))
schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/api/v1/"), config=config)
served = cache(get_wsgi_application)  # when it is first asked: static files are not there yet
schema.app = lambda environ, start_response: served()(environ, start_response)
schema.location = "/api/v1/openapi.json"


pytestmark = [pytest.mark.django_db, pytest.mark.either_database, pytest.mark.slow]


@pytest.fixture(scope="module")
def _one_connection():
    """As Django's test client does: at the end of a request the connection stays, and with it the transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture(scope="module", autouse=True)
def _served_board(_one_connection, lasting_board):
    """One board and one application for all operations, which change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(front, "seconds_to_wait", lambda *_: 0)
        patch.setattr(site, "ALLOWED_HOSTS", ["localhost"])
        yield


def validation_of(method: str, path: str) -> Callable[[schemathesis.Case], None]:
    """A test of one operation."""

    @schema.include(method=method, path=path).parametrize()
    @settings(derandomize=True, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    def validate(case: schemathesis.Case) -> None:
        case.call_and_validate()

    return validate


# Each has a name of its own: of tests that share one, pytest-xdist runs the first and drops the others.
for operation in (result.ok() for result in schema.get_all_operations()):
    subject = re.sub(r"\W+", "_", f"{operation.method} {operation.path}").strip("_").lower()
    globals()[f"test_the_api_keeps_what_it_says_of_{subject}"] = validation_of(operation.method, operation.path)
