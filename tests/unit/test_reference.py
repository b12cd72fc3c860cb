"""The reference pages are what the code declares."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchsuite.metrics.catalogue import CATALOGUE
from tests.scripts import load_script

ROOT = Path(__file__).parents[2]


GENERATOR = load_script(ROOT / "ci" / "reference.py")
PAGES: dict[str, str] = GENERATOR.pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_declares(name: str) -> None:
    """A changed key, metric or command changes its page; run `python ci/reference.py`."""
    assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == PAGES[name]


def test_no_page_is_left_over() -> None:
    """Every page of the folder is written by the script."""
    assert {path.name for path in (ROOT / "docs" / "reference").iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_headings(name: str) -> None:
    """Every link inside a page has its heading."""
    headings = re.findall(r"^## (.*)$", PAGES[name], re.MULTILINE)
    anchors = [GENERATOR._anchor(heading) for heading in headings]
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGES[name])) <= set(anchors)


def test_every_metric_is_told() -> None:
    """The page of metrics has a heading for each."""
    assert re.findall(r"^## (.*)$", PAGES["metrics.md"], re.MULTILINE) == list(CATALOGUE)


DOCS = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_to_files(page: Path) -> None:
    """Every relative link in the docs leads to a file of the repository."""
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target
