"""/v1/models of routers and plain servers: a list of names, whatever comes."""

from __future__ import annotations

from typing import Any

import pytest

from benchsuite.client.models import ServedModel, parse_models


def test_a_router_lists_its_models_with_their_states() -> None:
    """As build 10434 answers."""
    body = {
        "data": [
            {"id": "one", "aliases": ["uno"], "object": "model", "status": {"value": "loaded"}},
            {"id": "two", "aliases": [], "object": "model", "status": {"value": "unloaded"}},
        ],
        "object": "list",
    }
    assert parse_models(body) == (
        ServedModel("one", ("uno",), "loaded"),
        ServedModel("two", (), "unloaded"),
    )


def test_a_plain_server_has_one_model_without_a_state() -> None:
    """Its status is not told, which is how it is told from a router."""
    assert parse_models({"data": [{"id": "m.gguf"}]}) == (ServedModel("m.gguf"),)


@pytest.mark.parametrize(
    "body", [None, [], {}, {"data": 1}, {"data": [None, {"id": 3}, {"status": "loaded"}]}]
)
def test_what_is_no_list_of_models_is_empty(body: Any) -> None:
    """Nothing is guessed from another answer."""
    assert parse_models(body) == ()
