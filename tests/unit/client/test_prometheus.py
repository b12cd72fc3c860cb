"""The text of /metrics is read into numbers by name."""

from __future__ import annotations

from benchsuite.client.prometheus import parse_counters


def test_samples_are_read_by_name() -> None:
    """Comments, blank lines and values that are no numbers are left out."""
    text = (
        "# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.\n"
        "# TYPE llamacpp:prompt_tokens_total counter\n"
        "llamacpp:prompt_tokens_total 31\n"
        "\n"
        'llamacpp:requests_processing{slot="1"} 2e1\n'
        "llamacpp:odd many\n"
    )
    assert parse_counters(text) == {"prompt_tokens_total": 31.0, "requests_processing": 20.0}
