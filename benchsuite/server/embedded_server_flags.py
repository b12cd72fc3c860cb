"""The flags of llama-server's HTTP side and slots that the embedded server honours.

Must stay quick to import; xllamacpp is not imported here.
"""

from __future__ import annotations

from benchsuite.server import embedded_values as make
from benchsuite.server.embedded_args import Option

SERVER: tuple[Option, ...] = (
    make.number(
        "-ctxcp --ctx-checkpoints --swa-checkpoints",
        "n_ctx_checkpoints",
        "max number of context checkpoints to create per slot (default: 32)",
        "CTX_CHECKPOINTS",
    ),
    make.number(
        "-cms --checkpoint-min-step",
        "checkpoint_min_step",
        "minimum spacing between context checkpoints in tokens (default: 8192, 0 = no minimum)",
        "CHECKPOINT_MIN_SPACING_NT",
        low=0,
    ),
    make.number(
        "-cram --cache-ram",
        "cache_ram_mib",
        "set the maximum cache size in MiB (default: 8192, -1 - no limit, 0 - disable)",
        "CACHE_RAM",
    ),
    make.toggle(
        "-kvu --kv-unified",
        "-no-kvu --no-kv-unified",
        "kv_unified",
        "use single unified KV buffer shared across all sequences (default: enabled if number of "
        "slots is auto)",
        "KV_UNIFIED",
    ),
    make.toggle(
        "--cache-idle-slots",
        "--no-cache-idle-slots",
        "cache_idle_slots",
        "save idle slots to the prompt cache on new task, and clear them when using unified KV "
        "(default: enabled, requires cache-ram)",
        "CACHE_IDLE_SLOTS",
    ),
    make.toggle(
        "--context-shift",
        "--no-context-shift",
        "ctx_shift",
        "whether to use context shift on infinite text generation (default: disabled)",
        "CONTEXT_SHIFT",
    ),
    make.toggle(
        "--warmup",
        "--no-warmup",
        "warmup",
        "whether to perform warmup with an empty run (default: enabled)",
    ),
    make.words(
        "--pooling",
        "pooling_type",
        "llama_pooling_type",
        make.enum_words("LLAMA_POOLING_TYPE", "none", "mean", "cls", "last", "rank"),
        "pooling type for embeddings, use model default if unspecified",
        "{none,mean,cls,last,rank}",
        "POOLING",
    ),
    Option(
        "-np --parallel",
        "number of server slots (default: -1, -1 = auto)",
        make.put_value("n_parallel"),
        read=make.read_slots,
        hint="N",
        env="LLAMA_ARG_N_PARALLEL",
    ),
    make.toggle(
        "-cb --cont-batching",
        "-nocb --no-cont-batching",
        "cont_batching",
        "whether to enable continuous batching (a.k.a dynamic batching) (default: enabled)",
        "CONT_BATCHING",
    ),
    Option(
        "-a --alias",
        "set model name aliases, comma-separated (to be used by API)",
        make.put_names("model_alias"),
        read=str,
        hint="STRING",
        env="LLAMA_ARG_ALIAS",
    ),
    Option(
        "--host",
        "ip addresses to listen on, comma-separated (default: 127.0.0.1)",
        make.put_value("hostnames"),
        read=make.read_hosts,
        hint="HOST",
        env="LLAMA_ARG_HOST",
    ),
    make.number(
        "--port",
        "port",
        "port to listen (default: 8080, 0 = any free one)",
        "PORT",
        low=0,
        high=65535,
    ),
    make.text(
        "--api-prefix",
        "api_prefix",
        "prefix path the server serves from, without the trailing slash (default: )",
        "PREFIX",
        "API_PREFIX",
    ),
    make.toggle(
        "--ui --webui",
        "--no-ui --no-webui",
        "ui",
        "whether to enable the Web UI (default: enabled)",
        "UI",
    ),
    make.switch(
        "--embedding --embeddings",
        "embedding",
        "restrict to only support embedding use case; use only with dedicated embedding models "
        "(default: disabled)",
        "EMBEDDINGS",
    ),
    Option(
        "--api-key",
        "API key to use for authentication, multiple keys can be provided as a comma-separated "
        "list (default: none)",
        make.put_keys,
        read=make.read_keys,
        hint="KEY",
        env="LLAMA_API_KEY",
    ),
    Option(
        "--api-key-file",
        "path to file containing API keys, one per line; lines starting with a hash are treated "
        "as comments (default: none)",
        make.put_keys,
        read=make.read_lines_of_file,
        hint="FNAME",
        env="LLAMA_ARG_API_KEY_FILE",
    ),
    make.number(
        "-to --timeout",
        "timeout_read timeout_write",
        "server read/write timeout in seconds (default: 3600)",
        "TIMEOUT",
    ),
    make.number(
        "--sse-ping-interval",
        "sse_ping_interval",
        "server SSE ping interval in seconds (-1 = disabled, default: 30)",
        "SSE_PING_INTERVAL",
    ),
    make.number(
        "--threads-http",
        "n_threads_http",
        "number of threads used to process HTTP requests (default: -1)",
        "THREADS_HTTP",
    ),
    make.toggle(
        "--cache-prompt",
        "--no-cache-prompt",
        "cache_prompt",
        "whether to enable prompt caching (default: enabled)",
        "CACHE_PROMPT",
    ),
    make.number(
        "--cache-reuse",
        "n_cache_reuse",
        "min chunk size to attempt reusing from the cache via KV shifting, requires prompt "
        "caching to be enabled (default: 0)",
        "CACHE_REUSE",
    ),
    make.switch(
        "--metrics",
        "endpoint_metrics",
        "enable prometheus compatible metrics endpoint (default: disabled)",
        "ENDPOINT_METRICS",
    ),
    make.switch(
        "--props",
        "endpoint_props",
        "enable changing global properties via POST /props (default: disabled)",
        "ENDPOINT_PROPS",
    ),
    make.toggle(
        "--slots",
        "--no-slots",
        "endpoint_slots",
        "expose slots monitoring endpoint (default: enabled)",
        "ENDPOINT_SLOTS",
    ),
    Option(
        "--slot-save-path",
        "path to save slot kv cache (default: disabled)",
        make.put_value("slot_save_path"),
        read=make.read_folder,
        hint="PATH",
    ),
    make.toggle(
        "--jinja",
        "--no-jinja",
        "use_jinja",
        "whether to use jinja template engine for chat (default: enabled)",
        "JINJA",
    ),
    make.words(
        "--reasoning-format",
        "reasoning_format",
        "common_reasoning_format",
        {
            **make.enum_words("COMMON_REASONING_FORMAT", "none", "auto", "deepseek"),
            "deepseek-legacy": "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY",
        },
        "how thought tags are returned: none, deepseek, deepseek-legacy (default: auto)",
        "FORMAT",
        "THINK",
    ),
    make.number(
        "--reasoning-budget",
        "sampling.reasoning_budget_tokens",
        "token budget for thinking: -1 for unrestricted, 0 for immediate end, N>0 for token "
        "budget (default: -1)",
        "THINK_BUDGET",
        low=-1,
    ),
    make.text(
        "--chat-template",
        "chat_template",
        "set custom jinja chat template (default: template taken from model's metadata)",
        "JINJA_TEMPLATE",
        "CHAT_TEMPLATE",
    ),
    Option(
        "--chat-template-file",
        "set custom jinja chat template file (default: template taken from model's metadata)",
        make.put_value("chat_template"),
        read=make.read_file,
        hint="JINJA_TEMPLATE_FILE",
        env="LLAMA_ARG_CHAT_TEMPLATE_FILE",
    ),
    make.toggle(
        "--skip-chat-parsing",
        "--no-skip-chat-parsing",
        "force_pure_content_parser",
        "force a pure content parser, even if a Jinja template is specified (default: disabled)",
        "SKIP_CHAT_PARSING",
    ),
    make.toggle(
        "--prefill-assistant",
        "--no-prefill-assistant",
        "prefill_assistant",
        "whether to prefill the assistant's response if the last message is an assistant message "
        "(default: prefill enabled)",
        "PREFILL_ASSISTANT",
    ),
    make.decimal(
        "-sps --slot-prompt-similarity",
        "slot_prompt_similarity",
        "how much the prompt of a request must match the prompt of a slot in order to use that "
        "slot (default: 0.10, 0.0 = disabled)",
        hint="SIMILARITY",
    ),
    Option(
        "--sleep-idle-seconds",
        "number of seconds of idleness after which the server will sleep (default: -1; -1 = "
        "disabled)",
        make.put_value("sleep_idle_seconds"),
        read=make.read_idle_seconds,
        hint="SECONDS",
    ),
)
