"""Texts of an exact number of tokens on any model; pure but for the tokeniser that is handed in.

A text is one letter and then words, each after a space: it has no space at either end that a chat
template could strip, and its first letter is a token of its own nearly everywhere. Its words are
drawn from the seed alone. Two lists of words are tried: the tiny model's own, which are one token
each there, then common English words, which are one token each in most large vocabularies. Where
neither gives the count at once, the number of words is searched for and the rest is filled up
with single letters. What is returned was counted as it stands.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

from benchsuite.errors import UsageError
from benchsuite.model.tiny_words import TINY_WORDS

Tokenise = Callable[[str], Awaitable[list[int]]]
"""Token ids of a text, no special tokens added."""

_LETTERS = "bcdfghjklmnpqrstvwxz"
_BACK_OFF = 3
"""Words given up at the end, one by one, where letters cannot fill what is missing."""

_WORDS_A_TOKEN = 16
"""More words than this in a token, and what counts is no tokeniser."""

_CALLS = 64
"""Counts that one prompt may cost before it is given up; common models need 1 or 2."""

_COMMON = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work government "
    "number night point home water room mother area money story fact month lot right study book "
    "eye job word business issue side kind head house service friend father power hour game line "
    "end member law car city community name president team minute idea body information back "
    "parent face others level office door health person art war history party result change "
    "morning reason research girl guy moment air teacher force education foot boy age policy "
    "music market nation plan college interest death experience effect use class control field "
    "development role effort rate heart drug show leader light voice wife police mind price "
    "report decision son view relationship town road arm difference value building action season "
    "society tax director position player record paper space ground form event official matter "
    "center couple site project activity star table need court oil situation cost industry figure "
    "street image phone data picture practice piece land product doctor wall patient worker news "
    "test movie north love step truth window future south bank series spring west garden east river"
)


class _Stream:
    """The endless text of one seed over one list of words, as long as asked for.

    The letter and the first three words are the seed's own digits, so that of 160 million
    neighbouring seeds no two begin with the same four; the rest is drawn at random.
    """

    def __init__(self, words: Sequence[str], seed: int) -> None:
        self._list = words
        # scattered by a multiplier without common factor, so that neighbours do not look alike
        code = (seed * 7919 + 104729) % (len(words) ** 3 * len(_LETTERS))
        code, letter = divmod(code, len(_LETTERS))
        self._first = _LETTERS[letter]
        self._words: list[str] = []
        for _ in range(3):
            code, index = divmod(code, len(words))
            self._words.append(words[index])
        self._draw = random.Random(f"benchsuite prompt {seed}")

    def text(self, count: int) -> str:
        """The letter and `count` words."""
        missing = count - len(self._words)
        if missing > 0:
            self._words.extend(self._draw.choices(self._list, k=missing))
        return " ".join([self._first, *self._words[:count]])

    def filler(self, count: int) -> str:
        """`count` letters, each after a space."""
        draw = random.Random(self._first)
        return "".join(f" {draw.choice(_LETTERS)}" for _ in range(count))


class _Counter:
    """Counts texts, and stops at the limit."""

    def __init__(self, tokens: int, tokenise: Tokenise, model: str) -> None:
        self._tokens = tokens
        self._tokenise = tokenise
        self._model = model
        self._calls = 0
        self._nearest: int | None = None

    async def count(self, text: str) -> int:
        """Tokens of a text."""
        if self._calls >= _CALLS:
            raise self.failure()
        self._calls += 1
        found = len(await self._tokenise(text))
        if self._nearest is None or abs(found - self._tokens) < abs(self._nearest - self._tokens):
            self._nearest = found
        return found

    def failure(self) -> UsageError:
        """Why there is no such text."""
        return UsageError(
            f"no prompt of exactly {self._tokens} tokens could be made on {self._model}; "
            f"the nearest has {self._nearest}",
            hint="ask for more tokens, or write the prompt out with 'text'",
        )


async def exact_prompt(
    tokens: int, seed: int, tokenise: Tokenise, *, model: str = "this model"
) -> str:
    """A text of exactly so many tokens, the same for the same seed and tokeniser.

    Args:
        tokens: At least 1; special tokens and chat template not counted.
        seed: Which text; texts of other seeds differ within the first four words.
        tokenise: Gives a text's token ids without special tokens.
        model: How an error names the model.

    Raises:
        UsageError: The model has no such text, or none was found.
    """
    if tokens < 1:
        raise UsageError(f"a prompt has at least 1 token, not {tokens}")
    counter = _Counter(tokens, tokenise, model)
    # one token a word: right at once on the tiny model, then on most others
    for words in (TINY_WORDS, tuple(_COMMON.split())):
        stream = _Stream(words, seed)
        text = stream.text(tokens - 1)
        count = await counter.count(text)
        if count == tokens:
            return text
    return await _search(stream, tokens, count, counter)


async def _search(stream: _Stream, tokens: int, count: int, counter: _Counter) -> str:
    """The text with as many words as fit, filled up.

    Args:
        stream: The words.
        tokens: The count wanted.
        count: Tokens of the text with `tokens - 1` words.
        counter: Counts.
    """
    low, low_count = 0, await counter.count(stream.text(0))
    high, high_count = tokens - 1, count
    if low_count > tokens:
        return await _single(tokens, counter)
    while high_count < tokens:  # several words a token
        if high > _WORDS_A_TOKEN * tokens:
            raise counter.failure()
        low, low_count = high, high_count
        high += max(1, min(3 * high, round(high * (tokens / max(1, high_count) - 1)) + 1))
        high_count = await counter.count(stream.text(high))
    if high_count == tokens:
        return stream.text(high)
    # low_count <= tokens < high_count: close in until a few letters fill the rest
    while high - low > 1 and tokens - low_count > 4:
        slope = (high_count - low_count) / (high - low)
        guess = low + int((tokens - low_count) / slope) if slope > 0 else (low + high) // 2
        middle = min(max(guess, low + 1), high - 1)
        found = await counter.count(stream.text(middle))
        if found > tokens:
            high, high_count = middle, found
        else:
            low, low_count = middle, found
    for words in range(low, max(-1, low - _BACK_OFF - 1), -1):
        text = stream.text(words)
        found = low_count if words == low else await counter.count(text)
        filled = await _fill(stream, text, tokens - found, tokens, counter)
        if filled is not None:
            return filled
    raise counter.failure()


async def _fill(
    stream: _Stream, text: str, missing: int, tokens: int, counter: _Counter
) -> str | None:
    """The text with `missing` more tokens at its end, or None where no letters give that."""
    # letters after a space cost one token each, or two on byte-level models; bare ones the rest
    for piece in (stream.filler, lambda n: "x" * n, lambda n: "." * n, lambda n: " 1" * n):
        amount, melted = missing, 0
        while amount > 0 and missing > 0 and melted < 4:
            longer = text + piece(amount)
            found = await counter.count(longer)
            if found > tokens:
                amount //= 2
            else:
                # what melts into the last token may count once there is more of it
                melted += tokens - found == missing
                text, missing = longer, tokens - found
                amount = min(amount, missing)
        if missing <= 0:
            break
    return text if missing == 0 else None


async def _single(tokens: int, counter: _Counter) -> str:
    """The first common word or sign that has the count, for models where a letter is too long."""
    for text in ["a", "e", "i", "o", "s", "t", "n", ".", "1", "the", "\n"]:
        if await counter.count(text) == tokens:
            return text
    raise counter.failure()
