"""The API, asked everything that its description allows, and much that it does not."""

from functools import cache

import pytest
import schemathesis
from django.conf import settings as site
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from hypothesis import HealthCheck, settings
from schemathesis.config import GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig

from leaderboard.api import api

EXAMPLES = 5  # of each operation, beside what its description makes certain to be tried

config = SchemathesisConfig(
    projects=ProjectsConfig(default=ProjectConfig(generation=GenerationConfig(deterministic=True, max_examples=EXAMPLES)))
)
schema = schemathesis.openapi.from_dict(api.get_openapi_schema(path_prefix="/api/v1/"), config=config)
served = cache(get_wsgi_application)  # when it is first asked: static files are not there yet
schema.app = lambda environ, start_response: served()(environ, start_response)
schema.location = "/api/v1/openapi.json"


pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", autouse=True)
def _served_board(small_board, _static_files, django_db_blocker):
    """One board and one application for all operations, which change nothing."""
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch, transaction.atomic():
        patch.setattr(site, "API_REQUESTS_A_MINUTE", 10**9)
        patch.setattr(site, "ALLOWED_HOSTS", ["localhost"])
        call_command("loaddata", str(small_board), verbosity=0)
        yield
        transaction.set_rollback(True)


@schema.parametrize()
@settings(derandomize=True, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
def test_the_api_keeps_what_its_description_says(case):
    case.call_and_validate()
