"""The one place that knows a run's secrets, and takes them out of whatever is kept or printed.

What is learnt is found again as it stands in text, percent-encoded in URLs, escaped in JSON and
HTML, and in the base64 of basic authentication. Our own random keys are known by their form, so
that they are also found after the process that made them was killed. Beside what was learnt,
passwords and tokens of URLs, and what follows `Bearer`, are hidden by where they stand.

Not found: a secret that is cut in two, reversed, hashed, encoded in another way, or shorter than
`LEAST`, which could not be told from other text (that one is hidden behind `Bearer` and `api_key`
only). Must not import anything of the package.
"""

from __future__ import annotations

import binascii
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

HIDDEN = "(hidden)"
"""What stands where a secret stood; in the log of a server, stars of the same length."""

LEAST = 8
"""Characters of the shortest secret that is looked for everywhere."""

_MARGIN = 4096
"""Characters beyond a cut that are looked at for what is hidden by where it stands."""

_OWN_PREFIX = b"benchsuite-key-"
_OWN_DIGITS = 48
_OWN = re.compile(_OWN_PREFIX + rb"[0-9a-f]{%d}" % _OWN_DIGITS)

_SECRET_WORD = re.compile(
    r"KEY|APIKEY|TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|AUTHORIZATION"
    r"|BEARER|COOKIE|SIGNATURE|SIG|PAT"
)
_SECRET_ENDS = ("PASSWORD", "PASSWD", "APIKEY", "TOKEN", "SECRET")
_HARMLESS_END = re.compile(
    r"PATH|FILE|DIR|FOLDER|ENV|NAME|ID|SOCK|TYPE|TTL|LENGTH|LIMIT|SIZE|COUNT|MAP|LAYOUT|URL|URI"
    r"|HELPER|PROGRAM"
)
_WORDS = re.compile(r"[_.\-\s]+|(?<=[a-z])(?=[A-Z])")

_USERINFO = re.compile(r"(?P<head>\b[A-Za-z][A-Za-z0-9+.-]*://)(?P<who>[^/?#\s@\"'<>\\]+)(?=@)")
_QUERY = re.compile(r"(?P<name>[?&;#](?P<key>[A-Za-z0-9_.~-]+)=)(?P<value>[^&;#\s\"'<>\\]+)")
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>\\]+")
_BEARER = re.compile(r"(?P<head>\bbearer\s+)(?=\S*\d)[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_BASIC = re.compile(
    r"(?P<head>\bauthorization[\"']?\s*[:=]\s*[\"']?basic\s+)[A-Za-z0-9+/_-]{4,}={0,2}",
    re.IGNORECASE,
)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')

_known: dict[str, tuple[bytes, ...]] = {}  # secret -> its forms, the longest first
_weak: dict[str, re.Pattern[str]] = {}  # a short one -> where it is hidden


class Key(str):
    """A key that no representation shows; as text it is what it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(HIDDEN)


def new_key() -> Key:
    """A random key for a server of ours, of a form that is recognised wherever it turns up."""
    return Key(_OWN_PREFIX.decode() + secrets.token_hex(_OWN_DIGITS // 2))


def is_secret_name(name: str) -> bool:
    """Whether a variable, flag or field is named like one whose value is a secret.

    `HF_TOKEN` is, `HF_TOKEN_PATH`, `MAX_TOKENS` and `KEYMAP` are not.
    """
    words = [word.upper() for word in _WORDS.split(name.strip("-")) if word]
    if not words or _HARMLESS_END.fullmatch(words[-1]):
        return False
    last = words[-1]
    many = last == "KEYS" and "API" in words
    return many or any(map(_SECRET_WORD.fullmatch, words)) or last.endswith(_SECRET_ENDS)


def secret_in_url(text: str) -> str | None:
    """What of a URL in the text is secret, in words without its value; None where nothing is."""
    for url in _URL.finditer(text):
        for who in _USERINFO.finditer(url[0]):
            if ":" in who["who"] or who["head"].lower().startswith(("http", "ftp", "ws")):
                return "a name or password before '@'"
        for part in _QUERY.finditer(url[0]):
            if is_secret_name(part["key"]):
                return f"'{part['key']}='"
    return None


def learn(secret: str) -> bool:
    """Hide a secret from now on.

    Returns:
        Whether it is hidden everywhere; a short one is hidden only behind `Bearer` and `api_key`.
    """
    if _OWN.fullmatch(secret.encode("utf-8", "surrogateescape")):
        return True
    if len(secret) < LEAST:
        if secret:
            behind = r"(?P<head>(?:\bbearer\s+|api[-_ ]?key[\"']?\s*[:=]?\s*[\"']?))"
            end = r"(?![A-Za-z0-9_-])"
            _weak[secret] = re.compile(behind + re.escape(secret) + end, re.IGNORECASE)
        return False
    if secret not in _known:
        _known[secret] = tuple(sorted(set(_forms(secret)), key=len, reverse=True))
    return True


def learn_environment(environ: Mapping[str, str]) -> None:
    """Hide the values of variables that are named like secrets, where they look like ones.

    Paths and plain words are left, since hiding `false` or `postgres` everywhere would only harm.
    """
    for name, value in environ.items():
        if is_secret_name(name) and _looks_random(value):
            learn(value)


def forget() -> None:
    """Know no secret any more."""
    _known.clear()
    _weak.clear()


def redact(text: str) -> str:
    """The text with every secret hidden."""
    if not text:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    hidden = redact_bytes(raw)
    if hidden is not raw:
        text = hidden.decode("utf-8", "surrogatepass")
    for pattern in _weak.values():
        text = pattern.sub(_behind_head, text)
    if "://" in text:
        text = _URL.sub(_clean_url, text)
    folded = text.casefold()
    if "bearer" in folded:
        text = _BEARER.sub(_behind_head, text)
    if "basic" in folded:
        text = _BASIC.sub(_behind_head, text)
    return text


def redact_bytes(data: bytes) -> bytes:
    """The data with every secret that was learnt hidden; the very same object where there is none.

    Nothing is hidden by where it stands: what is given may be a page with scripts.
    """
    return _replaced(data, lambda _: HIDDEN.encode())


def beginning(text: str, most: int) -> str:
    """The first `most` characters of a text, the secrets hidden before the rest is cut off.

    Of a text that is cut first, a secret across the cut would be left in part.
    """
    raw = text.encode("utf-8", "surrogatepass")
    hidden = redact_bytes(raw)
    if hidden is not raw:
        text = hidden.decode("utf-8", "surrogatepass")
    return redact(text[: most + _MARGIN])[:most]


def beginning_of_bytes(data: bytes, most: int) -> bytes:
    """The first `most` bytes, as `beginning`; hides what was learnt, and only of what is cut."""
    return data if len(data) <= most else redact_bytes(data)[:most]


def redact_json(data: bytes) -> bytes:
    """JSON with every secret in its texts hidden, numbers untouched; the same object if none."""
    marks = (b"://", b"earer ", b"EARER ", b"asic ")
    if not (_weak or any(mark in data for mark in marks) or any(_found(data))):
        return data  # what is escaped in JSON is among the forms that are looked for
    changed = _STRING.sub(lambda match: _json_text(match[0]), data)
    return data if changed == data else changed


def hide_in_file(path: Path, *, chunk_bytes: int = 8 * 1024 * 1024) -> int:
    """Overwrite the secrets in a file with stars, in place; sizes and places stay.

    Args:
        path: A server's log. Missing or unwritable, it is left as it is.
        chunk_bytes: Read at a time.

    Returns:
        How many were overwritten; -1 where the file holds one and cannot be written.
    """
    count = 0
    try:
        with path.open("rb") as stream:
            places = list(_places(stream.read, chunk_bytes))
    except OSError:
        return 0
    if not places:
        return 0
    try:
        with path.open("r+b") as stream:
            for start, length in places:
                stream.seek(start)
                stream.write(b"*" * length)
                count += 1
    except OSError:
        return -1
    return count


def _places(read: Callable[[int], bytes], chunk_bytes: int) -> Iterator[tuple[int, int]]:
    """Where secrets stand in a stream, also across the chunks that it is read by."""
    overlap = max([len(form) for form in _needles()] + [len(_OWN_PREFIX) + _OWN_DIGITS])
    kept, offset = b"", 0  # what was read before, and where it begins
    while data := read(chunk_bytes):
        window = kept + data
        for start, end in _spans(window):
            yield offset + start, end - start
        kept = window[-overlap:]
        offset += len(window) - len(kept)


def _needles() -> list[bytes]:
    return [form for forms in _known.values() for form in forms]


def _found(data: bytes) -> Iterator[bool]:
    yield _OWN_PREFIX in data
    for core in _OWN_CORES:
        yield core in data
    for form in _needles():
        yield form in data


def _spans(data: bytes) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    if _OWN_PREFIX in data:
        spans += [match.span() for match in _OWN.finditer(data)]
    for core in _OWN_CORES:
        if core in data:
            spans += [m.span() for m in re.finditer(re.escape(core) + rb"[A-Za-z0-9+/=_-]*", data)]
    for form in _needles():
        start = data.find(form)
        while start >= 0:
            spans.append((start, start + len(form)))
            start = data.find(form, start + 1)
    return spans


def _replaced(data: bytes, by: Callable[[int], bytes]) -> bytes:
    if not any(_found(data)):
        return data
    spans = sorted(_spans(data))
    if not spans:
        return data
    parts: list[bytes] = []
    at, i = 0, 0
    while i < len(spans):
        start, end = spans[i]
        while i + 1 < len(spans) and spans[i + 1][0] <= end:
            i += 1
            end = max(end, spans[i][1])
        parts += [data[at:start], by(end - start)]
        at, i = end, i + 1
    return b"".join([*parts, data[at:]])


def _json_text(literal: bytes) -> bytes:
    import json  # read and written anew, since a secret may look like part of an escape

    try:
        text = json.loads(literal)
    except ValueError:
        return _replaced(literal, lambda _: HIDDEN.encode())
    hidden = redact(text)
    return literal if hidden == text else json.dumps(hidden).encode()


def _clean_url(match: re.Match[str]) -> str:
    url = _USERINFO.sub(lambda m: m["head"] + _who(m), match[0])
    return _QUERY.sub(lambda m: m["name"] + HIDDEN if is_secret_name(m["key"]) else m[0], url)


def _who(match: re.Match[str]) -> str:
    who: str = match["who"]
    if ":" not in who and not match["head"].lower().startswith(("http", "ftp", "ws")):
        return who  # ssh://user@host
    return HIDDEN


def _behind_head(match: re.Match[str]) -> str:
    return match["head"] + HIDDEN


def _looks_random(value: str) -> bool:
    if len(value) < LEAST or value[:1] in "/~." or value[1:3] == ":\\":
        return False
    return (any(c.isdigit() for c in value) and any(c.isalpha() for c in value)) or len(value) >= 24


def _forms(secret: str) -> Iterator[bytes]:
    """The secret as it may be written."""
    raw = secret.encode("utf-8", "surrogateescape")
    yield raw
    for digits in ("%02X", "%02x"):
        yield b"".join(_percent(byte, digits) for byte in raw)
    escaped = _json_escaped(secret)
    for text in (escaped, escaped.replace("/", "\\/")):
        yield text.encode()
        yield _json_escaped(text).encode()
    yield raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    for shown in (repr(secret)[1:-1], repr(raw)[2:-1], repr(bytearray(raw))[12:-2]):
        yield shown.encode("utf-8", "surrogateescape")  # as errors of libraries quote it
        yield _json_escaped(shown).encode()
    for escape in ("\\u%04x", "\\u%04X"):
        yield "".join(escape % ord(char) for char in secret if ord(char) < 0x10000).encode()
    html = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for quotes in (("&#34;", "&#39;"), ("&quot;", "&#x27;")):
        yield html.replace('"', quotes[0]).replace("'", quotes[1]).encode("utf-8", "ignore")
    yield from _cores(raw)


def _percent(byte: int, digits: str) -> bytes:
    char = chr(byte)
    plain = char.isascii() and (char.isalnum() or char in "-._~")
    return char.encode() if plain else b"%" + (digits % byte).encode()


def _json_escaped(text: str) -> str:
    import json  # here, so that a start without secrets does not pay for it

    return json.dumps(text)[1:-1]


def _cores(raw: bytes) -> Iterator[bytes]:
    """What the base64 of anything that contains `raw` contains, for each place it may stand at."""
    for before in range(3):
        text = binascii.b2a_base64(b"\0" * before + raw, newline=False).rstrip(b"=")
        first = (before * 8 + 5) // 6  # characters that depend on what stands before
        last = (before + len(raw)) * 8 // 6  # and those that depend on what follows
        core = text[first:last]
        if len(core) >= LEAST:
            yield core
            yield core.replace(b"+", b"-").replace(b"/", b"_")


_OWN_CORES = tuple(dict.fromkeys(_cores(_OWN_PREFIX)))
