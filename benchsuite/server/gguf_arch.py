"""Which rule each architecture's cache follows: a table, read from the source of build 11434.

One line for each architecture of `LLM_ARCH_NAMES` (src/llama-arch.cpp): from its
`load_arch_hparams` in src/models/, and its case in `create_memory` (src/llama-model.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar


@dataclass(frozen=True)
class Rule:
    """How the layers of an architecture keep what they saw."""

    # `always`: the window has a size of its own; `declared`: the file must give it;
    # `if declared`: there is none unless given; `unless 0`: there is one unless given as 0
    window: Literal["always", "declared", "if declared", "unless 0"] | None = None
    window_size: int | None = None  # cells, where the file gives none
    fixed_size: bool = False  # `window_size` holds whatever the file gives
    window_layers: int | None = None  # only models of so many layers slide
    # every nth layer is dense unless the file says otherwise; `listed`: the file must list them;
    # `attention`: all that are not recurrent
    period: int | Literal["listed", "attention"] = "listed"
    dense_first: bool = False  # the period begins with its dense layer
    owning_layers: int | None = None  # so many, from the first, keep KV of their own
    shares_kv: bool = False  # the last `shared_kv_layers` use the KV of others
    # `if declared`: without `key_length_mla` the model is laid out as plain attention
    mla: Literal["always", "if declared"] | None = None
    reads_lengths: bool = False  # key and value sizes count also where the first layer has no heads
    router: bool = False  # one more layer of one head
    loops: bool = False  # layers are run through `num_loops` times
    keeps_nextn: bool = False  # attention is filtered by `not recurrent` alone
    # oldest build seen to give the layers that only predict further tokens no memory
    nextn_build: int = 11434
    # which layers are recurrent: those without KV heads, those that are neither attention nor
    # feed-forward, by list or interval, all; `beside`: each has both
    recurrent: (
        Literal["no heads", "no heads, no feed-forward", "interval", "all", "beside"] | None
    ) = None
    interval: int = 4  # every nth layer has attention, where `recurrent` is `interval`
    state: Literal[
        "ssm", "ssm with groups", "wkv", "shortconv", "kda", "linear attention", None
    ] = None


_Value = TypeVar("_Value")


def _for(names: str, value: _Value) -> dict[str, _Value]:
    return dict.fromkeys(names.split(), value)


_PLAIN = Rule()
_LISTED = Rule(window="declared")
_INTERVAL = Rule(recurrent="interval", state="ssm with groups")
_NO_HEADS = Rule(recurrent="no heads", keeps_nextn=True)

RULES: dict[str, Rule] = {
    # phi3 and qwen2moe files may declare a window: it is not used
    **_for(
        """
        llama llama-embed deci falcon grok gpt2 gptneox mpt baichuan starcoder refact bloom
        stablelm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe
        plamo codeshell orion internlm2 minicpm minicpm3 gemma starcoder2 xverse command-r dbrx
        olmo olmoe openelm arctic deepseek deepseek2-ocr chatglm glm4 glm4moe bitnet jais jais2
        nemotron exaone granite granitemoe chameleon plm bailingmoe bailingmoe2 dots1 arcee
        ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl smollm3 seed_oss grovemoe
        apertus minimax-m2 cogvlm pangu-embedded mistral3 paddleocr maincoder talkie hrm_text
        """,
        _PLAIN,
    ),
    "hy_v3": Rule(nextn_build=10434),
    "nanbeige": Rule(loops=True),
    "graniteswitch": Rule(router=True, keeps_nextn=True),
    # latent attention
    **_for("deepseek2 mistral4", Rule(mla="if declared")),
    # sliding windows
    "gemma2": Rule(window="always", window_size=4096, period=2),
    "gemma3": Rule(window="if declared", period=6),
    "gemma3n": Rule(window="declared", period=5, owning_layers=20),
    "gemma4": replace(_LISTED, shares_kv=True),
    "cohere2": Rule(window="declared", period=4),
    "cohere2moe": Rule(window="declared", period=4, dense_first=True),
    "gpt-oss": Rule(window="declared", period=2),
    **_for("exaone-moe muse-glimmer", Rule(window="declared", period=4)),
    "exaone4": Rule(window="always", window_size=4096, window_layers=64, period=4),
    "step35": replace(_LISTED, nextn_build=10092),
    "mimo2": replace(_LISTED, nextn_build=10434),
    **_for("granite_swa spark2_5 maple", _LISTED),
    **_for("olmo2 afmoe mellum", Rule(window="if declared", period=4)),
    "laguna": Rule(window="if declared", period=4, dense_first=True),
    "plamo3": Rule(window="if declared", period=8),
    "smallthinker": Rule(
        window="if declared", window_size=4096, fixed_size=True, period=4, dense_first=True
    ),
    "llama4": Rule(window="unless 0", window_size=8192, fixed_size=True, period=4),
    # recurrent
    "mamba": Rule(recurrent="all", state="ssm"),
    "mamba2": Rule(recurrent="all", state="ssm with groups"),
    **_for("rwkv6 rwkv6qwen2 rwkv7 arwkv7", Rule(recurrent="all", state="wkv")),
    # both
    "jamba": replace(_NO_HEADS, state="ssm"),
    "plamo2": replace(_NO_HEADS, state="ssm with groups", reads_lengths=True),
    "granitehybrid": replace(_NO_HEADS, state="ssm with groups"),
    "lfm2": replace(_NO_HEADS, state="shortconv", window="if declared", period="attention"),
    "lfm2moe": replace(_NO_HEADS, state="shortconv"),
    **_for("kimi-linear bailingmoe3 kimi-k3", replace(_NO_HEADS, state="kda", mla="always")),
    "falcon-h1": Rule(recurrent="beside", state="ssm with groups", keeps_nextn=True),
    **_for(
        "nemotron_h nemotron_h_moe",
        Rule(recurrent="no heads, no feed-forward", state="ssm with groups", keeps_nextn=True),
    ),
    **_for("qwen35 qwen35moe", replace(_INTERVAL, nextn_build=10092)),
    "qwen3next": replace(_INTERVAL, nextn_build=10434),
    "minimax-01": Rule(recurrent="interval", interval=8, state="linear attention"),
}
"""Architecture -> its rule."""

_INDEXER = "it keeps an indexer's keys besides, which was not verified"
_NO_CACHE = "it keeps no cache between tokens"
_DRAFT = "it is a draft model, which lives beside another"

UNVERIFIED: dict[str, str] = {
    **_for("deepseek32 glm-dsa glm5-next hy_v4 dots3note minimax-m3 qwen4exp", _INDEXER),
    "deepseek4": "it keeps compressed states besides, which was not verified",
    **_for("gemma4-assistant eagle3 dflash", _DRAFT),
    **_for(
        """
        clip bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert
        wavtokenizer-dec gemma-embedding dream llada llada-moe rnd1 clef t5encoder
        """,
        _NO_CACHE,
    ),
    "t5": "it has an encoder and a decoder, which was not verified",
    **_for("qwen3tts pockettts", "it makes speech, which was not verified"),
    "gptj": "llama.cpp names it but cannot load it",
}
"""Architectures whose cache cannot be told -> why."""
