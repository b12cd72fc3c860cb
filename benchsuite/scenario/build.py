"""Prompts, sessions, server needs and variants from what was read."""

from __future__ import annotations

from collections.abc import Iterator

from benchsuite.model.scenario import (
    FlagNeed,
    FlagValue,
    PromptSpec,
    RequestSpec,
    RequestValue,
    Require,
    SessionOverlay,
    SessionSpec,
    VariantSpec,
)
from benchsuite.scenario.kinds import Found, Problems
from benchsuite.scenario.words import remedy

DEFAULT_VARIANT = "default"
"""The one variant of a file that names none."""

_OURS = {
    "prompt": "the step's prompt",
    "messages": "the session's turns",
    "stream": "benchsuite itself",
    "stream_options": "benchsuite itself",
    "n_predict": "'max_tokens' of the step",
    "max_tokens": "'max_tokens' of the step",
    "max_completion_tokens": "'max_tokens' of the step",
    "id_slot": "'slot'",
}
"""Request fields that are decided elsewhere, and where."""


_LONG_NAMES = {
    "np": "parallel",
    "LLAMA_ARG_N_PARALLEL": "parallel",
    "c": "ctx-size",
    "LLAMA_ARG_CTX_SIZE": "ctx-size",
}
"""Flags that slots and contexts are worked out from, also where no build's help is at hand."""


def entries(found: Found | None) -> Iterator[tuple[str, Found]]:
    """Names and findings of a mapping; nothing where it is absent or wrong."""
    if found is not None and isinstance(found.value, dict):
        yield from found.value.items()


def items(found: Found | None) -> list[Found]:
    """The entries of a list; none where it is absent or wrong."""
    return found.value if found is not None and isinstance(found.value, list) else []


def flag_name(written: str) -> str:
    """A flag as written, without the dashes in front; the long name where we reason about it."""
    bare = written.lstrip("-")
    return _LONG_NAMES.get(bare, bare)


class PromptBook:
    """The named prompts of a file, and which of them were used."""

    def __init__(self, found: Found | None, problems: Problems) -> None:
        self._named = {name: build_prompt(value) for name, value in entries(found)}
        self._lines = {name: value.line for name, value in entries(found)}
        self._problems = problems
        self._used: set[str] = set()

    def resolve(self, found: Found | None) -> PromptSpec | None:
        """The prompt meant by a name or written in place; None where there is none."""
        if found is None or found.value is None:
            return None
        if not isinstance(found.value, str):
            return build_prompt(found)
        name = found.value
        self._used.add(name)
        if name not in self._named:
            hint = remedy(name, self._named, "prompts")
            self._problems.say(found.line, f"unknown prompt '{name}'{hint}")
        return self._named.get(name)

    def unused(self) -> Iterator[tuple[str, int]]:
        """Names never asked for, with their lines."""
        for name, line in self._lines.items():
            if name not in self._used:
                yield name, line


def build_prompt(found: Found) -> PromptSpec:
    """A prompt that was written in place."""
    return PromptSpec(
        text=found.plain("text"),
        tokens=found.plain("tokens"),
        seed=found.plain("seed", 0),
        line=found.line,
    )


COPIES = ("n_cmpl", "n")
"""Fields that ask for several completions of one prompt; llama-server takes either."""


def copies_of(request: RequestSpec) -> int:
    """How many completions a request asks for."""
    value = next((request.extra[name] for name in COPIES if name in request.extra), 1)
    return value if isinstance(value, int) else 1


def _check_copies(found: Found, problems: Problems, *, allowed: bool) -> None:
    given = [(name, value) for name, value in entries(found) if name in COPIES]
    for name, value in given:
        if not allowed:
            sentence = f"'{name}' asks for several replies, and a conversation goes on from one"
            problems.say(value.line, f"{sentence}; use it in a 'complete' step")
        elif isinstance(value.value, bool) or not isinstance(value.value, int) or value.value < 1:
            problems.say(value.line, f"'{name}' is a whole number of completions, at least 1")
    if allowed and len(given) > 1:
        problems.say(given[1][1].line, "'n' and 'n_cmpl' are two names of one field; give one")


def build_request(found: Found | None, problems: Problems, *, several: bool = False) -> RequestSpec:
    """Further request fields; the default where there are none.

    Args:
        found: As read.
        problems: Takes what is wrong.
        several: Whether it may ask for several completions.
    """
    if found is None:
        return RequestSpec()
    _check_copies(found, problems, allowed=several)
    extra: dict[str, RequestValue] = {}
    for name, value in entries(found):
        if name in _OURS:
            problems.say(value.line, f"request field '{name}' is set by {_OURS[name]}")
        elif name not in ("cache_prompt", "temperature") and value.value is not None:
            extra[name] = value.value
    return RequestSpec(
        cache_prompt=found.plain("cache_prompt"),
        temperature=found.plain("temperature", 0.0),
        extra=extra,
    )


def build_sessions(
    found: Found | None, prompts: PromptBook, problems: Problems
) -> dict[str, SessionSpec]:
    """The sessions by name."""
    sessions = {
        name: SessionSpec(
            name=name,
            system=prompts.resolve(value.get("system")),
            slot=value.plain("slot"),
            request=build_request(value.get("request"), problems),
            secret=value.plain("secret"),
            line=value.line,
        )
        for name, value in entries(found)
    }
    _check_secrets(sessions, problems)
    return sessions


def _check_secrets(sessions: dict[str, SessionSpec], problems: Problems) -> None:
    """Note secrets that cannot be told apart."""
    told = [spec for spec in sessions.values() if spec.secret is not None]
    for spec in told:
        own = (spec.secret or "").casefold()
        if not own.strip():
            problems.say(spec.line, f"the secret of session '{spec.name}' is empty")
        for other in told:
            if other is not spec and own.strip() and own in (other.secret or "").casefold():
                problems.say(
                    spec.line,
                    f"the secret of session '{spec.name}' is part of that of '{other.name}'",
                )


def _flag_value(found: Found | None) -> FlagValue:
    # FlagSetting reads to a one-tuple
    value: FlagValue = found.value[0] if found is not None and found.value is not None else None
    return value


def _unique_flag(name: str, line: int, seen: dict[str, int], problems: Problems) -> str:
    bare = flag_name(name)
    if bare in seen:
        problems.say(line, f"flag '{bare}' was given on line {seen[bare]} already")
    seen[bare] = line
    return bare


def build_needs(found: Found | None, problems: Problems) -> dict[str, FlagNeed]:
    """What is needed of each server flag, by its name as written, dashes left out."""
    needs: dict[str, FlagNeed] = {}
    seen: dict[str, int] = {}
    for written, value in entries(found):
        name = _unique_flag(written, value.line, seen, problems)
        if value.value is None:
            continue
        if not isinstance(value.value, dict):
            needs[name] = FlagNeed(exact=_flag_value(value), line=value.line)
            continue
        if value.get("per") is not None and value.get("min") is None:
            problems.say(value.line, f"flag '{written}': 'per' goes with 'min' only")
        if (least := value.get("min")) is not None:
            needs[name] = FlagNeed(
                min=least.value, kind="min", per=value.plain("per", "total"), line=value.line
            )
        elif (default := value.get("default")) is not None:
            needs[name] = FlagNeed(default=_flag_value(default), kind="default", line=value.line)
        else:
            needs[name] = FlagNeed(exact=_flag_value(value.get("exact")), line=value.line)
    return needs


def build_variants(
    found: Found | None, sessions: dict[str, SessionSpec], problems: Problems
) -> dict[str, VariantSpec]:
    """The variants by name; one called `default` where the file names none."""
    variants: dict[str, VariantSpec] = {}
    for name, value in entries(found):
        flags: dict[str, FlagValue] = {}
        seen: dict[str, int] = {}
        for written, setting in entries(value.get("flags")):
            bare = _unique_flag(written, setting.line, seen, problems)
            flags[bare] = _flag_value(setting)
        overlays: dict[str, SessionOverlay] = {}
        for session, overlay in entries(value.get("sessions")):
            if session not in sessions:
                hint = remedy(session, sessions, "sessions")
                problems.say(overlay.line, f"unknown session '{session}' in variant '{name}'{hint}")
            request = overlay.get("request")
            overlays[session] = SessionOverlay(
                slot=overlay.plain("slot"),
                request=None if request is None else build_request(request, problems),
                line=overlay.line,
            )
        require = value.get("require")
        flag = None if require is None else require.plain("flag")
        variants[name] = VariantSpec(
            name=name,
            title=value.plain("title", ""),
            flags=flags,
            sessions=overlays,
            require=Require(
                flag=None if flag is None else flag_name(flag),
                device=None if require is None else require.plain("device"),
                overlay=require is not None and bool(require.plain("overlay", False)),
            ),
            line=value.line,
        )
    return variants or {DEFAULT_VARIANT: VariantSpec(DEFAULT_VARIANT)}


def check_slots(
    needs: dict[str, FlagNeed],
    sessions: dict[str, SessionSpec],
    variants: dict[str, VariantSpec],
    problems: Problems,
) -> None:
    """Note sessions pinned to a slot that an exact `parallel` cannot give.

    llama-server serves such a request from another slot without a word (build 10434).
    """
    need = needs.get("parallel")
    fixed = need.exact if need is not None and need.kind == "exact" else None
    for variant in variants.values():
        count = variant.flags.get("parallel", fixed)
        if not isinstance(count, str) or not count.isdecimal() or len(count) > 9:
            continue  # no number of slots: the build refuses it
        slots = int(count)
        for name, session in sessions.items():
            overlay = variant.sessions.get(name)
            pinned = overlay is not None and overlay.slot is not None
            slot = overlay.slot if overlay is not None and pinned else session.slot
            if slot is not None and slot >= slots:
                line = overlay.line if overlay is not None and pinned else session.line
                last = "only slot 0 exists" if slots == 1 else f"slots are 0 to {slots - 1}"
                problems.say(
                    line, f"session '{name}' is pinned to slot {slot}; with parallel {count} {last}"
                )
