"""Names of numerics and machines are equal where the same work is done, and only there."""

from __future__ import annotations

from benchsuite.collect.machine import backend_kind, machine_name, numerics_key

FEATURES = "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | REPACK = 1 | "


def test_the_order_of_devices_and_features_does_not_matter() -> None:
    """The same features printed in another order are the same arithmetic."""
    one = numerics_key(["CUDA0", "CUDA1", "CPU"], FEATURES)
    other = numerics_key(["CPU", "CUDA0"], "AVX = 1 | CPU : SSE3 = 1 | REPACK = 1 | AVX2 = 1")
    assert one == other
    assert str(one).startswith("cpu+cuda-")


def test_another_feature_is_another_key() -> None:
    """AVX-512 sums in another order than AVX2."""
    assert numerics_key(["CPU"], FEATURES) != numerics_key(["CPU"], FEATURES + "AVX512 = 1 |")


def test_what_the_server_does_not_tell_is_no_key() -> None:
    """No key is None, not a key made of nothing."""
    assert numerics_key([], FEATURES) is None
    assert numerics_key(["CPU"], "") is None


def test_backends_are_named_without_numbers_and_addresses() -> None:
    """Two GPUs of one kind are one backend."""
    names = ["CUDA0", "CUDA_Host", "RPC0[127.0.0.1:5]", "Metal", "Meta()"]
    assert [backend_kind(name) for name in names] == ["CUDA", "CUDA", "RPC", "Metal", "Meta"]


def test_a_pool_of_machines_has_the_name_that_it_was_given() -> None:
    """The variable wins; without it the name has the cores and never the hostname."""
    assert machine_name({"BENCHSUITE_MACHINE": "pool-a"}) == "pool-a"
    assert machine_name({}).endswith("cores")


def test_gpus_are_part_of_a_machine_s_name() -> None:
    """Their number and models, in whatever order the server numbers them; a given name wins."""
    two = machine_name({}, ["NVIDIA H200", "NVIDIA A100"])
    assert two == f"{machine_name({})}, 1 x NVIDIA A100, 1 x NVIDIA H200"
    assert machine_name({}, ["NVIDIA A100", "NVIDIA H200"]) == two
    assert machine_name({}, ["NVIDIA H200"] * 2).endswith(" cores, 2 x NVIDIA H200")
    assert machine_name({"BENCHSUITE_MACHINE": "pool-a"}, ["NVIDIA H200"]) == "pool-a"
