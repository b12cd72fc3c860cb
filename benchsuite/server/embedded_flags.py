"""The flags of llama-server that the embedded server honours, each mapped to its parameter.

A flag stands here only if xllamacpp 2026.10.11549 has an attribute for it, of the very structure
that llama.cpp's server works with, and if the server was seen to follow it in `/props`, in its log
or by its answers (`tests/integration/test_embedded.py` repeats that). Those that only a GPU, a full
memory, another model or a clock would show (`-ngl`, `-sm`, `-ts`, `-mg`, `-kvo`, `--op-offload`,
`-fitt`, `-fitc`, `--poll`, `--repack`, `--swa-full`, `-to`, `--sse-ping-interval`, `-nocb`,
`--reasoning-format`, `--skip-chat-parsing`) were seen to arrive in that structure.

Left out, and so refused by name: flags without attribute (`--device`, `--rpc`, `--override-kv`),
flags that llama-server carries out while it parses (`--log-file`, `--log-colors`, `--log-prefix`,
`--override-tensor`), and `--kv-unified-per-slot`, which llama-server's own main works with.

Must stay quick to import; xllamacpp is not imported here.
"""

from __future__ import annotations

from benchsuite.server import embedded_args as args
from benchsuite.server import embedded_values as make
from benchsuite.server.embedded_args import Option
from benchsuite.server.embedded_server_flags import SERVER

_CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_ALLOWED_TYPES = f"\nallowed values: {', '.join(_CACHE_TYPES)}\n(default: f16)"
_ON_OFF_AUTO: dict[str, object] = {
    **dict.fromkeys(args.ON, "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
    **dict.fromkeys(args.OFF, "LLAMA_FLASH_ATTN_TYPE_DISABLED"),
    **dict.fromkeys(("auto", "-1"), "LLAMA_FLASH_ATTN_TYPE_AUTO"),
}
_TYPE_WORDS = make.enum_words("GGML_TYPE", *_CACHE_TYPES)
_LOAD_WORDS: dict[str, object] = {
    **make.enum_words("LLAMA_LOAD_MODE", "auto", "none", "mmap", "mlock"),
    "mmap+mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
    "dio": "LLAMA_LOAD_MODE_DIRECT_IO",
}

_COMMON: tuple[Option, ...] = (
    Option(
        "-t --threads",
        "number of CPU threads to use during generation (default: -1)",
        make.put_value("cpuparams.n_threads"),
        read=make.read_threads,
        hint="N",
        env="LLAMA_ARG_THREADS",
    ),
    Option(
        "-tb --threads-batch",
        "number of threads to use during batch and prompt processing (default: same as --threads)",
        make.put_value("cpuparams_batch.n_threads"),
        read=make.read_threads,
        hint="N",
    ),
    make.number(
        "--poll", "cpuparams.poll", "polling level to wait for work (default: 50)", high=100
    ),
    Option(
        "-c --ctx-size",
        "size of the prompt context (default: 0, 0 = loaded from model)",
        make.put_context,
        read=args.read_number(),
        hint="N",
        env="LLAMA_ARG_CTX_SIZE",
    ),
    make.number(
        "-n --predict --n-predict",
        "n_predict",
        "number of tokens to predict (default: -1, -1 = infinity)",
        "N_PREDICT",
    ),
    make.number(
        "-b --batch-size", "n_batch", "logical maximum batch size (default: 2048)", "BATCH"
    ),
    make.number(
        "-ub --ubatch-size", "n_ubatch", "physical maximum batch size (default: 512)", "UBATCH"
    ),
    make.number(
        "--keep", "n_keep", "tokens to keep from the initial prompt (default: 0, -1 = all)"
    ),
    make.switch("--swa-full", "swa_full", "use full-size SWA cache (default: false)", "SWA_FULL"),
    make.words(
        "-fa --flash-attn",
        "flash_attn_type",
        "llama_flash_attn_type",
        _ON_OFF_AUTO,
        "set Flash Attention use ('on', 'off', or 'auto', default: 'auto')",
        "[on|off|auto]",
        "FLASH_ATTN",
    ),
    make.words(
        "--rope-scaling",
        "rope_scaling_type",
        "llama_rope_scaling_type",
        make.enum_words("LLAMA_ROPE_SCALING_TYPE", "none", "linear", "yarn"),
        "RoPE frequency scaling method, defaults to linear unless specified by the model",
        "{none,linear,yarn}",
        "ROPE_SCALING_TYPE",
    ),
    Option(
        "--rope-scale",
        "RoPE context scaling factor, expands context by a factor of N",
        make.put_scale,
        read=make.read_positive,
        hint="N",
        env="LLAMA_ARG_ROPE_SCALE",
    ),
    make.decimal(
        "--rope-freq-base",
        "rope_freq_base",
        "RoPE base frequency (default: loaded from model)",
        "ROPE_FREQ_BASE",
    ),
    make.decimal(
        "--rope-freq-scale",
        "rope_freq_scale",
        "RoPE frequency scaling factor, expands context by a factor of 1/N",
        "ROPE_FREQ_SCALE",
    ),
    make.toggle(
        "-kvo --kv-offload",
        "-nkvo --no-kv-offload",
        "no_kv_offload",
        "whether to enable KV cache offloading (default: enabled)",
        "KV_OFFLOAD",
        inverted=True,
    ),
    make.toggle(
        "--repack",
        "-nr --no-repack",
        "no_extra_bufts",
        "whether to enable weight repacking (default: enabled)",
        "REPACK",
        inverted=True,
    ),
    make.words(
        "-ctk --cache-type-k",
        "cache_type_k",
        "ggml_type",
        _TYPE_WORDS,
        "KV cache data type for K" + _ALLOWED_TYPES,
        "TYPE",
        "CACHE_TYPE_K",
    ),
    make.words(
        "-ctv --cache-type-v",
        "cache_type_v",
        "ggml_type",
        _TYPE_WORDS,
        "KV cache data type for V" + _ALLOWED_TYPES,
        "TYPE",
        "CACHE_TYPE_V",
    ),
    make.words(
        "-lm --load-mode",
        "load_mode",
        "llama_load_mode",
        _LOAD_WORDS,
        "model loading mode: auto, none, mmap, mlock, mmap+mlock or dio (default: auto)",
        "MODE",
        "LOAD_MODE",
    ),
    Option(
        "-ngl --gpu-layers --n-gpu-layers",
        "max. number of layers to store in VRAM, either an exact number, 'auto', or 'all' "
        "(default: auto)",
        make.put_value("n_gpu_layers"),
        read=make.read_layers,
        hint="N",
        env="LLAMA_ARG_N_GPU_LAYERS",
    ),
    make.words(
        "-sm --split-mode",
        "split_mode",
        "llama_split_mode",
        make.enum_words("LLAMA_SPLIT_MODE", "none", "layer", "row", "tensor"),
        "how to split the model across multiple GPUs (default: layer)",
        "{none,layer,row,tensor}",
        "SPLIT_MODE",
    ),
    Option(
        "-ts --tensor-split",
        "fraction of the model to offload to each GPU, comma-separated list of proportions",
        make.put_split,
        read=make.read_list_of(args.read_decimal, 128),
        hint="N0,N1,N2,...",
        env="LLAMA_ARG_TENSOR_SPLIT",
    ),
    make.number(
        "-mg --main-gpu", "main_gpu", "the GPU to use for the model (default: 0)", "MAIN_GPU"
    ),
    Option(
        "-fit --fit",
        "whether to adjust unset arguments to fit in device memory ('on' or 'off', default: 'on')",
        make.put_value("fit_params"),
        read=args.read_switch,
        hint="[on|off]",
        env="LLAMA_ARG_FIT",
    ),
    Option(
        "-fitt --fit-target",
        "target margin per device for --fit in MiB, comma-separated list of values, a single "
        "value is broadcast across all devices, default: 1024",
        make.put_margins,
        read=make.read_list_of(args.read_number(0), 16),
        hint="MiB0,MiB1,MiB2,...",
        env="LLAMA_ARG_FIT_TARGET",
    ),
    make.number(
        "-fitc --fit-ctx",
        "fit_params_min_ctx",
        "minimum ctx size that can be set by --fit option, default: 4096",
        "FIT_CTX",
        low=0,
    ),
    make.toggle(
        "--op-offload",
        "--no-op-offload",
        "no_op_offload",
        "whether to offload host tensor operations to device (default: true)",
        inverted=True,
    ),
    make.text("-m --model", "model.path", "model path to load", "FNAME", "MODEL"),
    Option(
        "-v --verbose --log-verbose",
        "set verbosity level to infinity (i.e. log all messages, useful for debugging)",
        lambda params, _, __: setattr(params, "verbosity", 2**31 - 1),
    ),
    make.number(
        "-lv --verbosity --log-verbosity",
        "verbosity",
        "set the verbosity threshold: 0 generic output, 1 error, 2 warning, 3 info, 4 trace, "
        "5 debug (default: 3)",
        "LOG_VERBOSITY",
    ),
)

_SAMPLING: tuple[Option, ...] = (
    make.number(
        "-s --seed", "sampling.seed", "RNG seed (default: -1, random)", low=0, high=2**32 - 1
    ),
    make.switch("--ignore-eos", "sampling.ignore_eos", "continue after the end of stream token"),
    Option(
        "--temp --temperature",
        "temperature (default: 0.80)",
        make.put_chosen("temp", "TEMP"),
        read=make.read_temperature,
        hint="N",
        env="LLAMA_ARG_TEMPERATURE",
    ),
    Option(
        "--top-k",
        "top-k sampling (default: 40, 0 = disabled)",
        make.put_chosen("top_k", "TOP_K"),
        read=args.read_number(),
        hint="N",
        env="LLAMA_ARG_TOP_K",
    ),
    Option(
        "--top-p",
        "top-p sampling (default: 0.95, 1.0 = disabled)",
        make.put_chosen("top_p", "TOP_P"),
        read=args.read_decimal,
        hint="N",
        env="LLAMA_ARG_TOP_P",
    ),
    Option(
        "--min-p",
        "min-p sampling (default: 0.05, 0.0 = disabled)",
        make.put_chosen("min_p", "MIN_P"),
        read=args.read_decimal,
        hint="N",
        env="LLAMA_ARG_MIN_P",
    ),
    Option(
        "--repeat-last-n",
        "last n tokens to consider for penalize (default: 64, 0 = disabled)",
        make.put_repeat_last,
        read=args.read_number(0),
        hint="N",
    ),
    Option(
        "--repeat-penalty",
        "penalize repeat sequence of tokens (default: 1.00, 1.0 = disabled)",
        make.put_chosen("penalty_repeat", "PENALTY_REPEAT"),
        read=make.read_positive,
        hint="N",
        env="LLAMA_ARG_REPEAT_PENALTY",
    ),
    make.decimal(
        "--presence-penalty",
        "sampling.penalty_present",
        "repeat alpha presence penalty (default: 0.00, 0.0 = disabled)",
        "PRESENCE_PENALTY",
    ),
    make.decimal(
        "--frequency-penalty",
        "sampling.penalty_freq",
        "repeat alpha frequency penalty (default: 0.00, 0.0 = disabled)",
        "FREQUENCY_PENALTY",
    ),
)
_SPECULATIVE: tuple[Option, ...] = (
    make.text(
        "--spec-draft-model -md --model-draft",
        "speculative.draft.mparams.path",
        "draft model for speculative decoding (default: unused)",
        "FNAME",
        "SPEC_DRAFT_MODEL",
    ),
    Option(
        "--spec-type",
        "comma-separated list of types of speculative decoding to use (default: none)",
        make.put_speculation,
        read=make.read_speculation,
        hint=",".join(make.SPECULATION),
        env="LLAMA_ARG_SPEC_TYPE",
    ),
    make.words(
        "--spec-draft-type-k -ctkd --cache-type-k-draft",
        "speculative.draft.cache_type_k",
        "ggml_type",
        _TYPE_WORDS,
        "KV cache data type for K for the draft model" + _ALLOWED_TYPES,
        "TYPE",
        "SPEC_DRAFT_CACHE_TYPE_K",
    ),
    make.words(
        "--spec-draft-type-v -ctvd --cache-type-v-draft",
        "speculative.draft.cache_type_v",
        "ggml_type",
        _TYPE_WORDS,
        "KV cache data type for V for the draft model" + _ALLOWED_TYPES,
        "TYPE",
        "SPEC_DRAFT_CACHE_TYPE_V",
    ),
    make.number(
        "--spec-draft-n-max",
        "speculative.draft.n_max",
        "number of tokens to draft for speculative decoding (default: 3)",
        "SPEC_DRAFT_N_MAX",
        low=0,
    ),
    make.number(
        "--spec-draft-n-min",
        "speculative.draft.n_min",
        "minimum number of draft tokens to use for speculative decoding (default: 0)",
        "SPEC_DRAFT_N_MIN",
    ),
    make.decimal(
        "--spec-draft-p-min --draft-p-min",
        "speculative.draft.p_min",
        "minimum speculative decoding probability (greedy) (default: 0.00)",
        "SPEC_DRAFT_P_MIN",
        hint="P",
    ),
    Option(
        "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft",
        "max. number of draft model layers to store in VRAM, either an exact number, 'auto', or "
        "'all' (default: auto)",
        make.put_value("speculative.draft.n_gpu_layers"),
        read=make.read_layers,
        hint="N",
        env="LLAMA_ARG_N_GPU_LAYERS_DRAFT",
    ),
)


def _nothing(_: object, __: object, ___: object) -> None:
    """Flags that print and leave set nothing."""


HELP = Option("-h --help --usage", "print usage and exit", _nothing)
VERSION = Option("--version", "show version and build info", _nothing)
LIST_DEVICES = Option("--list-devices", "print list of available devices and exit", _nothing)

SECTIONS: tuple[tuple[str, tuple[Option, ...]], ...] = (
    ("common params", (HELP, VERSION, LIST_DEVICES, *_COMMON)),
    ("sampling params", _SAMPLING),
    ("speculative params", _SPECULATIVE),
    ("example-specific params", SERVER),
)
OPTIONS: tuple[Option, ...] = tuple(option for _, options in SECTIONS for option in options)


def help_text() -> str:
    """What `--help` of the embedded server prints, in llama-server's form."""
    return args.help_text(SECTIONS)
