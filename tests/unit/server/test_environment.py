"""What servers inherit."""

from __future__ import annotations

from benchsuite.server.environment import hidden_flags, server_environment


def test_inherited_flags_and_keys_are_left_out() -> None:
    """A flag that nobody sees in the command would change what is measured."""
    inherited = {"PATH": "/bin", "LLAMA_ARG_CTX_SIZE": "1", "LLAMA_API_KEY": "k", "AIP_MODE": "P"}
    assert server_environment(inherited) == {"PATH": "/bin"}
    assert hidden_flags(inherited) == ("AIP_MODE", "LLAMA_API_KEY", "LLAMA_ARG_CTX_SIZE")


def test_what_is_added_stays_and_the_last_one_wins() -> None:
    """A deployment's own LLAMA_ARG_ was written down for this server."""
    env = server_environment({"A": "1"}, {"A": "2", "LLAMA_ARG_X": "3"}, {"A": "4"})
    assert env == {"A": "4", "LLAMA_ARG_X": "3"}
