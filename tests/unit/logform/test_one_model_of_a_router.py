"""A router's log holds the lines of all its children; one model's are told apart."""

from __future__ import annotations

from benchsuite.logform.facts import LogFacts
from benchsuite.logform.reader import LogReader

_CHILD = """\
[{port}] 0.00.001.000 I srv    load_model: loading model '{name}.gguf'
[{port}] 0.00.001.000 I llama_context: n_batch       = {batch}
[{port}] 0.00.001.000 I llama_kv_cache:        CPU KV buffer size =   {mib}.00 MiB
[{port}] 0.00.001.000 I llama_kv_cache: size =    {mib}.00 MiB (  2048 cells, \
  4 layers,  2/2 seqs), K (f16):    {half}.00 MiB, V (f16):    {half}.00 MiB
[{port}] 0.00.002.000 I srv          load: initializing slots, n_slots = 2
[{port}] 0.00.003.000 I slot launch_slot_: id  1 | task 0 | processing task, is_child = 0
[{port}] 0.00.004.000 I slot print_timing: id  1 | task 0 | prompt eval time = \
 7.86 ms / {n} tokens (    0.66 ms per token,  1526.52 tokens per second)
"""


def _child(name: str, port: int, mib: int, n: int, batch: int) -> str:
    return _CHILD.format(port=port, name=name, mib=mib, half=mib // 2, n=n, batch=batch)


def _spawn(name: str, port: int) -> str:
    return f"0.00.001.000 I srv load: spawning server instance with name={name} on port {port}\n"


LOG = (
    _spawn("two", 40002)
    + _spawn("one", 40001)
    + _child("two", 40002, 8, 12, 512)
    + _child("one", 40001, 4, 30, 2048)
)


def _read(text: str, model: str) -> LogFacts:
    reader = LogReader(model)
    reader.feed(text.encode())
    return reader.finish()


def test_memory_and_timings_are_those_of_the_model_that_is_meant() -> None:
    """The other one loaded last, or first: it makes no difference."""
    for model, mib, tokens, batch in (("two", 8.0, 12, "512"), ("one", 4.0, 30, "2048")):
        facts = _read(LOG, model)
        assert facts.kv_total is not None
        assert facts.kv_total.mib == mib
        assert [timing.prompt_tokens for timing in facts.timings] == [tokens]
        assert len(facts.launches) == facts.requests == 1
        assert facts.context_flags["batch-size"] == batch
        assert {event.instance for event in facts.events} <= {"40001", "40002"}


def test_of_a_model_that_was_not_loaded_nothing_is_told() -> None:
    """What others printed is no answer."""
    facts = _read(LOG, "three")
    assert facts.kv_total is None
    assert facts.timings == ()


def test_children_whose_start_is_not_in_the_log_have_no_model() -> None:
    """A log that was rotated meanwhile does not say which port is which model."""
    facts = _read(_child("two", 40002, 8, 12, 512), "two")
    assert facts.kv_total is None
    assert facts.timings == ()


def test_the_log_of_a_plain_server_is_all_its_own() -> None:
    """A name is sent to it too, and it has one model only."""
    facts = _read(_child("two", 40002, 8, 12, 512).replace("[40002] ", ""), "two")
    assert facts.kv_total is not None
    assert facts.kv_total.mib == 8.0
    assert len(facts.timings) == 1


def test_a_child_that_was_started_again_counts_anew() -> None:
    """The last child of the model is what is loaded."""
    again = LOG + _spawn("two", 40003) + _child("two", 40003, 6, 14, 512)
    facts = _read(again, "two")
    assert facts.kv_total is not None
    assert facts.kv_total.mib == 6.0
    assert [timing.prompt_tokens for timing in facts.timings] == [12, 14]
