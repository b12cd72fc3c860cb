"""Argument lists with placeholders, of deployments that start their server by a command; pure.

`{flags}` stands alone and becomes any number of words; the others may be part of a word. Other
braces are kept, since engines have templates of their own (`{{json .State}}`), and shells too
(`${HOME}`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchsuite.scenario.words import remedy

KEY_VARIABLE = "LLAMA_API_KEY"
"""The variable that a launched server reads its key from; `{key_env}` is this name."""

FLAGS = "flags"

PLACEHOLDERS: dict[str, str] = {
    FLAGS: "the server's flags, as many words as there are",
    "host": "the address where the server is reached: 'host' of the deployment",
    "port": "the port where the server is reached, chosen anew for each launch",
    "model": "the model's path: 'model_inside' of the deployment, else 'model'",
    "key_env": f"the name of the variable with the server's key: {KEY_VARIABLE}",
    "name": "a name that no other launch has: for a container, a unit or a job",
}
"""What may stand in braces, and what it becomes."""

_PLACEHOLDER = re.compile(r"(?<![{$])\{([A-Za-z_]\w*)\}(?!\})")


def placeholders(words: Sequence[str]) -> Iterator[str]:
    """The names in braces, in their order, known or not."""
    for word in words:
        yield from (match[1] for match in _PLACEHOLDER.finditer(word))


def fill(words: Sequence[str], texts: Mapping[str, str], flags: Sequence[str]) -> tuple[str, ...]:
    """The argument list with its placeholders filled in.

    Args:
        words: A template without problems, as of `template_problems`.
        texts: Placeholder -> what it becomes; one that is not named stays as it is.
        flags: What `{flags}` becomes.
    """
    found: list[str] = []
    for word in words:
        if word == f"{{{FLAGS}}}":
            found.extend(flags)
        else:
            found.append(fill_text(word, texts))
    return tuple(found)


def fill_text(text: str, texts: Mapping[str, str]) -> str:
    """One text with its placeholders filled in."""
    return _PLACEHOLDER.sub(lambda match: texts.get(match[1], match[0]), text)


def template_problems(words: Sequence[str], allowed: Sequence[str]) -> list[str]:
    """What is wrong with an argument list, each as the end of a sentence.

    Args:
        words: The template.
        allowed: The placeholders that may be in it.
    """
    found: list[str] = []
    for name in placeholders(words):
        if name not in PLACEHOLDERS:
            found.append(f"unknown placeholder '{{{name}}}'{remedy(name, allowed, 'placeholders')}")
        elif name not in allowed:
            found.append(f"'{{{name}}}' is not known here{remedy(name, allowed, 'placeholders')}")
    joined = f"{{{FLAGS}}}"
    found += [
        f"'{word}': {joined} becomes several words, so it must stand alone"
        for word in words
        if word != joined and FLAGS in placeholders([word])
    ]
    return found
