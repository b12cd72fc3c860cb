"""What a scenario file may say: the one declaration behind error messages and the JSON Schema."""

from __future__ import annotations

from benchsuite.scenario.containers import ByForm, Key, ListOf, MapOf, OneKey, Record
from benchsuite.scenario.kinds import (
    Expression,
    FlagSetting,
    Quantity,
    RequestField,
    Text,
    Whole,
    Written,
    YesNo,
)
from benchsuite.scenario.load_shape import MAX_PROMPT_TOKENS, load_record
from benchsuite.scenario.sweep_step import sweep_record

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
NAME_EXPECTED = "letters, digits, '_', '-' and '.', at most 64, beginning with a letter or digit"
_FLAG_PATTERN = r"-{0,2}[A-Za-z][A-Za-z0-9_.-]*"
_FLAG_EXPECTED = "a llama-server flag by its long name, such as ctx-size"

MAX_IDLE_SECONDS = 3600.0

_NAME = Text(pattern=NAME_PATTERN, expected=NAME_EXPECTED)

_PROMPT = Record(
    {
        "tokens": Key(
            Whole(1, MAX_PROMPT_TOKENS),
            "Made to exactly so many tokens on the model at hand, special tokens not counted.",
        ),
        "text": Key(Text(), "The text itself."),
        "seed": Key(Whole(0, 2**31 - 1), "Which text of that length; other seeds differ early."),
    },
    doc="A text: written out, or made to an exact number of tokens.",
    exactly_one=("tokens", "text"),
)
_PROMPT_USE = ByForm("the name of a prompt, or {tokens, seed}, or {text}", _NAME, _PROMPT)

_REQUEST = Record(
    {
        "cache_prompt": Key(YesNo(), "llama-server's own field; left out unless given."),
        "temperature": Key(Quantity("", "0.8", zero=True, at_most=100), "0 is greedy, as without."),
    },
    doc="Fields of the request body beyond prompt and output limit, by llama-server's names.",
    others=RequestField(),
)
_SLOT = Whole(0, 100_000)
_GLOB = Text(
    pattern=r"(?!/)(?!(?:.*/)?\.\.(?:/|$))[^\\\0]{1,200}",
    expected="a glob with forward slashes, inside the folder, such as **/*.cpp",
)
_MAX_TOKENS = Key(Whole(1, MAX_PROMPT_TOKENS), "Output limit in tokens; 16 unless given.")

_MAY_FAIL = Key(
    YesNo(), "Measure an error reply as http_status (200 without one) instead of failing the run."
)
_WARM_UP = Key(
    YesNo(), "Leave its latency out of everything; its counts and its text are measured."
)
_FILE = Text(pattern=NAME_PATTERN, expected=f"a file name without folders: {NAME_EXPECTED}")

_TURN = Record(
    {
        "session": Key(_NAME, "Whose turn it is.", required=True),
        "user": Key(_PROMPT_USE, "The user's message.", required=True),
        "max_tokens": _MAX_TOKENS,
        "may_fail": _MAY_FAIL,
        "warm_up": _WARM_UP,
    },
    doc="The session's next user message and the server's reply, over /v1/chat/completions.",
)
_COMPLETE = Record(
    {
        "id": Key(_NAME, 'Names it in labels: `cached_tokens{request="ID"}`.', required=True),
        "prompt": Key(_PROMPT_USE, "The raw prompt.", required=True),
        "max_tokens": _MAX_TOKENS,
        "slot": Key(_SLOT, "Pinned to this slot."),
        "request": Key(_REQUEST, "Further fields of the request."),
        "may_fail": _MAY_FAIL,
        "warm_up": _WARM_UP,
    },
    doc="One raw prompt over /completion, outside any session.",
)
_LOAD = load_record(_NAME, _PROMPT_USE, _REQUEST, _MAX_TOKENS)
_SWEEP = sweep_record(_NAME, _PROMPT_USE, _REQUEST, _MAX_TOKENS)
_LOGPROBS = Record(
    {
        "id": Key(
            _NAME, 'Names it in labels: `logprob_cosine{against="V",request="ID"}`.', required=True
        ),
        "prompt": Key(_PROMPT_USE, "The raw prompt.", required=True),
        "tokens": Key(Whole(1, 1024), "Positions, one request each; 16 unless given."),
        "top": Key(
            Whole(2, 1_000_000),
            "Likeliest tokens compared, the whole vocabulary where it is smaller; 1024 unless "
            "given.",
        ),
        "at_once": Key(
            Whole(1, 256),
            "Requests under way at the same time, 1 unless given, each with the prompt's tokens in "
            "another order; the reference's own tokens are found one by one.",
        ),
    },
    doc="Log-probabilities along the reference variant's greedy tokens, position by position.",
)
_EMBEDDING = Record(
    {
        "id": Key(
            _NAME,
            'Names it in labels: `embedding_cosine{against="V",request="ID"}`.',
            required=True,
        ),
        "prompt": Key(_PROMPT_USE, "The raw prompt.", required=True),
    },
    doc="The embedding of a raw prompt, over /v1/embeddings.",
)
_REQUEST_STEP = OneKey(
    {"turn": Key(_TURN, _TURN.doc), "complete": Key(_COMPLETE, _COMPLETE.doc)}, "step"
)
_BRANCH = ByForm(
    "a step, or a list of steps",
    mapping=_REQUEST_STEP,
    sequence=ListOf(_REQUEST_STEP, "step", at_least=1),
)

_SLOT_STEP = Record(
    {
        "action": Key(Text(("save", "restore", "erase")), "What is done.", required=True),
        "id": Key(_SLOT, "The slot.", required=True),
        "as": Key(_NAME, 'Names it in labels: `slot_tokens{step="NAME"}`.', required=True),
        "file": Key(_FILE, "Where to save it, or what to restore; erase has none."),
        "may_fail": _MAY_FAIL,
    },
    doc="Save, restore or erase a slot over /slots; launched servers get a folder for it.",
)
_DAMAGE = Record(
    {
        "file": Key(_FILE, "A file that a slot was saved to.", required=True),
        "how": Key(
            Text(("truncate", "garbage", "foreign")),
            "The first half alone; other bytes throughout; other bytes after magic and version.",
            required=True,
        ),
        "to": Key(_FILE, "Write the spoilt file under this name; the file itself unless given."),
    },
    doc="Spoil a saved slot's file.",
)
_SOURCE_MARKERS = Record(
    {
        "as": Key(_NAME, 'Names it in labels: `source_markers{step="NAME"}`.', required=True),
        "pattern": Key(Expression(), "A regular expression, searched in each line.", required=True),
        "files": Key(
            ByForm("a glob or a list of globs", _GLOB, sequence=ListOf(_GLOB, "glob", at_least=1)),
            "Which files: `**/*.cu`; a glob without a slash means that name in any folder.",
            required=True,
        ),
        "folder": Key(_NAME, "Which source folder of the deployment; its only one unless given."),
    },
    doc="Count lines of source code that match a pattern; needs no server.",
)

_STEP = OneKey(
    {
        "turn": Key(_TURN, _TURN.doc),
        "complete": Key(_COMPLETE, _COMPLETE.doc),
        "concurrently": Key(
            ListOf(_BRANCH, "branch", at_least=2),
            "Branches that run at the same time; each is one step, or a list run in order.",
        ),
        "load": Key(_LOAD, _LOAD.doc),
        "sweep": Key(_SWEEP, _SWEEP.doc),
        "idle": Key(
            Quantity("s", "0.5 or 500 ms", at_most=MAX_IDLE_SECONDS),
            "A pause without requests, in seconds unless it has a unit.",
        ),
        "logprobs": Key(_LOGPROBS, _LOGPROBS.doc),
        "embedding": Key(_EMBEDDING, _EMBEDDING.doc),
        "snapshot": Key(_NAME, 'Memory and counters read here, labelled `at="NAME"`.'),
        "slot": Key(_SLOT_STEP, _SLOT_STEP.doc),
        "damage": Key(_DAMAGE, _DAMAGE.doc),
        "restart": Key(
            Record({}, nullable=True), "Stop the server and start it again with the same flags."
        ),
        "source_markers": Key(_SOURCE_MARKERS, _SOURCE_MARKERS.doc),
    },
    "step",
)

_NEED = ByForm(
    "a value, a list, null, or one of {min}, {default}, {exact}",
    scalar=FlagSetting(),
    sequence=FlagSetting(),
    mapping=Record(
        {
            "exact": Key(FlagSetting(), "Exactly this; a deployment that says otherwise cannot."),
            "min": Key(Whole(0), "At least this; a lower deployment is raised to it."),
            "default": Key(FlagSetting(), "Unless the deployment says otherwise."),
            "per": Key(Text(("slot", "total")), "Of min: slot multiplies it by the slots."),
        },
        doc="What is needed of one flag; a bare value means exactly that.",
        exactly_one=("exact", "min", "default"),
    ),
)

_VARIANT = Record(
    {
        "title": Key(Text(), "What this variant is, in a few words."),
        "flags": Key(
            MapOf(FlagSetting(), "flag", _FLAG_PATTERN, _FLAG_EXPECTED),
            "Server flags of this variant; null removes one.",
        ),
        "sessions": Key(
            MapOf(
                Record(
                    {
                        "slot": Key(_SLOT, "Pins the session to this slot."),
                        "request": Key(_REQUEST, "Instead of the session's own."),
                    },
                ),
                "session",
                NAME_PATTERN,
                NAME_EXPECTED,
            ),
            "What this variant changes of sessions.",
        ),
        "require": Key(
            Record(
                {
                    "flag": Key(
                        Text(pattern=_FLAG_PATTERN, expected=_FLAG_EXPECTED),
                        "The build has this flag.",
                    ),
                    "device": Key(Text(), "A device of this kind is used: CPU, CUDA, Vulkan."),
                    "overlay": Key(YesNo(), "The deployment fills this variant in."),
                }
            ),
            "Without these the variant is not applicable, and listed as such.",
        ),
    },
    nullable=True,
)

_SAME_AS = Record(
    {
        "variant": Key(_NAME, "The same measurement of this variant."),
        "session": Key(_NAME, "The same measurement of this session."),
        "request": Key(_NAME, "The same measurement of the 'complete' step with this id."),
    },
    doc="Another place of the same run whose value must be equal.",
)
_REGRESSION = Record(
    {
        "worse_than": Key(Quantity("%", "5%", zero=True), "In percent.", required=True),
        "and_by": Key(Written(), "And by so much, in the metric's unit: 16 MiB."),
    },
    doc="How much worse than the baseline is still accepted; both must be exceeded to be worse.",
)
_GROWTH = Record(
    {
        "since": Key(_NAME, "The snapshot whose value is taken off.", required=True),
        "min": Key(Written(), "At least this, in the metric's unit; may be negative."),
        "max": Key(Written(), "At most this, in the metric's unit; may be negative."),
    },
    doc="The difference from an earlier snapshot of the same launch, within limits.",
)
_WHEN = Record(
    {
        "attention": Key(
            Text(("full", "sliding_window", "recurrent", "hybrid")), "The model's attention."
        ),
        "sliding_window": Key(YesNo(), "Whether the model has a sliding window."),
        "recurrent": Key(YesNo(), "Whether the model has recurrent state."),
        "analytic": Key(YesNo(), "Whether the model file tells what its memory must be."),
        "backend": Key(Text(), "A device by its name in the log, digits left out: CPU, CUDA."),
        "deployment": Key(_NAME, "The deployment's name."),
    },
    doc="Facts under which the gate applies; elsewhere it is not applicable, and listed.",
)
_GATE = Record(
    {
        "metric": Key(
            Text(), 'A selector: `kv_mib`, `cached_tokens{session="A",turn="2"}`.', required=True
        ),
        "equals": Key(
            Written(),
            "`baseline`, `analytic` (what the model file and the flags make of KV memory), or a "
            "value.",
        ),
        "min": Key(Written(), "At least this, in the metric's unit."),
        "max": Key(Written(), "At most this, in the metric's unit."),
        "same_as": Key(_SAME_AS, _SAME_AS.doc),
        "regression": Key(_REGRESSION, _REGRESSION.doc),
        "growth": Key(_GROWTH, _GROWTH.doc),
        "variants": Key(
            ListOf(_NAME, "variant", at_least=1), "Only these; every variant unless given."
        ),
        "when": Key(_WHEN, _WHEN.doc),
        "needs": Key(Text(("launched", "linux")), "Elsewhere the gate is not applicable."),
        "level": Key(Text(("block", "advise")), "Advice is shown and never moves the exit code."),
        "why": Key(Text(), "One sentence for the reader: what breaks where this fails."),
    },
    doc="One rule: exactly one of equals, min and max, same_as, regression, growth.",
)

_KNOWN_ISSUE = Record(
    {
        "variant": Key(_NAME, "The variant that is expected to fail.", required=True),
        "issue": Key(Text(), "By which name a tracker knows it: bug-207.", required=True),
        "expect": Key(
            Text(("crash", "fail")),
            "crash: the server dies, while loading or later; fail: gates fail, the server lives.",
            required=True,
        ),
        "signature": Key(
            Text(),
            "A regular expression searched in the assertion, the log's last lines, or a gate's "
            "reason; a crash needs one.",
        ),
        "gate": Key(Text(), "Only gates with exactly this selector; with expect: fail."),
        "builds": Key(Text(), "Only these builds: b10092..b10434, b10092.., ..b10434, b10434."),
        "commit": Key(
            Text(pattern=r"[0-9a-f]{4,40}", expected="a commit such as 7e4c0a9"),
            "Only builds of this commit, by as many digits as one likes.",
        ),
        "backend": Key(Text(), "Only where this backend is used: CPU, CUDA."),
        "deployment": Key(_NAME, "Only on this deployment."),
        "expires": Key(Text(), "A date, '2027-03-01': from then on `benchsuite ci` refuses it."),
        "reason": Key(Text(), "One sentence for the reader: what is wrong.", required=True),
    },
    doc="A failure that is expected; a pass is then a failure, with the line to delete.",
)

SCENARIO = Record(
    {
        "title": Key(Text(), "What the scenario shows, in one line.", required=True),
        "description": Key(Text(), "What it does and why, in a few sentences."),
        "tags": Key(ListOf(_NAME, "tag"), "`benchsuite run tag:NAME` runs all that carry it."),
        "server": Key(
            MapOf(_NEED, "flag", _FLAG_PATTERN, _FLAG_EXPECTED),
            "What the scenario needs of the server, by llama-server's long flag names.",
        ),
        "prompts": Key(
            MapOf(_PROMPT, "prompt", NAME_PATTERN, NAME_EXPECTED), "Named texts for the steps."
        ),
        "sessions": Key(
            MapOf(
                Record(
                    {
                        "system": Key(_PROMPT_USE, "The system message."),
                        "slot": Key(_SLOT, "Pins the session to this slot."),
                        "request": Key(_REQUEST, "Further fields of its requests."),
                        "secret": Key(
                            Text(),
                            "No reply outside the session may contain this; write it into the "
                            "session's own prompts.",
                        ),
                    },
                    nullable=True,
                ),
                "session",
                NAME_PATTERN,
                NAME_EXPECTED,
            ),
            "Clients, each with one ordered conversation.",
        ),
        "steps": Key(ListOf(_STEP, "step", at_least=1), "What is done, in order.", required=True),
        "variants": Key(
            MapOf(_VARIANT, "variant", NAME_PATTERN, NAME_EXPECTED, at_least=1),
            "Named overlays; each is one launch.",
        ),
        "reference": Key(
            _NAME,
            "The variant with which logprobs and embedding steps compare; runs first; the first "
            "variant unless given.",
        ),
        "gates": Key(ListOf(_GATE, "gate"), "What must hold afterwards."),
        "known_issues": Key(ListOf(_KNOWN_ISSUE, "known issue"), "Failures that are expected."),
    },
    doc="A benchsuite scenario: what is done to a llama-server, and what must hold afterwards.",
)
