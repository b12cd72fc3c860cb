"""What a `load` step may say: the declaration behind its error messages and JSON Schema."""

from __future__ import annotations

from benchsuite.model.load import MOST_DISTINCT
from benchsuite.model.sample import MOONCAKE_BLOCK, MOST_ROWS, MOST_TEXT
from benchsuite.scenario.containers import ByForm, Key, OneKey, Record
from benchsuite.scenario.kinds import Kind, Quantity, Text, Whole, Written, YesNo

MAX_PROMPT_TOKENS = 1_000_000
MAX_LOAD_REQUESTS = 10_000_000
MAX_WORKERS = 1024
MAX_RATE = 100_000.0
MAX_DURATION_SECONDS = 7 * 86_400.0

_RATE = Quantity("", "200", at_most=MAX_RATE)
DURATION = Quantity("s", "30 or 500 ms", at_most=MAX_DURATION_SECONDS)
"""How long something of a load lasts."""

_ARRIVALS = ByForm(
    "constant, poisson, or one of {bursts, ramp}",
    Text(
        ("constant", "poisson"),
        others=("{bursts: {size: 8, every: 2 s}}", "{ramp: {from: 1, to: 20}}"),
    ),
    OneKey(
        {
            "bursts": Key(
                Record(
                    {
                        "size": Key(Whole(1, MAX_WORKERS), "Users at once.", required=True),
                        "every": Key(DURATION, "From burst to burst.", required=True),
                    },
                    doc="So many users at once, every so often.",
                ),
                "So many users at once, every so often; without 'rate'.",
            ),
            "ramp": Key(
                Record(
                    {
                        "from": Key(_RATE, "Users a second at first.", required=True),
                        "to": Key(_RATE, "Users a second at the end.", required=True),
                    },
                    doc="The rate changes evenly over the step's duration.",
                ),
                "The rate changes evenly over 'duration'; without 'rate'.",
            ),
        },
        "kind of arrivals",
    ),
)

_THINK = ByForm(
    "a time such as 2 s, or one of {uniform, exponential}",
    DURATION,
    OneKey(
        {
            "uniform": Key(
                Record(
                    {
                        "min": Key(Quantity("s", "1", zero=True), "At least.", required=True),
                        "max": Key(DURATION, "At most.", required=True),
                    }
                ),
                "Any time between two.",
            ),
            "exponential": Key(
                Record({"mean": Key(DURATION, "The mean.", required=True)}),
                "Mostly short times, few long ones.",
            ),
        },
        "kind of think time",
    ),
)

_TOKENS = Whole(1, MAX_PROMPT_TOKENS)
_LENGTH = OneKey(
    {
        "uniform": Key(
            Record(
                {
                    "min": Key(_TOKENS, "At least.", required=True),
                    "max": Key(_TOKENS, "At most.", required=True),
                }
            ),
            "Any number of tokens between two, both included.",
        ),
        "log_normal": Key(
            Record(
                {
                    "median": Key(_TOKENS, "Before it is cut at the bounds.", required=True),
                    "sigma": Key(
                        Quantity("", "0.8", at_most=5.0),
                        "Standard deviation of the logarithm: two thirds lie within a factor of "
                        "e^sigma.",
                        required=True,
                    ),
                    "min": Key(_TOKENS, "At least.", required=True),
                    "max": Key(_TOKENS, "At most.", required=True),
                }
            ),
            "As lengths of real texts are: drawn from what lies between the bounds.",
        ),
    },
    "kind of length",
)


_FILE = Text(
    pattern=r"[^\\\0]{1,1000}",
    expected="a path with forward slashes, from the scenario file's folder",
)
_ROWS = Whole(1, MOST_ROWS)
_CHARS = Whole(0, MOST_TEXT)
_SKIP_BAD = Key(
    Whole(0, MOST_ROWS), "So many lines may be unusable, and are left out; none unless given."
)

_DATASET = Record(
    {
        "file": Key(_FILE, "JSON or JSON lines, also in gzip.", required=True),
        "format": Key(
            Text(("messages", "sharegpt")),
            "A line each with `messages`, as OpenAI's API has them, or one array of ShareGPT's "
            "form; messages unless given.",
        ),
        "sample": Key(_ROWS, "So many of its chats, drawn by 'seed'; all unless given."),
        "seed": Key(Whole(0, 2**31 - 1), "Of drawing and order; 0 unless given."),
        "order": Key(Text(("drawn", "file")), "Shuffled by 'seed', or as the file has them."),
        "ask": Key(
            Text(("first", "last")),
            "Send each chat up to its first or last message of the user; the last unless given.",
        ),
        "min_chars": Key(_CHARS, "Chats with less text are left out."),
        "max_chars": Key(_CHARS, "Chats with more text are left out."),
        "skip_bad": _SKIP_BAD,
    },
    doc="Chats of a file, each sent as it stands; every one once unless the step says how long.",
)

_TRACE = Record(
    {
        "file": Key(_FILE, "JSON lines, also in gzip.", required=True),
        "format": Key(
            Text(("mooncake", "prompts")),
            "A line each with `timestamp`, `input_length`, `output_length` and `hash_ids`, or with "
            "`at_s`, `prompt` and `max_tokens`; mooncake unless given.",
        ),
        "speed": Key(
            Quantity("", "2", at_most=1e6), "2 sends twice as fast as it was; 1 unless given."
        ),
        "sample": Key(_ROWS, "Its first so many requests; all unless given."),
        "block": Key(
            Whole(1, MOONCAKE_BLOCK),
            "Tokens of the text made for one hash id: 512 unless given. With fewer, prompts and "
            "outputs are shorter by the same factor.",
        ),
        "skip_bad": _SKIP_BAD,
    },
    doc="Timed requests of a file: an open loop by its arrival times.",
)


def load_record(name: Kind, prompt: Kind, request: Kind, max_tokens: Key) -> Record:
    """The record of a `load` step, of the kinds that all steps share."""
    return Record(
        {
            "as": Key(name, 'Names it in labels: `requests_failed{step="NAME"}`.', required=True),
            "requests": Key(Whole(1, MAX_LOAD_REQUESTS), "Requests in all; or by 'duration'."),
            "duration": Key(
                DURATION,
                "Nothing is sent from then on; what is under way is waited for and counts. With "
                "'requests' too, whichever comes first.",
            ),
            "concurrency": Key(
                Whole(1, MAX_WORKERS), "Users of a closed loop, so many at once; 1 unless given."
            ),
            "users": Key(Whole(1, MAX_WORKERS), "Another word for 'concurrency'."),
            "think": Key(_THINK, "Between an answer and the same user's next request."),
            "rate": Key(_RATE, "Open loop: users a second, whatever the server does."),
            "arrivals": Key(_ARRIVALS, "How they come: constant unless given."),
            "in_flight": Key(
                Whole(1, 100_000),
                "Open loop: at most so many requests at once; the others' waiting is counted.",
            ),
            "turns": Key(
                Whole(1, 1000), "Requests of one user, with growing history; 1 unless given."
            ),
            "api": Key(
                Text(("completion", "completions", "chat", "embedding")),
                "/completion, /v1/completions, /v1/chat/completions (`chat`, and where there are "
                "turns) or /v1/embeddings (of a server started with `embedding: true`).",
            ),
            "prompt": Key(
                prompt, "The prompt; of a made one each request sends the next seed's text."
            ),
            "dataset": Key(_DATASET, "Chats of a file instead of 'prompt'."),
            "trace": Key(
                _TRACE, "Timed requests of a file instead of 'prompt', 'rate' and 'arrivals'."
            ),
            "prompt_tokens": Key(_LENGTH, "Prompts of mixed lengths instead of 'prompt'."),
            "same": Key(YesNo(), "Every request sends the very same prompt."),
            "distinct": Key(
                Whole(1, MOST_DISTINCT),
                "So many different prompts, sent in turn; as many as requests unless given, 256 "
                "where there is a duration.",
            ),
            "prefix": Key(prompt, "Sent before prompts, the same for all; of a chat its system."),
            "prefix_share": Key(
                Quantity("%", "60%", at_most=100.0), "So many of the users have the prefix."
            ),
            "max_tokens": max_tokens,
            "output_tokens": Key(_LENGTH, "Output limits of mixed lengths instead of max_tokens."),
            "request": Key(request, "Further fields of the requests."),
            "timeout": Key(
                DURATION, "A request is given up after so long, counted from its sending."
            ),
            "warm_up": Key(
                Written(),
                "So many first requests, or what is due in so long (5 s), are left out of medians, "
                "rates and slopes; counts have them.",
            ),
            "seed": Key(
                Whole(0, 2**31 - 1), "Of arrivals, think times, lengths and shares; 0 unless given."
            ),
        },
        doc="Many requests, measured as a whole: by users who send once they were answered, or at "
        "a rate that does not wait for the server.",
    )
