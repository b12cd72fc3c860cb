"""The HTML report in a real browser: it draws, sorts, answers the pointer, and asks for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchsuite.model.record import RunRecord
from tests import html_pages as pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage

playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs the Python package playwright (extra `test`)"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs a system Chromium (Debian: apt install chromium)"
)

DRAWN = ".plot[data-drawn=yes]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One headless browser for all tests."""
    with playwright.sync_playwright() as player:
        found = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


class Tab:
    """A page that is open, with everything that it complained of or asked for."""

    def __init__(self, browser: Browser, path: Path, **given: Any) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_page(**given)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(f"#tokens-0{DRAWN}")
        self.wait_for(
            f"document.querySelectorAll('details[open] {DRAWN}').length =="
            " document.querySelectorAll('details[open] .plot').length"
        )
        self.own = path.as_uri()

    def wait_for(self, expression: str) -> None:
        """Until it is true; the page's policy lets nothing in it evaluate text, so it is asked."""
        for _ in range(600):
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never true: {expression}")

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def is_quiet(self) -> bool:
        """Whether it neither complained nor asked for anything but its own file."""
        assert self.complaints == []
        assert [url for url in self.requests if url != self.own] == []
        return True


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the plain, the crashed, the hostile and the large run."""
    runs: dict[str, RunRecord] = {
        "plain": pages.plain_run(),
        "crashed": pages.crashed_run(),
        "hostile": pages.hostile_run(),
        "large": pages.large_run(),
    }
    made = {}
    for name, run in runs.items():
        folder = tmp_path_factory.mktemp(name)
        pages.write_journal(folder, run)
        made[name] = folder / "report.html"
        made[name].write_text(pages.page(folder, run, with_baselines=name == "plain"))
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["plain", "crashed", "large"])
def test_it_draws_and_fits(
    browser: Browser, written: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    """At any width and in both schemes: plots with ink, nothing wider than the window, silence."""
    tab = Tab(browser, written[name], viewport={"width": width, "height": 900}, color_scheme=scheme)
    wide = tab.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width
    box = tab.page.locator("#tokens-0").bounding_box()
    assert box is not None
    assert 200 < box["width"] <= width
    assert box["height"] >= 150
    assert tab.is_quiet()
    tab.page.close()


def test_a_heading_sorts(browser: Browser, written: dict[str, Path]) -> None:
    """A click sorts by the column, a second one the other way, and screen readers are told."""
    tab = Tab(browser, written["crashed"])
    table = tab.page.locator("#gates table").first
    head = table.locator("th", has=tab.page.get_by_role("button", name="gate", exact=True))
    cells = table.locator("tbody th code")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    up = cells.all_inner_texts()
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    down = cells.all_inner_texts()
    assert up != down
    assert up[0] == down[-1]
    assert sorted(up) == sorted(down)
    assert tab.is_quiet()
    tab.page.close()


def test_figures_sort_as_numbers(browser: Browser, written: dict[str, Path]) -> None:
    """9 comes before 10, and what was not measured last."""
    tab = Tab(browser, written["plain"])
    fold = tab.page.locator("#launches details.figures").first
    fold.locator("summary").click()
    fold.get_by_role("button", name="cached").click()
    found = [cell.inner_text() for cell in fold.locator("tbody td:nth-child(2)").all()]
    numbers = [int(text.replace(",", "")) for text in found]
    assert len(set(numbers)) > 1
    assert numbers == sorted(numbers)
    tab.page.close()


def test_the_pointer_finds_figures(browser: Browser, written: dict[str, Path]) -> None:
    """Over a bar stand the request and its tokens."""
    tab = Tab(browser, written["plain"])
    plot = tab.page.locator("#tokens-0")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    tip = tab.page.locator(".bk-tooltip-content")
    for down in (0.35, 0.45, 0.55, 0.65):
        tab.page.mouse.move(box["x"] + box["width"] * 0.93, box["y"] + box["height"] * down)
        if tip.count() and tip.first.is_visible():
            break
        tab.page.wait_for_timeout(100)
    tip.first.wait_for(state="visible")
    text = tip.first.inner_text()
    assert "turn" in text
    assert "tokens" in text
    assert tab.is_quiet()
    tab.page.close()


def test_a_drag_zooms(browser: Browser, written: dict[str, Path]) -> None:
    """A box drawn with the mouse becomes the whole plot."""
    tab = Tab(browser, written["plain"])
    plot = tab.page.locator("#memory-0")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    seen = (
        "(() => { const plot = Bokeh.documents.flatMap((d) => d.roots())"
        ".filter((r) => r.x_range && r.x_range.start !== undefined)"
        ".find((r) => r.yaxis?.[0]?.axis_label === 'MiB' || r.left?.[0]?.axis_label === 'MiB');"
        " return plot.x_range.end - plot.x_range.start; })()"
    )
    before = tab.page.evaluate(seen)
    x, y = box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.4
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 80, y + 20, steps=4)
    tab.page.mouse.move(x + 160, y + 40, steps=4)
    tab.page.mouse.up()
    tab.wait_for(f"{seen} < {before} * 0.6")
    assert tab.is_quiet()
    tab.page.close()


def test_a_fold_draws_when_it_opens(browser: Browser, written: dict[str, Path]) -> None:
    """Plots of the other launches are drawn at the click that shows them."""
    tab = Tab(browser, written["plain"])
    fold = tab.page.locator("#launches > details").nth(1)
    assert fold.get_attribute("open") is None
    plot = fold.locator(".plot").first
    assert plot.get_attribute("data-drawn") is None
    fold.locator("summary").first.click()
    tab.page.wait_for_selector(f"#{plot.get_attribute('id')}{DRAWN}")
    assert tab.is_quiet()
    tab.page.close()


def test_nothing_hostile_runs(browser: Browser, written: dict[str, Path]) -> None:
    """Whatever a model, a log or a file name says: no script, no element, no request."""
    tab = Tab(browser, written["hostile"])
    for fold in tab.page.locator("#launches > details").all():
        if fold.get_attribute("open") is None:
            fold.locator("summary").first.click()
    tab.wait_for(
        f"document.querySelectorAll('{DRAWN}').length == document.querySelectorAll('.plot').length"
    )
    assert tab.page.evaluate("window.hacked") is None
    assert tab.page.locator("img, svg[onload], iframe, object").count() == 0
    assert tab.page.locator("body").inner_text().count("</script>") > 0
    assert tab.is_quiet()
    tab.page.close()


def test_an_injected_script_is_refused(
    browser: Browser, written: dict[str, Path], tmp_path: Path
) -> None:
    """The second line of defence holds too: markup that got in all the same does not run."""
    text = written["plain"].read_text()
    spoilt = tmp_path / "spoilt.html"
    attack = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    spoilt.write_text(text.replace("<main>", f"<main>{attack}", 1))
    tab = Tab(browser, spoilt)
    assert tab.page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in words for words in tab.complaints)
    tab.page.close()
