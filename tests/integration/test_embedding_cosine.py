"""Embeddings of a real server are compared between variants, along one request each."""

from __future__ import annotations

import pytest

from benchsuite.server.tiny_model import tiny_model
from tests.integration.desk import Desk, real_servers

pytestmark = pytest.mark.server

SCENARIO = """
title: embeddings
server: {embedding: true, parallel: 2, ctx-size: 512}
steps:
  - embedding: {id: one, prompt: {tokens: 60, seed: 1}}
variants:
  B: {flags: {flash-attn: on}}
  N: {flags: {flash-attn: off}}
  C: {flags: {pooling: cls}}
gates:
  - {metric: 'embedding_cosine{against="B",request="one"}', min: 0.999}
"""


@pytest.mark.parametrize("server", real_servers())
def test_embeddings_are_held_against_the_reference(desk: Desk, server: str) -> None:
    """Flash attention changes them by a little, another pooling altogether."""
    path = desk.folder / "emb.yaml"
    path.write_text(SCENARIO)
    model = str(tiny_model(kind="embedding"))
    done = desk.run("run", str(path), "--model", model, "--server", server)
    assert done.code == 1, done.text
    found = {
        m["variant"]: m["value"]
        for m in desk.last_record()["measurements"]
        if m["name"] == "embedding_cosine"
    }
    assert 0.999 < found["N"] < 1
    assert found["C"] < 0.9
    outcomes = {g["variant"]: g["outcome"] for g in desk.last_record()["gates"]}
    assert outcomes == {"N": "pass", "C": "fail"}
