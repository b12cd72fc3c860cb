"""The server dies."""

from __future__ import annotations

import os
import signal

from tests.servers.strikes.strike import CHAT, Exchange, at_end, at_start, strike

ASSERTION = b"/src/llama-kv-cache.cpp:77: GGML_ASSERT(n_seqs == 1) failed\n"


@at_start
def dies_with_words(port: int) -> None:
    os.write(2, b"0.00.100.000 E llama_model_load: error loading model: tensor 'x' is missing\n")
    os._exit(1)


@at_start
def dies_without_words(port: int) -> None:
    os._exit(1)


@at_start
def leaves_at_once(port: int) -> None:
    os._exit(0)


@at_start
def killed_while_loading(port: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@at_start
def faults_while_loading(port: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@at_start
def asserts_while_loading(port: int) -> None:
    os.write(2, b"..................." + ASSERTION)
    os.abort()


@at_start
def no_memory_of_device(port: int) -> None:
    os.write(
        2,
        b"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: "
        b"cudaMalloc failed: out of memory\n"
        b"alloc_tensor_range: failed to allocate CUDA0 buffer of size 4294967296\n"
        b"llama_init_from_model: failed to initialize the context: "
        b"failed to allocate buffer for kv cache\n",
    )
    os._exit(1)


@at_start
def no_memory_of_host(port: int) -> None:
    os.write(
        2,
        b"terminate called after throwing an instance of 'std::bad_alloc'\n"
        b"  what():  std::bad_alloc\n",
    )
    os.abort()


@strike()
def dies_before_headers(exchange: Exchange) -> None:
    exchange.die()


@strike()
def dies_mid_stream(exchange: Exchange) -> None:
    exchange.stream(exchange.events()[:3])
    exchange.die()


@strike()
def asserts_mid_stream(exchange: Exchange) -> None:
    exchange.stream(exchange.events()[:3])
    exchange.die(signal.SIGABRT, ASSERTION)


@strike()
def faults_mid_stream(exchange: Exchange) -> None:
    exchange.stream(exchange.events()[:3])
    exchange.die(signal.SIGSEGV)


@strike()
def cuda_fails(exchange: Exchange) -> None:
    exchange.die(
        signal.SIGABRT,
        b"CUDA error: an illegal memory access was encountered\n"
        b"  current device: 0, in function ggml_backend_cuda_synchronize at "
        b"/src/ggml-cuda.cu:2981\n"
        b"  cudaStreamSynchronize(cuda_ctx->stream())\n"
        b"/src/ggml-cuda.cu:88: CUDA error\n",
    )


@strike()
def exits_mid_stream(exchange: Exchange) -> None:
    exchange.stream(exchange.events()[:3])
    exchange.proxy.ending = True
    exchange.proxy.server.kill()
    exchange.proxy.server.wait()
    os._exit(0)


@strike(CHAT, 1)
def dies_after_a_turn(exchange: Exchange) -> None:
    exchange.proxy.ending = True
    exchange.pass_on()
    exchange.connection.close()
    exchange.die()


@strike()
def dies_after_the_last_turn(exchange: Exchange) -> None:
    exchange.proxy.ending = True  # even where it is asked to stop before it is dead
    exchange.pass_on()
    exchange.connection.close()
    exchange.die()


@at_end
def faults_while_stopping() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@at_end
def asserts_while_stopping() -> None:
    os.write(2, ASSERTION)
    os.abort()
