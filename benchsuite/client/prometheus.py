"""The text of `/metrics`, read into numbers; pure.

Series come and go: `kv_cache_usage_ratio` and `kv_cache_tokens` until 2025 (#13660),
`n_tokens_max` and `prompt_tokens_cached_total` since (not in 10068 and 10092),
`spec_decode_num_accepted_tokens_per_pos_total` with a label (11434). None is assumed.

Values are printed with six significant digits: a counter of 1101449 reads `1.10145e+06` (10434),
so counters above 999999 are known to a few tokens only.
"""

from __future__ import annotations

import math
import re

import msgspec

SOURCE = "/metrics"
"""The name of this source in measurements."""

_DIGITS = 6
_SAMPLE = re.compile(
    r"^\s*(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*"
    r'(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s*(?P<value>[^\s{}]+)'
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


class Series(msgspec.Struct, frozen=True):
    """One sample of `/metrics`."""

    name: str  # without the `llamacpp:` prefix
    labels: dict[str, str]
    value: float  # finite
    quantum: float = 0.0  # how coarsely it is printed; 0 where in full


class Exposition(msgspec.Struct, frozen=True):
    """Everything that one look at `/metrics` gave."""

    series: tuple[Series, ...] = ()
    not_numbers: tuple[str, ...] = ()  # names whose value is NaN, infinite or no number

    def counters(self) -> dict[str, float]:
        """Each value by name; a name with several label sets has no single value and is left out.

        One series of a name counts whatever its labels are, since a proxy may add some.
        """
        names = [one.name for one in self.series]
        return {one.name: one.value for one in self.series if names.count(one.name) == 1}


def parse_metrics(text: str) -> Exposition:
    """Read the text format; lines that are no samples (comments, blanks) are passed over."""
    series: list[Series] = []
    odd: list[str] = []
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None:
            continue
        name = match["name"].removeprefix("llamacpp:")
        try:
            value = float(match["value"])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            odd.append(name)
            continue
        labels = {key: _unescape(text) for key, text in _LABEL.findall(match["labels"] or "")}
        series.append(Series(name, labels, value, printed_quantum(value)))
    return Exposition(tuple(series), tuple(dict.fromkeys(odd)))


def printed_quantum(count: float) -> float:
    """How coarsely a counter of this size is printed: 0 up to 999999, then 10, 100, ...

    A count that has more digits than the six was printed in full, by another program.
    """
    if not math.isfinite(count) or abs(count) < 10**_DIGITS:
        return 0.0
    quantum = 10.0 ** (math.floor(math.log10(abs(count))) + 1 - _DIGITS)
    return quantum if count % quantum == 0 else 0.0


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[0]), text)
