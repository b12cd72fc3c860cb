"""Writes scenarios/data, which scenarios/replay.yaml sends: chats in two forms, and a trace.

`python ci/replay_data.py` writes; a test compares. All of it is made up here: the texts are below,
the trace is drawn from fixed seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # before what is installed elsewhere

from benchsuite.model.load import seeded  # noqa: E402
from benchsuite.model.sample import MOONCAKE_BLOCK  # noqa: E402

FOLDER = ROOT / "scenarios" / "data"

_DESK = (
    "You work at the desk of a town library and help whoever asks. Answer in plain words and at "
    "most three sentences, name the shelf or the room where that helps, and say so when you do not "
    "know. The library opens at nine, closes at seven, and is shut on Mondays."
)

# question, answer, question after it, answer to that
_TALKS = (
    (
        "Where are the maps?",
        "Maps are in the basement, room two, in flat drawers by county.",
        "And may I borrow one, or only copy it?",
        "Maps stay in the house, but the copier beside the drawers takes sheets of any size.",
    ),
    (
        "What can I read about bees?",
        "Shelf 638 on the ground floor has nine books on bees.",
        "Which of them is for somebody who has never kept any?",
        "The thin green one at the left; it begins with buying a hive and ends with honey.",
    ),
    (
        "Do you lend board games?",
        "Yes, eleven of them, from the desk on the first floor, for two weeks.",
        "What happens if a piece is missing when I bring it back?",
        "Tell us which; a pawn costs nothing, a whole board its price.",
    ),
    (
        "How do I get a card?",
        "Bring a paper with your name and address; it takes five minutes and costs nothing.",
        "I moved here last week and have no letter with my new address yet.",
        "Then bring the contract of your flat, or come back with the first letter you get.",
    ),
    (
        "Is the reading group still meeting?",
        "It meets every second Thursday at six in the round room.",
        "What are they reading next, and do I have to have finished it?",
        "A novel about a ferry; half of it will do, and nobody asks.",
    ),
    (
        "I am looking for a book with a blue cover.",
        "Do you remember anything of its title, its author or its story?",
        "It was about a lighthouse keeper and his sister, and it rained all the time.",
        "That may be one of two on shelf 820; let us look at both.",
    ),
    (
        "Do you have anything in Portuguese?",
        "Some sixty novels and a few newspapers, on the second floor by the window.",
        "Boa tarde! Pode sugerir um livro de contos curtos?",
        "Claro: há três na prateleira de cima, e o mais fino é o melhor para começar.",
    ),
    (
        "Can you explain interest to me?",
        "Interest is what a lender is paid for waiting, mostly as a share of the sum a year.",
        "So if I borrow one hundred at five percent, what do I owe after two years?",
        "One hundred and ten and a quarter, if the first year's interest bears interest too.",
    ),
)

# question, output limit in tokens; None leaves it to the step
_QUESTIONS = (
    ("Are you open on the second of January?", 8),
    ("Which of your cookery books are good for beginners?", None),
    ("I should like to print twelve pages in colour. What does it cost?", None),
    ("What is the difference between a weir and a dam? I need it for school.", 24),
    ("Where do I find books on growing tomatoes?", None),
    ("I read slowly. Which short novels would you suggest, each below two hundred pages?", None),
    ("May my daughter, who is nine, take books home by herself?", 8),
    ("How do I cite a web page in an essay?", None),
    ("Do you have the local newspaper of 1962?", None),
    ("My card was lost on the train. What should I do?", None),
    ("How long may I keep a film?", 8),
    ("Can I renew a book that somebody else has asked for?", None),
    ("Write me a short notice that the lift is out of order until Friday.", 8),
    ("Is there a quiet room where I can study until the evening?", None),
    ("Could you recommend a detective story that is not too grim?", None),
    ("¿Tienen cuentos para niños de cuatro años? 📚", None),
)

_TRACE_SECONDS = 10.0
_SESSIONS = 16
_SHARED = (3, 4, 6)  # blocks with which all requests to one of three assistants begin
_TURNS = (1, 2, 2, 3, 4)
_OUTPUTS = (64, 128, 128, 256, 384)


def files() -> dict[str, str]:
    """Each file's text by its name."""
    return {
        "library-chats.jsonl": _lines(_chats()),
        "library-talks.json": json.dumps(_talks(), ensure_ascii=False, indent=1) + "\n",
        "library-trace.jsonl": _lines(_trace()),
    }


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _chats() -> list[dict[str, Any]]:
    """Bodies of OpenAI's API: each question alone, and each talk up to its second question."""
    asked: list[tuple[list[str], int | None]] = [([text], limit) for text, limit in _QUESTIONS]
    for number, (first, answer, second, _) in enumerate(_TALKS):
        asked.append(([first], 12 if number % 3 == 0 else None))
        asked.append(([first, answer, second], 4 if number % 3 == 1 else None))
    return [
        {
            "messages": [{"role": "system", "content": _DESK}]
            + [
                {"role": ("user", "assistant")[place % 2], "content": text}
                for place, text in enumerate(texts)
            ]
        }
        | ({} if limit is None else {"max_tokens": limit})
        for texts, limit in asked
    ]


def _talks() -> list[dict[str, Any]]:
    """Elements of ShareGPT's form: whole talks, answers included."""
    return [
        {
            "id": f"talk-{number}",
            "conversations": [
                {"from": ("human", "gpt")[place % 2], "value": text}
                for place, text in enumerate(talk)
            ],
        }
        for number, talk in enumerate(_TALKS, start=1)
    ]


def _trace() -> list[dict[str, Any]]:
    """Lines of Mooncake's form: sessions that begin with what others begin with, and grow."""
    fresh = iter(range(sum(_SHARED), 1 << 20))
    starts = [range(sum(_SHARED[:n]), sum(_SHARED[: n + 1])) for n in range(len(_SHARED))]
    rows: list[dict[str, Any]] = []
    for number in range(_SESSIONS):
        random = seeded(number, "replay data")
        at_ms = round(random.random() * 1000 * _TRACE_SECONDS * 0.7)
        held = list(starts[number % len(starts)])  # whole blocks that the next turn repeats
        tokens = len(held) * MOONCAKE_BLOCK  # of the conversation so far
        for _ in range(_pick(random.random(), _TURNS)):
            tokens += 40 + int(600 * random.random())  # what the user says
            while len(held) < tokens // MOONCAKE_BLOCK:
                held.append(next(fresh))
            part = [next(fresh)] if tokens % MOONCAKE_BLOCK else []
            output = _pick(random.random(), _OUTPUTS)
            rows.append(
                {
                    "timestamp": at_ms,
                    "input_length": tokens,
                    "output_length": output,
                    "hash_ids": held + part,
                }
            )
            tokens += output
            at_ms += 600 + int(1200 * random.random())
    first_ms = min(row["timestamp"] for row in rows)
    rows.sort(key=lambda row: row["timestamp"])
    return [{**row, "timestamp": row["timestamp"] - first_ms} for row in rows]


def _pick(share: float, values: tuple[int, ...]) -> int:
    return values[int(share * len(values))]


def write(texts: Mapping[str, str]) -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    write(files())
