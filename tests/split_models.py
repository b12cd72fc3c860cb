"""Split models for tests, written by gguf's own writer."""

from __future__ import annotations

from pathlib import Path

import gguf


def split_model(whole: Path, folder: Path, stem: str, *, parts: int, small_first: bool) -> Path:
    """Write a model again in parts, all in `folder`.

    Args:
        whole: The model in one file.
        folder: Where the parts go.
        stem: The name before `-00001-of-0000N.gguf`.
        parts: How many, at least 2.
        small_first: Whether the first part holds metadata and no tensors.

    Returns:
        The first part.
    """
    reader = gguf.GGUFReader(whole)
    with_tensors = parts - 1 if small_first else parts
    most = -(-len(reader.tensors) // with_tensors)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(
        folder / f"{stem}.gguf", architecture, split_max_tensors=most, small_first_shard=small_first
    )
    for field in reader.fields.values():
        if field.name == "general.architecture" or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        writer.add_tensor(
            tensor.name, tensor.data, raw_shape=tensor.data.shape, raw_dtype=tensor.tensor_type
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    first = folder / f"{stem}-00001-of-{parts:05}.gguf"
    assert first.is_file(), sorted(folder.iterdir())
    return first
