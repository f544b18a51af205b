"""A citation comes with the papers that its numbers rest on."""

import re
from html import unescape

import pytest

from leaderboard.models import MetricVersion
from leaderboard.references import all_papers, list_papers
from leaderboard.services.published import seed_published
from leaderboard.services.seed import seed_metrics
from tests.leaderboard.test_history import page

pytestmark = pytest.mark.django_db


def entries(html: str) -> list[str]:
    """The BibTeX entries of a page, in order."""
    blocks = (unescape(block) for block in re.findall(r"<pre [^>]*>(.*?)</pre>", html, re.DOTALL))
    return [entry for block in blocks if block.startswith("@") for entry in block.split("\n\n")]


@pytest.mark.slow
def test_every_source_of_published_figures_has_its_paper_by_its_number(metric):
    seed_metrics()
    seed_published()
    versions = MetricVersion.objects.select_related("metric", "protocol__evaluation_set")
    assert len(versions) > 10
    for version in versions:
        first, *_ = list_papers([version])
        assert any(paper.arxiv in version.source for paper in list_papers([version])), version.source
        assert any(word in version.source for word in first.words), "the source comes first"


def test_a_published_ranking_is_cited_with_its_paper_and_the_set_s(client, published):
    html = page(client, "/rankings/?metric=safety-toxigen&provenance=published")
    board, *papers = entries(html)
    assert board.startswith("@misc{plumbline-")
    assert [re.match(r"@misc\{([\w-]+),", paper)[1] for paper in papers] == ["hosseini-2023", "hartvigsen-2022"]
    assert "  eprint        = {2301.09211}," in papers[0]
    assert "cite the paper" in " ".join(html.split())
    about = entries(page(client, "/about/?metric=rtp-helm-perspective"))
    assert {re.match(r"@misc\{([\w-]+),", paper)[1] for paper in about[1:]} >= {"pozzobon-2023", "liang-2022"}
    assert len(entries(page(client, "/about/"))) == 1, "the board as a whole rests on no one paper"
    model = entries(page(client, "/models/hosseini-2023-gpt-2/"))
    assert sum(paper.startswith("@misc{hosseini-2023,") for paper in model) == 3, "one for each of its metrics"


def test_entries_are_whole(db):
    for paper in all_papers():
        assert re.fullmatch(r"\d{4}\.\d{5}", paper.arxiv)
        assert 2000 + int(paper.arxiv[:2]) in (paper.year, paper.year - 1, paper.year + 1)
        assert paper.bibtex.count("{") == paper.bibtex.count("}")
        assert all(re.fullmatch(r"[^,]+, [^,]+|others", name) for name in paper.author.split(" and "))
        assert paper.formulas or paper.sets or paper.words
