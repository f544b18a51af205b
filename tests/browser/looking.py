"""Looking at a page: whether it can be read by everyone, in every window, in both themes."""

import os
import re
from collections import Counter
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visit
from tests.conftest import PICTURES

WIDTHS = (360, 390, 1440, 1920)
EXTREMES = (WIDTHS[0], WIDTHS[-1])
SCHEMES = ("light", "dark")
# Where axe looks: colours change with the scheme alone, and room with the width alone.
AXE_LOOKS = ((EXTREMES[0], "dark"), (EXTREMES[1], "light"))

PICTURE_WIDTHS = (390, 1440)

# Rows that differ from two before them by words alone are out of sight while axe looks, which needs as long for each.
HIDE_ALIKE_ROWS = """() => {
  const others = / (?!class|style|role|type|hidden|disabled)[a-z-]+="[^"]*"/g;
  for (const section of document.querySelectorAll("tbody")) {
    const counts = new Map();
    for (const row of section.rows) {
      const kind = row.outerHTML.replace(/>[^<]+</g, "><").replace(others, "");
      counts.set(kind, (counts.get(kind) ?? 0) + 1);
      if (counts.get(kind) > 2) {
        row.dataset.alike = row.style.display;
        row.style.display = "none";
      }
    }
  }
}"""
SHOW_ALIKE_ROWS = """() => {
  for (const row of document.querySelectorAll("tr[data-alike]")) {
    row.style.display = row.dataset.alike;
    delete row.dataset.alike;
  }
}"""

axe = Axe()
picture_counts: Counter[str] = Counter()


def keep_picture(page: Page) -> Path:
    """Keep a picture of the page as it is now, under the name of the test that looks at it."""
    test = os.environ["PYTEST_CURRENT_TEST"].removeprefix("tests/browser/").rpartition(" ")[0]
    picture_counts[test] += 1
    name = re.sub(r"[^a-z0-9]+", "-", f"{test} {picture_counts[test]:02}".lower()).strip("-")
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}-{page.viewport_size['width']}.jpg"
    page.screenshot(path=path, type="jpeg", quality=60, full_page=True, animations="disabled")
    return path


def above_fold(locator: Locator) -> bool:
    """Whether all of it is in the window before anybody scrolls."""
    expect(locator).to_be_visible()
    edges = (
        "element => [element.getBoundingClientRect().top + scrollY, element.getBoundingClientRect().bottom + scrollY]"
    )
    top, bottom = locator.evaluate(edges)
    return top >= 0 and bottom <= locator.page.viewport_size["height"]


def violations(page: Page) -> list[str]:
    """What axe objects to, with the elements it means."""
    page.evaluate(HIDE_ALIKE_ROWS)
    results = axe.run(page).response["violations"]
    page.evaluate(SHOW_ALIKE_ROWS)
    return [f"{rule['id']}: {rule['help']}: {' | '.join(str(n['target']) for n in rule['nodes'])}" for rule in results]


def overflow(page: Page) -> int:
    """By how many pixels the document is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def drawn(page: Page) -> Page:
    """The page, each of whose charts shows the one of its drawings that there is room for."""
    for figure in page.locator("figure.chart:visible").all():
        expect(figure.locator(".chart-picture svg:visible")).to_have_count(1)
    return page


def explore(page: Page, name: str = "") -> Locator:
    """The interactive form of a chart, the first where none is named, once its reader asked for it."""
    figure = page.locator(f"figure.chart[data-chart='{name}']" if name else "figure.chart:visible").first
    figure.get_by_role("button", name="Explore").click()
    expect(figure.locator("svg.main-svg").first).to_be_visible()
    return figure.locator(".chart-plot")


def unfit(opened: Visit) -> list[str]:
    """What is wrong with an open page from 360 to 1920 px, light and dark, and what went wrong on it so far."""
    page, faults = opened.page, []
    for scheme, widths in (("light", WIDTHS), ("dark", WIDTHS[:1])):
        page.emulate_media(color_scheme=scheme)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            drawn(page)
            where = f"{width} px, {scheme}"
            if scheme == "light" and width in PICTURE_WIDTHS:
                keep_picture(page)
            if overflow(page):
                faults.append(f"{where}: {overflow(page)} px wider than the window")
            if (width, scheme) in AXE_LOOKS:
                faults += [f"{where}: {violation}" for violation in violations(page)]
    return faults + opened.faults


def is_focused(page: Page, selector: str) -> bool:
    """Whether the element that has the focus is one of those."""
    return page.evaluate("selector => document.activeElement.matches(selector)", selector)
