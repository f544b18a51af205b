"""A language model as the scorer of a metric: its page says what its name does not fix."""

import pytest
from django.test import Client

from leaderboard.models import Metric
from leaderboard.services.seed import seed_metrics

NAME = "judge:toxicity@a-model"


@pytest.mark.django_db
def test_its_page_shows_disagreement_and_tags_it_as_not_deterministic():
    seed_metrics()
    metric = Metric.objects.get(slug="toxicity-profanity")
    Metric.objects.filter(pk=metric.pk).update(scorer=NAME)
    address = f"/scorers/{NAME}/"
    page = Client().get(address).content.decode()
    assert '<span class="tag">not deterministic</span>' in page
    assert '<span class="tag">unversioned</span>' in page
    assert "Its votes differ" not in page
