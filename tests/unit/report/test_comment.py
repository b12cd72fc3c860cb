"""The body of a pull-request comment, read by a Markdown parser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from benchsuite.report.comment import marker, render_comment
from benchsuite.report.diff import Diff, Row
from benchsuite.report.formats import FORMATS
from benchsuite.report.markdown import escape
from tests.unit.report.reports import HOSTILE, failing, gate, given, healthy, hostile, replace
from tests.unit.report.test_load_table import record as load_record
from tests.unit.report.test_sweep_table import swept

GITHUB_LIMIT = 65_536
OWN_HTML = {
    *("<code>", "</code>", "<sub>", "</sub>", "</details>"),
    *("<details>", "<summary>", "</summary>"),
}


def changes(*rows: Row, notes: tuple[str, ...] = ()) -> Diff:
    """Baselines that differ from those at a revision."""
    return Diff("git:main:baselines", "baselines", rows, 3, (), notes)


CHANGED = Row(
    "tiny", "scenarioB", "B", "kv_mib", "16 MiB", "12.25 MiB", "changed", "-23.4%",
    sentence="changed from 16 MiB to 12.25 MiB (-23.4%)", candidate_from="accepted for: q8_0 keys",
)  # fmt: skip


def html_of(text: str) -> set[str]:
    """Every piece of HTML that Markdown would let through, the marker left out."""
    found: set[str] = set()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        for one in (token, *(token.children or ())):
            if one.type.startswith("html"):
                found |= set(re.findall(r"<[^>]*>", one.content))
    return {piece for piece in found if not piece.startswith("<!-- benchsuite:")}


def test_the_verdict_stands_below_the_marker() -> None:
    """A workflow finds its comment by the first line; the second says pass or fail."""
    first, second, *_ = render_comment(given(failing())).splitlines()
    assert first == "<!-- benchsuite:report -->"
    assert second.startswith("### ❌ benchsuite: FAIL  scenarioB on tiny: 1 gate failed")
    assert "PASS" in render_comment(given(healthy())).splitlines()[1]
    several = render_comment(given(healthy(), failing())).splitlines()
    assert several[1] == "### ❌ benchsuite: FAIL: 1 of 2 runs pass"


def test_what_did_not_change_is_not_told() -> None:
    """A run that passed is a marker, a line and its id."""
    passed = gate(outcome="pass", state="same")
    body = render_comment(given(replace(healthy(), gates=(passed,))))
    assert "kv_mib" not in body
    assert len(body.splitlines()) == 4


def test_a_run_without_a_verdict_is_no_pass() -> None:
    """Neither alone nor beside one that passed."""
    unjudged = replace(healthy(), verdict=None)
    assert "NOT JUDGED" in render_comment(given(unjudged)).splitlines()[1]
    assert "NOT JUDGED" in render_comment(given(healthy(), unjudged)).splitlines()[1]


def test_gates_say_which_way_a_value_went() -> None:
    """Those that came out alike are one row; what improved within the limits is told apart."""
    body = render_comment(
        given(
            failing(
                gate(),
                gate(variant="U"),
                gate(metric="ttft_ms", outcome="pass", state="improved", expected="9 ms",
                     observed="7 ms"),
                gate(metric="anon_mib", level="advise", expected="1 MiB", observed="2 MiB"),
            )
        )
    )  # fmt: skip
    row = (
        "| <code>kv_mib</code> | B, U | <code>16 MiB</code> | <code>12.25 MiB</code> | ▼ changed |"
    )
    assert body.count(row) == 1
    failed, moved = body.index("**Did not pass**"), body.index("**Moved, within the limits**")
    advice = body.index("<details><summary>1 advise")
    assert failed < body.index("kv_mib") < moved < body.index("▼ improved") < advice


def test_changed_baselines_are_told_at_the_top() -> None:
    """In a number above everything, below in words and as a table."""
    report = replace(given(failing()), changes=changes(CHANGED, replace(CHANGED, variant="U")))
    body = render_comment(report)
    lines = body.splitlines()
    assert lines[3] == (
        "> **This branch changes 2 baselines** since git:main:baselines: 2 changed."
    )
    assert "- tiny/scenarioB, variant B, U: kv_mib changed from 16 MiB to 12.25 MiB" in body
    assert "accepted for: q8_0 keys" in body
    assert body.count("| ▼ changed -23.4% |") == 2
    none = render_comment(replace(given(healthy()), changes=changes()))
    assert "baseline" not in none


def test_samples_of_memory_and_latency_are_counted_apart() -> None:
    """They change with every accept, so they are no news."""
    noisy = replace(CHANGED, series="ttft_ms", baseline="9 ms", candidate="8 ms", state="improved")
    body = render_comment(replace(given(healthy()), changes=changes(CHANGED, noisy)))
    assert "**This branch changes 1 baseline** since git:main:baselines: 1 changed, and the" in body
    assert "ttft_ms" not in body
    body = render_comment(replace(given(healthy()), changes=changes(noisy)))
    assert "changes no baseline but the samples of 1**" in body


def test_failed_launches_are_told() -> None:
    """With variant, trial and step."""
    body = render_comment(given(hostile("it died")))
    assert "**Failed to run**" in body
    assert "trial 2, it died: it died" in body


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("gpu pool/pr", "<!-- benchsuite:gpu-pool/pr -->"),
        ("a--> <script>", "<!-- benchsuite:a-script -->"),
        ("----", "<!-- benchsuite:report -->"),
    ],
)
def test_the_marker_is_one_comment_whatever_the_key(key: str, line: str) -> None:
    """No key ends it early."""
    assert marker(key) == line
    assert "--" not in marker(key)[4:-3]


def test_a_long_report_fits_and_says_what_is_left_out() -> None:
    """Below GitHub's limit, with a number; the verdict and what failed come first."""
    gates = [gate(variant=f"v{i}", observed=f"{i} MiB", reason="é" * 200) for i in range(500)]
    advice = [replace(one, level="advise") for one in gates]
    body = render_comment(
        replace(given(failing(*gates, *advice)), changes=changes(*[CHANGED] * 2000))
    )
    assert len(body.encode()) < GITHUB_LIMIT
    assert "FAIL" in body.splitlines()[1]
    assert "This branch changes 2000 baselines" in body
    last = body.splitlines()[-1]
    found = re.search(r"65536 characters: (\d+) gates", last)
    assert found is not None
    shown = sum(1 for line in body.splitlines() if line.startswith("| <code>kv_mib</code> | v"))
    assert shown + int(found[1]) == 1000
    assert body.count("<details>") == body.count("</details>")


@pytest.mark.parametrize("text", HOSTILE, ids=[ascii(text)[:20] for text in HOSTILE])
def test_hostile_text_is_only_text(text: str) -> None:
    """No HTML but our own, no link or picture, no row that breaks its table, no mention."""
    row = replace(
        CHANGED, series='kv_mib{device="x"}', baseline=text, sentence=text, candidate_from=text
    )
    report = replace(given(hostile(text), failing()), changes=changes(row, notes=(text,)))
    body = render_comment(report)
    assert len(body.encode()) < GITHUB_LIMIT
    assert html_of(body) <= OWN_HTML
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    kinds = {one.type for token in tokens for one in (token, *(token.children or ()))}
    assert not kinds & {"link_open", "image", "fence", "code_block"}
    assert sum(token.type == "heading_open" for token in tokens) == 1
    assert sum(token.type == "table_open" for token in tokens) >= 3
    for line in body.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (4, 7)
    assert "@someone" not in body
    assert "#12 " not in body
    assert "https://" not in body


def test_escaped_text_is_shown_as_it_was() -> None:
    """Rendered, it reads like the original, apart from what cannot be seen."""
    text = "a_b *c* [d](e) `f` <g> & h | ~i~ $j$ k\\l @m #1 http://n"
    html = MarkdownIt("commonmark").render(escape(text))
    shown = re.sub(r"</?p>|\n|\u200b", "", html)
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        shown = shown.replace(entity, character)
    assert shown == text


def test_the_format_is_registered() -> None:
    """`--to comment.md` writes it."""
    assert FORMATS["markdown"].render(given(healthy())) == render_comment(given(healthy()))
    assert Path(f"comment{FORMATS['markdown'].suffix}").suffix == ".md"


def test_loads_and_sweeps_are_tables() -> None:
    """Folded away, with rates, percentiles and their intervals, and why cells are unknown."""
    load = load_record()
    both = replace(
        swept("requests_per_second", "ttft_ms"),
        measurements=(*swept("requests_per_second", "ttft_ms").measurements, *load.measurements),
        unmeasured=load.unmeasured,
    )
    (launch,) = both.launches
    (of_load,) = load.launches
    both = replace(both, launches=(replace(launch, loads=of_load.loads),))
    body = render_comment(given(both))
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    cells = [
        [one.content for one in tokens[i + 1 : i + 20] if one.type == "inline"]
        for i, token in enumerate(tokens)
        if token.type == "thead_open"
    ]
    assert any(row[:3] == ["users", "req/s", "TTFT ms"] for row in cells)
    assert any(row[:5] == ["ms", "p50", "p90", "p95", "p99"] for row in cells)
    assert "<summary>load s (variant B): 120 requests after 10" in body
    assert "19.5 a second served of 20 asked for" in body
    assert "| TTFT | 10.4 (9.9..12) |" in body
    assert "- ? TTFT p99: 120 requests are too few" in body
    assert html_of(body) <= OWN_HTML


def test_tables_of_many_loads_are_counted() -> None:
    """A comment is short: some are shown, the others are in the record."""
    load = load_record()
    (launch,) = load.launches
    many = tuple(replace(launch.loads[0], name=f"load-{number}") for number in range(20))
    body = render_comment(given(replace(load, launches=(replace(launch, loads=many),))))
    assert body.count("<summary>load load-") == 8
    assert "and 12 more, in the run's record" in body
