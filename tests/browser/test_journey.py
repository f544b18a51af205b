"""A visitor's whole way through the board: with a script, and without one."""

import csv
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"),
]

CURIE, CURIES = "text-curie-001", ["text-curie-001", "GPT-3 curie"]


class Visitor:
    """Someone who chooses in forms; without a script they press its button, with one they need not."""

    def __init__(self, page: Page, scripted: bool) -> None:
        self.page, self.scripted = page, scripted

    def choose(self, name: str, value: str) -> None:
        self.page.locator(f"main select[name={name}]").select_option(value)
        self.show()

    def show(self) -> None:
        if not self.scripted:
            self.page.get_by_role("button", name="Show", exact=True).click()

    def names(self) -> list[str]:
        return self.page.locator("table.board").first.locator("tbody th a").all_inner_texts()

    def reads_rank(self, name: str, rank: int) -> None:
        row = self.page.locator("table.board tbody tr").filter(has=self.page.get_by_role("link", name=name, exact=True))
        expect(row.first.locator("td.rank")).to_have_text(re.compile(rf"^{rank}\b"))


@pytest.mark.parametrize("scripted", [True, False], ids=["script", "no-script"])
def test_a_visitor_finds_a_model_follows_its_ranks_compares_it_and_takes_the_table_away(visit, scripted):
    opened = visit("/rankings/", java_script_enabled=scripted)
    page, visitor = opened.page, Visitor(opened.page, scripted)
    page.get_by_role("navigation", name="Metrics").get_by_role("link", name="HELM's RealToxicityPrompts").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("HELM's RealToxicityPrompts")

    # Finds a model.
    page.get_by_label("Search", exact=True).fill("curie")
    visitor.show()
    expect(page.get_by_text("35 hidden by filters")).to_be_visible()
    assert sorted(visitor.names()) == sorted(CURIES)

    # Sorts, and changes measure, slice and version.
    visitor.choose("measure", "toxic_fraction_unique")
    visitor.choose("slice", "toxic")
    visitor.reads_rank(CURIE, 23)
    visitor.choose("version", "1")
    visitor.reads_rank(CURIE, 35)
    page.get_by_role("link", name="Model", exact=True).first.click()
    page.wait_for_url(re.compile("sort=model"))
    expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "ascending")
    assert visitor.names() == sorted(CURIES)
    chosen = parse_qs(urlsplit(page.url).query)
    assert (chosen["q"], chosen["version"], chosen["sort"]) == (["curie"], ["1"], ["model"])

    # Opens the bump chart and follows the model.
    page.get_by_role("link", name="History of HELM's RealToxicityPrompts").click()
    expect(page.get_by_text("24 of 37 ranks changed between version 1 and version 2.")).to_be_visible()
    slug = page.locator("tr[data-model]").filter(has_text=CURIE).first.get_attribute("data-model")
    visitor.choose("model", slug)
    followed = page.locator("tr.chosen").first
    expect(followed).to_contain_text(CURIE)
    assert followed.locator("td").all_inner_texts()[:3] == ["35", "23", "+12"]
    if scripted:
        said = page.get_by_role("status").filter(
            has_text="rank 35 of 37 models under version 1, rank 23 of 37 models under version 2; up 12"
        )
        expect(said).to_be_visible()

    # Compares it with another one.
    page.get_by_role("link", name=CURIE).first.click()
    page.get_by_role("link", name="Compare it with other models").click()
    page.get_by_label("Add a model").fill(CURIES[1])
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name=f"Add {CURIES[1]}").click()
    expect(page.get_by_role("table").first).to_contain_text(CURIE)
    expect(page.get_by_role("main")).to_contain_text("published figures")

    # Goes back to where the table was, and takes it away.
    while urlsplit(page.url).path != "/rankings/":
        page.go_back()
    expect(page.get_by_label("Search", exact=True)).to_have_value("curie")
    visitor.reads_rank(CURIE, 35)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").first.click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
    assert [row["model"] for row in rows] == sorted(CURIES)
    assert {row["model"]: row["rank"] for row in rows}[CURIE] == "35"
    assert opened.faults == []
