"""What `/props` says, from the builds of 2023 to today; pure, and never raises.

Seen: 10092, 10434 and 11549 (recorded); 2023 has `assistant_name` and no slots; `total_slots` came
in February 2024, `build_info` and `model_path` in 2025, `is_sleeping` with `--sleep-idle-seconds`.
A router (11434) answers with `role: router` and a context of 0, which stands for none.
"""

from __future__ import annotations

from typing import Any

import msgspec

from benchsuite.client.loose import count_of, flag_of, object_of, text_of

SOURCE = "/props"
"""The name of this source in measurements."""

_KNOWN = (
    "default_generation_settings",
    "total_slots",
    "build_info",
    "model_path",
    "chat_template",
    "assistant_name",
    "role",
)


class Props(msgspec.Struct, frozen=True):
    """A server's properties; None for what this build does not tell."""

    build: str | None = None  # `b10434-7e4c0a9`; may be of no use: `b0-unknown`
    total_slots: int | None = None
    n_ctx_slot: int | None = None  # tokens of one slot
    model_path: str | None = None  # on the server's machine
    model_alias: str | None = None
    model_type: str | None = None  # `model_ftype`: `Q4_K - Medium`
    modalities: dict[str, bool] = {}  # `vision`, `audio`, `video`
    is_sleeping: bool | None = None
    slots_enabled: bool | None = None  # `endpoint_slots`
    metrics_enabled: bool | None = None  # `endpoint_metrics`
    is_router: bool = False  # it serves no model itself
    recognised: bool = False  # whether any field is one of llama-server's

    @property
    def model(self) -> str | None:
        """The model's name as the server calls it."""
        return self.model_alias or self.model_path


def parse_props(body: Any) -> Props:
    """The properties in the decoded body of `/props`; of anything else, none."""
    told = object_of(body)
    router = told.get("role") == "router"
    settings = object_of(told.get("default_generation_settings"))
    modalities = object_of(told.get("modalities"))
    return Props(
        build=text_of(told, "build_info"),
        total_slots=count_of(told, "total_slots", least=1),
        n_ctx_slot=count_of(settings, "n_ctx", least=1),
        model_path=None if router else text_of(told, "model_path"),
        # before 2025 only the settings name the model
        model_alias=None if router else text_of(told, "model_alias") or text_of(settings, "model"),
        model_type=text_of(told, "model_ftype"),
        modalities={k: v for k, v in modalities.items() if isinstance(v, bool)},
        is_sleeping=flag_of(told, "is_sleeping"),
        slots_enabled=flag_of(told, "endpoint_slots"),
        metrics_enabled=flag_of(told, "endpoint_metrics"),
        is_router=router,
        recognised=any(name in told for name in _KNOWN),
    )
