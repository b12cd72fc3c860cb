"""llama-server's flags as one binary's own `--help` tells them; pure.

Read from the help of builds 10068, 10092 and 10434. An entry is a line that begins with a dash:
names separated by commas, then the hint of its value, then (after two spaces, or on the next
line) its description. Of several long names the last is canonical: llama-server's own presets
write that one too, and new spellings were put in front of old ones (`--predict, --n-predict`,
`--spec-draft-model, -md, --model-draft`), so it stays the same across builds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from benchsuite.errors import FlagError
from benchsuite.model.scenario import FlagValue
from benchsuite.scenario.words import remedy

ON, OFF = "on", "off"

_TRUE = frozenset({"true", "on", "yes", "1", "enabled"})
_FALSE = frozenset({"false", "off", "no", "0", "disabled"})
_NAME = re.compile(r"-{1,2}[A-Za-z][A-Za-z0-9_.-]*")
_ENV = re.compile(r"\(env:\s*([A-Z0-9_]+)\)")
_CHOICES = re.compile(r"[\[{<]([\w+-]+(?:[|,][\w+-]+)+)[\]}>]")
_ALLOWED = re.compile(r"allowed values:\s*((?:[\w+-]+,\s*)*[\w+-]+)")
_REMOVED = re.compile(r"the argument has been removed\.?\s*(.*?)\s*(?:\(env:|$)")
_PLACEHOLDERS = re.compile(r"[A-Z][A-Z0-9_]*(?: [A-Z][A-Z0-9_]*)+")
_TAKES_FILE = re.compile(r"FNAME|(?:[A-Z]+_)*(?:FILE|PATH|DIR)(?![A-Z_])")
_ENV_PREFIX = "LLAMA_ARG_"


def show_value(value: FlagValue) -> str:
    """A flag's value in a sentence."""
    if value is None:
        return "not given"
    return value if isinstance(value, str) else " ".join(value)


class Flag(msgspec.Struct, frozen=True):
    """One flag of one build."""

    name: str  # canonical: the last positive long name, dashes left out
    names: tuple[str, ...]  # every positive name as given, dashes included
    negations: tuple[str, ...] = ()  # names that turn it off
    arity: int = 0  # values that it takes; 0 for a switch
    choices: tuple[str, ...] = ()  # the values allowed, where the help lists them
    env: str | None = None
    removed: str | None = None  # what to use instead, where the help says that it is gone
    names_file: bool = False  # its value is, or holds, the name of a file or folder

    @property
    def option(self) -> str:
        """The spelling given to the server."""
        return f"--{self.name}" if f"--{self.name}" in self.names else self.names[-1]

    @property
    def negation(self) -> str | None:
        """The spelling that turns it off, or None."""
        return self.negations[-1] if self.negations else None


class FlagTable:
    """The flags of one build.

    Args:
        flags: In the order of the help.
        build: How messages name the build: `llama-server b10434`.
    """

    def __init__(self, flags: tuple[Flag, ...], build: str) -> None:
        self.flags = flags
        self.build = build
        self._by_word: dict[str, tuple[Flag, bool]] = {}
        # exact spellings first, so that no alias without dashes can hide one
        for flag in flags:
            for name in flag.names:
                self._by_word.setdefault(name, (flag, False))
            for name in flag.negations:
                self._by_word.setdefault(name, (flag, True))
        for prefix in ("--", "-"):
            for spelled, meaning in list(self._by_word.items()):
                if spelled.startswith(prefix):
                    self._by_word.setdefault(spelled.removeprefix(prefix), meaning)
        for flag in flags:
            if flag.env is not None:
                self._by_word.setdefault(flag.env, (flag, False))
                if flag.negations and flag.env.startswith(_ENV_PREFIX):
                    # LLAMA_ARG_NO_LOG_TIMESTAMPS was seen to turn them off (build 10434)
                    self._by_word.setdefault(
                        f"{_ENV_PREFIX}NO_{flag.env.removeprefix(_ENV_PREFIX)}", (flag, True)
                    )

    def __contains__(self, word: str) -> bool:
        return word in self._by_word

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that the build reads flags from, in the order of the help."""
        return tuple(flag.env for flag in self.flags if flag.env is not None)

    def find(self, word: str) -> tuple[Flag, bool]:
        """The flag meant by a word, and whether the word turns it off.

        Args:
            word: A long or short name with or without dashes, a negation, or `LLAMA_ARG_...`.

        Raises:
            FlagError: This build has no such flag, or says that it was removed.
        """
        found = self._by_word.get(word)
        if found is None:
            hint = remedy(word.lstrip("-"), [flag.name for flag in self.flags], "flags")
            raise FlagError(f"{self.build} has no flag '{word}'{hint}", unknown_to_build=True)
        if found[0].removed is not None:
            advice = f"; {found[0].removed}" if found[0].removed else ""
            raise FlagError(
                f"flag '{word}' was removed from {self.build}{advice}", unknown_to_build=True
            )
        return found

    def canonical(self, word: str) -> str:
        """The canonical long name, without dashes, of the flag meant by a word.

        Raises:
            FlagError: As `find`.
        """
        return self.find(word)[0].name

    def normalise(self, word: str, value: FlagValue) -> tuple[str, FlagValue]:
        """A flag and its value in canonical form.

        Switches become `on` or `off`, seen from the positive name (`no-kv-offload: true` is
        `kv-offload` `off`), and so do flags whose choices hold both words. None stays None.

        Raises:
            FlagError: As `find`; or the value does not suit the flag.
        """
        flag, inverted = self.find(word)
        if value is None:
            return flag.name, None
        if isinstance(value, tuple):
            if flag.arity == 0:
                raise FlagError(f"flag '{word}' is a switch and cannot be repeated")
            return flag.name, tuple(self._value(word, flag, text) for text in value)
        if flag.arity == 0:
            return flag.name, _switch(word, inverted, value)
        return flag.name, self._value(word, flag, value)

    def _value(self, word: str, flag: Flag, value: str) -> str:
        if not value.strip():
            raise FlagError(f"flag '{word}' takes a value and was given none")
        if flag.arity > 1 and len(value.split()) != flag.arity:
            raise FlagError(
                f"flag '{word}' takes {flag.arity} values separated by spaces, found '{value}'"
            )
        if not flag.choices or value in flag.choices:
            return value
        text = value.casefold()
        if ON in flag.choices and text in _TRUE:
            return ON
        if OFF in flag.choices and text in _FALSE:
            return OFF
        hint = remedy(value, flag.choices, "valid values")
        raise FlagError(f"flag '{word}' of {self.build} has no value '{value}'{hint}")

    def argv(self, flags: Mapping[str, FlagValue]) -> list[str]:
        """The command-line words for flags, in their order.

        A switch that is off is its negation, or nothing where the build has none (off is then
        how it starts). A list repeats the flag; None leaves it out.

        Raises:
            FlagError: As `normalise`; or two words mean the same flag.
        """
        words: list[str] = []
        seen: dict[str, str] = {}
        for word, value in flags.items():
            name, normal = self.normalise(word, value)
            if name in seen:
                raise FlagError(f"'{seen[name]}' and '{word}' are the same flag")
            seen[name] = word
            if normal is None:
                continue
            flag = self.find(word)[0]
            if flag.arity == 0:
                option = flag.option if normal == ON else flag.negation
                words.extend([] if option is None else [option])
                continue
            for text in (normal,) if isinstance(normal, str) else normal:
                words.append(flag.option)
                words.extend(text.split() if flag.arity > 1 else [text])
        return words


def _switch(word: str, inverted: bool, value: str) -> str:
    text = value.casefold()
    if text not in _TRUE and text not in _FALSE:
        raise FlagError(f"flag '{word}' is a switch: expected true or false, found '{value}'")
    return ON if (text in _TRUE) != inverted else OFF


def parse_help(text: str, build: str = "this llama-server") -> FlagTable:
    """The flags that a `--help` text describes.

    Args:
        text: All of it; lines that are not part of an entry are passed over.
        build: How messages name the build.

    Returns:
        The table; it has no flags where the text is not such a help.
    """
    entries: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("-----"):
            continue
        if line.startswith("-"):
            spec, _, description = _split(line)
            entries.append((spec, [description]))
        elif entries and line.startswith(" "):
            entries[-1][1].append(line.strip())
    flags = [_flag(spec, " ".join(filter(None, words))) for spec, words in entries]
    return FlagTable(tuple(flag for flag in flags if flag is not None), build)


def _split(line: str) -> tuple[str, str, str]:
    # names are padded after their commas (`-c,    --ctx-size N   size of ...`)
    return re.sub(r",\s*-", ", -", line).rstrip().partition("  ")


def _flag(spec: str, description: str) -> Flag | None:
    names: list[str] = []
    position = 0
    while (match := _NAME.match(spec, position)) is not None:
        names.append(match[0])
        position = match.end()
        if not spec.startswith(", -", position):
            break
        position += 2
    if not names:
        return None
    hint = spec[position:].strip()
    positive, negative = _sides(names)
    longs = [name for name in positive if name.startswith("--")] or positive
    choices = _CHOICES.fullmatch(hint)
    allowed = _ALLOWED.search(description) if hint else None
    env = _ENV.search(description)
    removed = _REMOVED.search(description)
    listed = choices[1] if choices is not None else allowed[1] if allowed is not None else ""
    return Flag(
        name=longs[-1].lstrip("-"),
        names=tuple(positive),
        negations=tuple(negative),
        arity=0 if not hint else len(hint.split()) if _PLACEHOLDERS.fullmatch(hint) else 1,
        choices=tuple(word for word in re.split(r"[|,\s]+", listed) if word),
        env=env[1] if env is not None else None,
        removed=removed[1] if removed is not None else None,
        names_file=_TAKES_FILE.match(hint) is not None,
    )


def _sides(names: list[str]) -> tuple[list[str], list[str]]:
    """Names that turn a flag on, and those that turn it off."""
    longs = [name for name in names if name.startswith("--")]
    on = [name for name in longs if not name.startswith("--no-")]
    if not on or len(on) == len(longs):
        return names, []  # no pair: `--no-host` alone is a switch of that name
    # short negations stand behind the last positive long name: `--repack, -nr, --no-repack`
    last = names.index(on[-1])
    return names[: last + 1], names[last + 1 :]
