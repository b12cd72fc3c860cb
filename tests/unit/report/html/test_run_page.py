"""A run as one HTML file: complete, small, and deaf to whatever a model or a log says."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchsuite.model.record import RunRecord
from benchsuite.report.html import plots
from benchsuite.report.html.evidence import MemoryPoint, parse_evidence
from benchsuite.report.html.page import MOST_BYTES, shown
from benchsuite.report.html.run_failures import run_command
from benchsuite.report.html.run_page import alike, render_html
from benchsuite.report.html.series import quantile, thin
from benchsuite.report.report_input import Entry, ReportInput
from tests import html_pages as pages


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a kind."""
        return [attrs for name, attrs in self.found if name == tag]


def made(tmp_path: Path, run: RunRecord, **given: bool) -> str:
    """The page of a run with its journal."""
    pages.write_journal(tmp_path, run)
    return pages.page(tmp_path, run, **given)


def test_everything_has_its_place(tmp_path: Path) -> None:
    """Verdict, gates, matrix, plots, latency, measurements and commands each have a section."""
    text = made(tmp_path, pages.plain_run(), with_baselines=True)
    sections = [attrs["id"] for attrs in Elements(text).named("section")]
    wanted = ["verdict", "gates", "matrix", "launches", "latency", "measured", "reproduce"]
    assert [name for name in sections if name != "again"] == wanted
    plotted = set(re.findall(r'data-plot="([a-z-]+)', text))
    assert {"tokens-", "times-", "slots-", "memory-", "latency-ttft-ms"} <= plotted
    assert "B baseline" in text
    assert "benchsuite run scenarioB -d tiny" in text


def test_a_plot_is_told_without_seeing_it(tmp_path: Path) -> None:
    """Each plot has a label in words and a table of its figures with heads and row heads."""
    found = Elements(made(tmp_path, pages.plain_run()))
    drawn = [a for a in found.named("div") if a.get("class") == "plot"]
    assert len(drawn) > 10
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in drawn)
    folds = [a for a in found.named("details") if a.get("class") == "figures"]
    assert len(folds) == len(drawn)
    assert all(attrs.get("scope") in ("col", "row") for attrs in found.named("th"))
    assert [tag for tag, _ in found.found if tag in ("header", "nav", "main", "footer", "h1")] == [
        "header",
        "h1",
        "nav",
        "main",
        "footer",
    ]


def test_a_crash_shows_the_log_around_it(tmp_path: Path) -> None:
    """The assertion is marked among the last lines, with how the server ended."""
    text = made(tmp_path, pages.crashed_run())
    assert "<mark>GGML_ASSERT(x) failed</mark>" in text
    assert "signal 6" in text
    assert "frame one" in text


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    """No element, attribute or script comes of a model's output, a label or a log line."""
    run = pages.hostile_run()
    text = made(tmp_path, run)
    found = Elements(text)
    own = Elements(made(tmp_path, pages.crashed_run()))
    assert {tag for tag, _ in found.found} == {tag for tag, _ in own.found}
    scripts = [attrs for attrs in found.named("script") if attrs.get("type") is None]
    assert scripts == [{}, {}]
    assert not [a for _, a in found.found for name in a if name.startswith("on") or name == "src"]
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", outside
    )
    assert "\\x00" in outside
    assert "\\u202e" in outside
    assert "7 * 7" in outside
    assert "more characters)" in outside
    assert len(text.encode()) <= MOST_BYTES


def test_only_the_two_scripts_may_run(tmp_path: Path) -> None:
    """The policy allows scripts by hash alone, and nothing from anywhere."""
    text = made(tmp_path, pages.plain_run())
    policy = next(a["content"] for a in Elements(text).named("meta") if "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == 2
    assert "unsafe-eval" not in policy
    assert not re.search(r"script-src[^;]*unsafe-inline", policy)


def test_a_large_run_stays_small(tmp_path: Path) -> None:
    """Forty launches and three thousand gates make less than 2 MiB, and what is missing is said."""
    run = pages.large_run()
    pages.write_journal(tmp_path, run, samples=2000)
    text = pages.page(tmp_path, run)
    assert len(text.encode()) <= MOST_BYTES
    assert "of 40 launches" in text
    assert "more rows are in the run" in text
    assert re.search(r"of 2,000 samples", text)


def test_a_record_alone_says_what_is_missing() -> None:
    """Without a folder there is no journal: the page says so, and shows no plots over time."""
    given = ReportInput((Entry(pages.plain_run()),), root=Path())
    text = render_html(given)
    assert "without its journal" in text
    assert 'data-plot="memory-' not in text
    assert 'data-plot="tokens-' in text


def test_several_runs_share_a_page(tmp_path: Path) -> None:
    """Each run has its section, the worst verdict is on top, and no name is there twice."""
    runs = [pages.plain_run(), pages.crashed_run()]
    text = render_html(ReportInput(tuple(Entry(run) for run in runs), root=tmp_path))
    found = Elements(text)
    names = [attrs["id"] for _, attrs in found.found if "id" in attrs]
    assert len(names) == len(set(names))
    assert {"runs", "run-0", "run-1"} <= set(names)
    assert "<title>server failed: 2 runs</title>" in text


def test_an_unjudged_run_is_no_pass() -> None:
    """A run that was killed before its verdict is called not judged."""
    run = pages.replace(pages.plain_run(), verdict=None, gates=())
    text = render_html(ReportInput((Entry(run),), root=Path()))
    assert "<strong>not judged</strong>" in text
    assert "has passed" not in text


def test_a_journal_is_read_as_far_as_it_goes() -> None:
    """Lines that are no events are counted and left out."""
    good = b'{"kind":"memory","variant":"B","trial":1,"reading":{"at_ns":5,"rss_bytes":1048576}}'
    found = parse_evidence(good + b'\n{"kind":"memory","reading":{"at_\n\x00"memory"\n')
    assert found.memory[("B", 1)] == (MemoryPoint(0.0, 1.0, None),)
    assert found.notes == ("2 lines of samples.jsonl cannot be read and are left out",)


def test_thinning_keeps_the_extremes() -> None:
    """The ends, the lowest and the highest sample are among those that are kept."""
    points = [MemoryPoint(float(i), None, 100.0 + (i * 37) % 101) for i in range(5000)]
    points[1234] = MemoryPoint(1234.0, None, 999.0)
    points[4321] = MemoryPoint(4321.0, None, 1.0)
    kept = thin(points, 200)
    assert len(kept) <= 200
    assert {points[0], points[1234], points[4321], points[-1]} <= set(kept)
    assert kept == sorted(kept, key=lambda p: p.at_s)
    assert thin(points[:100], 200) == points[:100]


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (0.75, 3.25), (1.0, 4.0)]
)
def test_quantiles_are_of_type_7(share: float, wanted: float) -> None:
    """The default of R and numpy."""
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == wanted


def test_reasons_that_differ_by_variant_are_one() -> None:
    """Variants are listed before what they share; other reasons stand as they are."""
    found = alike(["variant B: late", "the disk is full", "variant S: late", "variant U: early"])
    assert found == ("variants B, S: late", "the disk is full", "variant U: early")


def test_names_of_bars_are_unique_and_no_mathematics() -> None:
    """Two requests of one name are told apart, and dollars do not start a formula."""
    assert plots.unique(["a", "a", "b"]) == ["a", "a (2)", "b"]
    assert "$$" not in plots.label("$$x$$")


def test_numbers_that_are_not_finite_are_not_drawn(tmp_path: Path) -> None:
    """Neither NaN nor infinity is a bar, a dot or a quantile; both would be no JSON."""
    run = pages.plain_run()
    odd = {"ttft_ms": math.inf, "cached_tokens": math.nan, "kv_mib": math.nan, "e2e_ms": -math.inf}
    values = tuple(
        pages.replace(m, value=odd.get(m.name, m.value) if m.variant == "U" else m.value)
        for m in run.measurements
    )
    text = made(tmp_path, pages.replace(run, measurements=values))
    for item in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text):
        json.loads(item, parse_constant=pytest.fail)
        zoom_box = r'"(?:left|right|top|bottom)":{"type":"number","value":"nan"}'  # not drawn yet
        assert '"nan"' not in re.sub(zoom_box, "", item)
        assert "inf" not in re.findall(r'"value":"(-?inf)"', item)


def test_a_long_text_is_cut() -> None:
    """What is left out is counted."""
    assert str(shown("x" * 2010)).endswith("x ... (10 more characters)")


def test_the_command_names_what_was_asked() -> None:
    """A server that the user named, trials and seed are in the command; defaults are not."""
    run = pages.plain_run()
    server = pages.replace(run.launches[0].server, kind="binary", path="/opt/my server")
    launches = (pages.replace(run.launches[0], server=server),)
    keys = pages.replace(run.fingerprint, seed=7)
    run = pages.replace(run, launches=launches, trials=3, fingerprint=keys, duration="8 h")
    assert run_command(run) == (
        "benchsuite run scenarioB -d tiny --server '/opt/my server' --trials 3 --seed 7 "
        "--duration '8 h'"
    )
