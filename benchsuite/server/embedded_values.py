"""What the embedded server's flags are made of: readers of values, and where values go.

A reader turns text into a value or raises ValueError; a `put` sets a value on xllamacpp's
parameters. Must stay quick to import; xllamacpp is not imported here.
"""

from __future__ import annotations

import os

from benchsuite.server import embedded_args as args
from benchsuite.server.embedded_args import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_UINT32_MAX_AS_INT32 = -1


def _owner(params: Any, path: str) -> tuple[Any, str]:
    *parents, last = path.split(".")
    for name in parents:
        params = getattr(params, name)
    return params, last


def put_value(*paths: str, inverted: bool = False) -> Callable[[Any, Any, Any], None]:
    """A put that sets the attributes at `paths` (dotted) to the value, or to its opposite."""

    def put(params: Any, _: Any, value: Any) -> None:
        for path in paths:
            owner, name = _owner(params, path)
            setattr(owner, name, not value if inverted else value)

    return put


def put_enum(path: str, enum: str) -> Callable[[Any, Any, Any], None]:
    """A put that sets the attribute to the member of an xllamacpp enumeration."""

    def put(params: Any, module: Any, member: Any) -> None:
        owner, name = _owner(params, path)
        setattr(owner, name, getattr(getattr(module, enum), member))

    return put


def put_chosen(path: str, bit: str) -> Callable[[Any, Any, Any], None]:
    """Sets a sampling value and notes that the user chose it, as llama-server's parser does."""

    def put(params: Any, module: Any, value: Any) -> None:
        setattr(params.sampling, path, value)
        chosen = getattr(
            module.common_params_sampling_config, f"COMMON_PARAMS_SAMPLING_CONFIG_{bit}"
        )
        params.sampling.user_sampling_config |= int(chosen)

    return put


def switch(names: str, path: str, text: str, env: str | None = None) -> Option:
    """A flag without value that sets its attribute."""
    return Option(names, text, put_value(path), env=env_name(env))


def toggle(
    names: str,
    negatives: str,
    path: str,
    text: str,
    env: str | None = None,
    *,
    inverted: bool = False,
) -> Option:
    """A flag without value that has an opposite; `path` may hold several attributes."""
    put = put_value(*path.split(), inverted=inverted)
    return Option(names, text, put, negatives=negatives, env=env_name(env))


def number(
    names: str,
    path: str,
    text: str,
    env: str | None = None,
    *,
    low: int = -(2**31),
    high: int = 2**31 - 1,
) -> Option:
    """A flag with a whole number from `low` to `high`; `path` may hold several attributes."""
    read = args.read_number(low, high)
    return Option(names, text, put_value(*path.split()), read=read, hint="N", env=env_name(env))


def decimal(names: str, path: str, text: str, env: str | None = None, hint: str = "N") -> Option:
    """A flag with a finite number."""
    return Option(
        names, text, put_value(path), read=args.read_decimal, hint=hint, env=env_name(env)
    )


def text(names: str, path: str, text: str, hint: str, env: str | None = None) -> Option:
    """A flag with any text."""
    return Option(names, text, put_value(path), read=str, hint=hint, env=env_name(env))


def words(
    names: str,
    path: str,
    enum: str,
    words: dict[str, object],
    text: str,
    hint: str,
    env: str | None = None,
) -> Option:
    """A flag with one of the `words`, each naming a member of the enumeration."""
    read = args.read_word(words)
    return Option(names, text, put_enum(path, enum), read=read, hint=hint, env=env_name(env))


def env_name(word: str | None) -> str | None:
    """The environment variable of a flag, from its last part."""
    return None if word is None else f"LLAMA_ARG_{word}"


def read_threads(text: str) -> int:
    """A number of threads; 0 and less mean all of the machine's."""
    count = args.read_number()(text)
    return count if count > 0 else os.cpu_count() or 1


def read_layers(text: str) -> int:
    """A number of layers, `auto` or `all`."""
    known = {"auto": -1, "all": -2}
    return known[text] if text in known else args.read_number()(text)


def read_list_of(read: Callable[[str], Any], most: int) -> Callable[[str], list[Any]]:
    """A reader of less than `most` values, separated by commas or slashes."""

    def read_list(text: str) -> list[Any]:
        values = [read(part) for part in text.replace("/", ",").split(",") if part]
        if not 0 < len(values) < most:
            raise ValueError(f"got {len(values)} values, expected 1 to {most - 1}")
        return values

    return read_list


def put_context(params: Any, _: Any, cells: Any) -> None:
    """Sets the context size."""
    params.n_ctx = cells
    if cells == 0:  # the whole context was asked for by name: fitting must not shrink it
        params.fit_params_min_ctx = _UINT32_MAX_AS_INT32


def put_split(params: Any, _: Any, shares: Any) -> None:
    """Sets the devices' shares, in a list of fixed length."""
    length = len(params.tensor_split)
    params.tensor_split = [*shares, *([0.0] * (length - len(shares)))]


def put_margins(params: Any, _: Any, margins_mib: Any) -> None:
    """Sets the margins for fitting, in bytes; a single one goes for all devices."""
    kept = list(params.fit_params_target)
    given = [mib * 1024 * 1024 for mib in margins_mib]
    params.fit_params_target = given * len(kept) if len(given) == 1 else given + kept[len(given) :]


def put_names(path: str) -> Callable[[Any, Any, Any], None]:
    """A put that adds comma-separated names to the set at `path`."""

    def put(params: Any, _: Any, text: Any) -> None:
        names = {part.strip() for part in text.split(",") if part.strip()}
        setattr(params, path, getattr(params, path) | names)

    return put


def put_keys(params: Any, _: Any, keys: Any) -> None:
    """Adds API keys."""
    params.api_keys = [*params.api_keys, *keys]


def read_keys(text: str) -> list[str]:
    """Comma-separated API keys."""
    return [key for key in text.split(",") if key]


def read_lines_of_file(text: str) -> list[str]:
    """The lines of a file that are neither empty nor comments."""
    content = read_file(text)
    return [line for line in content.splitlines() if line and not line.startswith("#")]


def read_file(text: str) -> str:
    """The text of a file."""
    try:
        with open(text, encoding="utf-8") as file:  # noqa: PTH123  # pathlib costs start-up time
            return file.read()
    except OSError as error:
        raise ValueError(f"failed to open file '{text}': {error.strerror}") from None


def read_folder(text: str) -> str:
    """A folder that exists, with a separator at its end, as slots are saved below it."""
    if not os.path.isdir(text):  # noqa: PTH112  # pathlib costs start-up time
        raise ValueError(f"not a directory: {text}")
    return text if text.endswith(os.sep) else text + os.sep


def read_hosts(text: str) -> list[str]:
    """Comma-separated addresses, at least one."""
    hosts = [part.strip() for part in text.split(",") if part.strip()]
    if not hosts:
        raise ValueError("--host requires at least one address")
    return hosts


def read_slots(text: str) -> int:
    """A number of slots: anything but 0."""
    count = args.read_number()(text)
    if count == 0:
        raise ValueError("invalid value for n_parallel")
    return count


def read_idle_seconds(text: str) -> int:
    """Seconds, or -1 for never."""
    seconds = args.read_number()(text)
    if seconds == 0 or seconds < -1:
        raise ValueError("invalid value: cannot be 0 or less than -1")
    return seconds


def read_temperature(text: str) -> float:
    """A temperature; less than 0 is 0."""
    return max(args.read_decimal(text), 0.0)


def read_positive(text: str) -> float:
    """A number above 0."""
    number = args.read_decimal(text)
    if number <= 0:
        raise ValueError(f"'{text}' is not greater than 0")
    return number


def put_scale(params: Any, _: Any, factor: Any) -> None:
    """Sets the scale of RoPE from the factor by which the context grows."""
    params.rope_freq_scale = 1.0 / factor


def enum_words(prefix: str, *words: str) -> dict[str, object]:
    """Words, each with the enumeration member `PREFIX_WORD`."""
    return {word: f"{prefix}_{word.upper()}" for word in words}


def put_repeat_last(params: Any, module: Any, tokens: Any) -> None:
    """Sets how many tokens the repeat penalty looks at, and keeps as many."""
    put_chosen("penalty_last_n", "PENALTY_LAST_N")(params, module, tokens)
    params.sampling.n_prev = max(params.sampling.n_prev, tokens)


SPECULATION = (
    "none",
    "draft-simple",
    "draft-eagle3",
    "draft-mtp",
    "draft-dflash",
    "draft-dspark",
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
)


def read_speculation(text: str) -> list[str]:
    """Types of speculative decoding, as enum members."""
    read = args.read_word({w: f"COMMON_SPECULATIVE_TYPE_{w}" for w in SPECULATION})
    return [str(read(word)).replace("-", "_").upper() for word in text.split(",")]


def put_speculation(params: Any, module: Any, members: Any) -> None:
    """Adds types of speculative decoding, as llama-server's parser does."""
    types = [getattr(module.common_speculative_type, member) for member in members]
    params.speculative.types = [*params.speculative.types, *types]
