"""A page as one HTML file that asks the network for nothing and runs no script but its own.

Whatever comes from a model, a log or a file is text: control characters are written out, the rest
is escaped by jinja2, and the policy in the head allows the two scripts by their hashes alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources

import jinja2
import markupsafe

from benchsuite.redact import beginning
from benchsuite.report.html.blocks import Page, charts_of
from benchsuite.report.html.limits import STEPS, Limits
from benchsuite.report.layout import safe

MOST_BYTES = 2 * 1024 * 1024
"""No page is larger: a mail or a CI artefact viewer must take it."""

MOST_CHARACTERS = 2000
"""Of one text; a line of a log can be a megabyte."""


def shown(value: object) -> object:
    """What a template prints: untrusted text made harmless and cut, everything else as it is."""
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        left_out = len(value) - MOST_CHARACTERS
        text = safe(beginning(value, MOST_CHARACTERS))
        return f"{text} ... ({left_out:,} more characters)" if left_out > 0 else text
    return "" if value is None else value


def render(page: Page) -> str:
    """The whole file as text."""
    charts = [chart for section in page.sections for chart in charts_of(section.blocks)]
    own = _asset("page.js")
    scripts = []
    if charts:
        from benchsuite.report.html.plots import library

        scripts.append(library())
    scripts.append(own)
    assert not any("</script" in script.lower() for script in scripts)
    template = _environment().get_template("page.html")
    return template.render(
        page=page,
        style=markupsafe.Markup(_asset("page.css")),  # our own file
        scripts=[markupsafe.Markup(script) for script in scripts],  # ours, Bokeh's
        items=[(c.name, markupsafe.Markup(c.item)) for c in charts],  # by `plots`
        policy=markupsafe.Markup(_policy(scripts)),  # words and base64
    )


def fitting(make: Callable[[Limits], Page]) -> str:
    """The whole file as text, with less and less in it until it is small enough.

    Args:
        make: The page within limits.
    """
    limits = Limits()
    text = render(make(limits))
    for _ in range(STEPS):
        if len(text.encode()) <= MOST_BYTES:
            break
        limits = limits.halved()
        text = render(make(limits))
    return text


def _policy(scripts: list[str]) -> str:
    """A content security policy: nothing from anywhere, and only these scripts.

    Styles must be allowed as they stand: Bokeh writes them into shadow roots.
    """
    digests = (hashlib.sha256(text.encode()).digest() for text in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(d).decode()}'" for d in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return (resources.files("benchsuite.report.html") / "templates" / name).read_text("utf-8")


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("benchsuite.report.html"),
        autoescape=True,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["kind"] = lambda block: type(block).__name__
    return made
