"""Examples below a command's help, a line each; a test parses all of them."""

from __future__ import annotations

_HEAD = "Examples:"


def examples(*lines: str) -> str:
    r"""A command's epilog.

    Args:
        lines: Each a command as typed in a shell, at most 78 columns; a longer one goes on in the
            next after a backslash.
    """
    # click keeps the lines of a paragraph that begins with \b as they are
    return f"{_HEAD}\n\n\b\n" + "\n".join(f"  {line}" for line in lines)
