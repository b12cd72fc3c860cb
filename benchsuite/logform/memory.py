"""Which memory lines belong to the last load of a server, and what they sum to.

A load prints, in this order: model buffers, then for its context output, KV, recurrent and compute
buffers; then the same for a draft model or a second context. What is read apart or left out:

- memory fitting's probe (`-lv 5`, seen in builds 10068 to 11549) prints all of it with model and
  KV buffers of 0.00 MiB beside a full-size `size =` line: left out;
- a context after `loading draft model`, after the slots were made (early 2025: one a slot), or
  after the compute buffers of the first (multi-token prediction): the draft's, never the target's;
- a reload after sleep begins with `loading model '...'` and new model buffers: the last counts.
"""

from __future__ import annotations

import msgspec

from benchsuite.logform.caches import Cache, sum_caches
from benchsuite.logform.facts import (
    Buffer,
    Context,
    KvBuffer,
    KvSize,
    Load,
    RsBuffer,
    RsSize,
    TableRow,
)
from benchsuite.logform.grammar import (
    Grammar,
    is_torn,
    looks_like_kv,
    looks_like_rs,
    parse_memory,
    parse_size_rest,
)

_MOST = 4096
"""More lines than this are no load of a model; a bound for hostile logs."""
_MOST_UNREADABLE = 20
_DRAFT_ENDS = "the log ends within the load of the draft's context, so its lines may be incomplete"


class _ContextMemory:
    """The memory of one context, line by line."""

    def __init__(self, context: Context) -> None:
        self.context: Context = context
        self.kv: list[Cache] = []
        self.rs: list[Cache] = []
        self.buffers: list[Buffer] = []
        self.label = ""
        self.computed = False  # its compute buffers were printed: it is complete
        self.unreadable: list[str] = []
        self.unreadable_rs: list[str] = []
        self._lines = 0

    @property
    def complete(self) -> bool:
        """Whether every KV and state line of a context that has begun is there.

        Compute buffers follow the last of them. Short of that a size line closes what it sums;
        but where llama.cpp says which cache it creates, there is another.
        """
        if self.computed:
            return True
        last = [caches[-1] for caches in (self.kv, self.rs) if caches]
        return not self.label and all(cache.size is not None for cache in last)

    @property
    def begun(self) -> bool:
        return bool(self.kv or self.rs or self.computed or self.unreadable)

    def take(self, found: Grammar, line: str) -> None:
        value = found.value
        if self._lines >= _MOST:
            if not self.unreadable:
                self.fail(f"more than {_MOST} memory lines in one load: {line.strip()}")
            return
        self._lines += 1
        if found.kind == "cache":
            self._announce(value, line)
        elif found.kind == "kv_buffer":
            value = msgspec.structs.replace(
                value, context=self.context, cache=value.cache or self.label
            )
            self._open(self.kv, value.cache).buffers.append(value)
        elif found.kind == "rs_buffer":
            self._open(self.rs, "").buffers.append(
                msgspec.structs.replace(value, context=self.context)
            )
        elif found.kind in ("kv_size", "self_size"):
            self._close(self.kv, found, line)
        elif found.kind == "rs_size":
            self._close(self.rs, found, line)
        else:
            self._take_buffer(msgspec.structs.replace(value, context=self.context))

    def _announce(self, label: str, line: str) -> None:
        """Another cache is created; the one announced before must have been told by now."""
        if self.label and not any(cache.label == self.label for cache in self.kv):
            self.fail(f"cache '{self.label}' was announced and has no lines before: {line.strip()}")
        self.label = label

    def of_target(self) -> _ContextMemory:
        """The same as the memory of the target context."""
        replace = msgspec.structs.replace
        for cache in [*self.kv, *self.rs]:
            cache.buffers = [replace(b, context="target") for b in cache.buffers]  # type: ignore[assignment]  # each list is of one type
            if cache.size is not None:
                cache.size = replace(cache.size, context="target")
        self.buffers = [replace(b, context="target") for b in self.buffers]
        self.context = "target"
        return self

    def _take_buffer(self, buffer: Buffer) -> None:
        if buffer.kind in ("compute", "vision"):
            # printed anew when the graph is reserved anew
            self.buffers = [
                other
                for other in self.buffers
                if (other.kind, other.device) != (buffer.kind, buffer.device)
            ]
            self._lines -= 1
        self.buffers.append(buffer)
        if buffer.kind == "compute" and (self.kv or self.rs):
            self.computed = True

    def fail(self, why: str) -> None:
        """Note a line that no form takes."""
        if len(self.unreadable) < _MOST_UNREADABLE:
            self.unreadable.append(why)

    def _open(self, caches: list[Cache], label: str) -> Cache:
        if not caches or caches[-1].size is not None or caches[-1].label != label:
            caches.append(Cache(label))
        return caches[-1]

    def _close(self, caches: list[Cache], found: Grammar, line: str) -> None:
        value = found.value
        last = caches[-1] if caches else None
        if last is None or last.size is not None:
            repeated = last is not None and last.size is not None and last.size.mib == value.mib
            if found.kind == "self_size" and repeated:
                return  # ik_llama has printed one self size twice, in two spellings
            last = Cache(self.label)
            caches.append(last)
        value = msgspec.structs.replace(value, context=self.context)
        if isinstance(value, KvSize):
            value = msgspec.structs.replace(value, cache=last.label)
        last.size = value
        last.latent = found.latent
        last.sums_all = found.kind == "self_size"
        last.size_line = line


class MemoryReader:
    """Follows one server process through its loads."""

    def __init__(self) -> None:
        self.probed = False
        self._restart()

    def _restart(self) -> None:
        self._target = _ContextMemory("target")
        self._draft = _ContextMemory("draft")
        self._in_draft = False
        self._in_models = False  # within a run of model buffer lines
        self._in_probe = False
        self._serving = False
        self._drafts_by_slot = False

    @property
    def loaded(self) -> bool:
        """Whether a context or the slots of the present load were printed."""
        return self._serving or self._target.begun

    @property
    def settled(self) -> bool:
        """Whether the target's KV lines are all there: its compute buffers or slots followed."""
        return self._serving or self._target.computed

    def begin_load(self) -> None:
        """`loading model '...'`: what was loaded before is gone."""
        self._restart()

    def begin_draft(self) -> None:
        """A draft model or draft context follows."""
        self._in_draft = True
        self._in_models = self._in_probe = False

    def begin_serving(self) -> None:
        """The slots were made."""
        if self._serving and not self._in_draft and self._draft.begun:
            # a server that was started again, of whose load only these lines are there
            self._target = self._draft.of_target()
            self._draft = _ContextMemory("draft")
        self._serving = True
        self._in_models = self._in_probe = False

    def take(self, text: str) -> bool:
        """Read a line that may be about memory; False if it is not.

        Args:
            text: The message without its prefix.
        """
        found = parse_memory(text)
        if found is None:
            return not self._in_probe and self._take_unknown(text)
        if found.kind == "buffer" and found.value.kind == "model":
            self._take_model(found, text)
            return True
        self._in_models = False
        if "kv self size" in text and self._target.kv:
            self._restart()  # 2023, when no server had a draft: another load
        if self._in_probe:
            if found.kind in ("kv_buffer", "kv_size", "self_size"):
                self.probed = True
            return True
        if self._serving and found.kind == "kv_buffer" and not self._drafts_by_slot:
            # early 2025: a draft context for each slot; the one made at the load was freed
            self._drafts_by_slot = True
            if self._draft.begun:
                self._draft = _ContextMemory("draft")
        self._current(found).take(found, text)
        return True

    def _take_unknown(self, text: str) -> bool:
        """Note a line that no form takes if it claims a size; False if it does not."""
        if looks_like_kv(text, loading=not self._serving):
            self._current().fail(f"no known form: {text.strip()}")
        elif not self._serving and is_torn(text):
            self._current().fail(f"a part of a line: {text.strip()}")
        elif looks_like_rs(text):
            unreadable = self._current().unreadable_rs
            if len(unreadable) < _MOST_UNREADABLE:
                unreadable.append(f"no known form: {text.strip()}")
        else:
            return False
        return True

    def take_size_rest(self, text: str) -> None:
        """A line after a size line that ended at its total: `(4096 cells, ...),` or `K (f16): ...`.

        Seen pasted so in reports (#28296).
        """
        caches = (self._draft if self._in_draft or self._serving else self._target).kv
        if caches and isinstance(caches[-1].size, KvSize):
            caches[-1].size = parse_size_rest(caches[-1].size, text)

    def _take_model(self, found: Grammar, text: str) -> None:
        if not self._in_models:
            self._in_models = True
            self._in_probe = found.value.mib == 0
            self._begin_models()
        elif self._in_probe and found.value.mib > 0:
            self._in_probe = False
            self._begin_models()
        if not self._in_probe:
            (self._draft if self._in_draft else self._target).take(found, text)

    def _begin_models(self) -> None:
        """The first model buffer of a load: contexts that were complete before it are gone."""
        if self._in_probe:
            return
        if self._serving or (self._target.begun and not self._in_draft):
            self._restart()
            self._in_models = True
        elif self._in_draft and self._draft.begun:
            self._draft = _ContextMemory("draft")

    def _current(self, found: Grammar | None = None) -> _ContextMemory:
        """The context that a line belongs to."""
        # the first line of a context since mid 2025 is its output buffer's, which no other repeats
        begins = found is None or found.kind != "buffer" or found.value.kind == "output"
        if self._in_draft or self._serving:
            reserved = not begins and not self._draft.begun
            return self._target if reserved and self._target.begun else self._draft
        if self._target.computed and begins:
            self._in_draft = True
            return self._draft
        return self._target

    def load(
        self,
        exit_table: tuple[TableRow, ...] = (),
        fit_table: tuple[TableRow, ...] = (),
        *,
        partial: bool = False,
    ) -> Load:
        """What the last load's lines say.

        Args:
            exit_table: The memory table printed at the end.
            fit_table: The last memory table that fitting printed.
            partial: More KV lines may come; the total is then unknown.
        """
        target, draft = self._target, self._draft
        settled = self._serving or target.computed
        kv = sum_caches(target.kv, one_load=True, settled=settled)
        draft_kv = sum_caches(draft.kv)
        rs = sum_caches(target.rs)
        caches = [c for c in target.kv + draft.kv if not (c.is_probe or c.is_decoy)]
        recurrent = [c for c in target.rs + draft.rs if not (c.is_probe or c.is_decoy)]
        sizes = tuple(c.size for c in caches if isinstance(c.size, KvSize))
        partial = partial or not (self._serving or target.complete)
        draft_unreadable = draft.unreadable + draft_kv.unreadable
        if draft.begun and not draft.complete:
            draft_unreadable.append(_DRAFT_ENDS)
        return Load(
            kv_buffers=tuple(b for c in caches for b in c.buffers if isinstance(b, KvBuffer)),
            kv_sizes=sizes,
            kv=None if target.unreadable or partial else kv.total,
            kv_unified=_unified([size for size in sizes if size.context == "target"]),
            draft_kv=draft_kv.total if not draft_unreadable else None,
            rs_buffers=tuple(b for c in recurrent for b in c.buffers if isinstance(b, RsBuffer)),
            rs_sizes=tuple(c.size for c in recurrent if isinstance(c.size, RsSize)),
            rs=None if target.unreadable_rs or (partial and not target.computed) else rs.total,
            buffers=tuple(target.buffers + draft.buffers),
            exit_table=exit_table,
            fit_table=fit_table,
            probed=self.probed or kv.probed,
            unreadable=tuple(target.unreadable + kv.unreadable),
            unreadable_draft=tuple(draft_unreadable),
            unreadable_rs=tuple(target.unreadable_rs + rs.unreadable),
            notes=tuple(kv.notes + draft_kv.notes + rs.notes),
        )


def _unified(sizes: list[KvSize]) -> bool | None:
    """From `n/m seqs`: one stream for several sequences is unified (`4/1`, against `2/2`)."""
    for size in sizes:
        if size.seqs is not None and size.seqs > 1 and size.streams is not None:
            return size.streams == 1
    return None
