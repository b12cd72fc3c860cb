"""What a record keeps of a server, and what it must not keep."""

from __future__ import annotations

from benchsuite.client.props import Props, parse_props
from benchsuite.logform.facts import Load, LogFacts
from benchsuite.pipeline.facts import attached_facts, recorded_env
from benchsuite.redact import HIDDEN


def test_secrets_are_hidden_and_device_masks_kept() -> None:
    """A token in a deployment's environment does not reach a record or a baseline."""
    declared = {"HF_TOKEN": "hf_x", "GGML_CUDA_FORCE_MMQ": "1", "my_api_key": "k"}
    declared["HTTPS_PROXY"] = "http://me:pw@proxy:1"
    inherited = {"CUDA_VISIBLE_DEVICES": "1", "HOME": "/root", "SECRET": "s"}
    assert recorded_env(declared, inherited) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "HF_TOKEN": HIDDEN,
        "GGML_CUDA_FORCE_MMQ": "1",
        "my_api_key": HIDDEN,
        "HTTPS_PROXY": f"http://{HIDDEN}@proxy:1",
    }


def test_an_attached_server_tells_what_its_properties_tell() -> None:
    """Slots and context from /props; unified or not is unknown without a log."""
    props = parse_props(
        {
            "total_slots": 4,
            "build_info": "b10434-7e4c0a9",
            "default_generation_settings": {"n_ctx": 8192},
            "model_path": "/models/m.gguf",
        }
    )
    facts = attached_facts("http://127.0.0.1:1", props, None)
    assert (facts.slots, facts.n_ctx_slot, facts.kv_unified) == (4, 8192, None)
    assert facts.build == "b10434-7e4c0a9"
    assert facts.sources == {"build": "/props", "slots": "/props", "n_ctx_slot": "/props"}
    seen = attached_facts(
        "http://127.0.0.1:1", Props(), LogFacts(load=Load(n_slots=2, kv_unified=True))
    )
    assert (seen.slots, seen.kv_unified) == (2, True)
    assert seen.sources == {"slots": "log", "kv_unified": "log"}
