"""The size of a model from its files, without reading more than their headers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.engines.model_files import HEADER_BYTES_MAX, read_folder
from producers.engines.weights import (
    DIMENSIONS_MAX,
    INDEX,
    PARTS_MAX,
    UNKNOWN,
    WHOLE,
    Size,
    cache_bytes_per_token,
    parts_of,
    size_of,
)

WIDTHS = {"F32": 4, "BF16": 2, "F8_E4M3": 1, "I32": 4}


def tensor(*shape: int, dtype: str = "BF16", at: int = 0) -> dict[str, Any]:
    size = WIDTHS[dtype]
    for each in shape:
        size *= each
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}


def file_of(header: dict[str, Any]) -> bytes:
    """A safetensors file without its data."""
    text = orjson.dumps(header)
    return len(text).to_bytes(8, "little") + text


DENSE = {"__metadata__": {"format": "pt"}, "model.embed_tokens.weight": tensor(100, 8), "model.norm.weight": tensor(8)}
EXPERTS = {f"model.layers.0.mlp.experts.{number}.up_proj.weight": tensor(4, 8) for number in range(8)}


def test_a_dense_model() -> None:
    """All of it works on every token."""
    assert size_of({}, [DENSE]) == Size(808, 808, 1_616)


def test_a_mixture_of_experts() -> None:
    """So many of the experts as the config says, and all the rest; over parts."""
    assert size_of({"num_experts_per_tok": 2}, [DENSE, EXPERTS]) == Size(808 + 256, 808 + 64, 2 * 1_064)
    assert size_of({}, [DENSE, EXPERTS]) == Size(1_064, None, 2 * 1_064)
    assert size_of({"num_experts_per_tok": 2}, [DENSE]) == Size(808, None, 1_616)


def test_scales_are_no_parameters() -> None:
    """They are memory all the same."""
    eight_bit = {"a.weight": tensor(8, 8, dtype="F8_E4M3"), "a.weight_scale_inv": tensor(1, 1)}

    assert size_of({}, [eight_bit]) == Size(64, 64, 66)


def test_packed_and_converted_weights() -> None:
    """Several values in one number are not counted; 32 bits become fewer in the engine."""
    assert size_of({}, [{"a.qweight": tensor(8, 8, dtype="I32")}]) == Size(None, None, 256)
    assert size_of({}, [{"a.weight": tensor(8, 8, dtype="F32")}]) == Size(64, 64, None)


def test_tensors_of_too_many_dimensions_are_not_multiplied() -> None:
    """The product of a million numbers of 62 bits would hold up the whole agent."""
    assert size_of({}, [{"a.weight": tensor(*[1] * DIMENSIONS_MAX)}]) == Size(1, 1, 2)
    assert size_of({}, [{"a.weight": tensor(*[1] * (DIMENSIONS_MAX + 1))}]) == UNKNOWN


def test_the_parts_of_an_index() -> None:
    """Of any number of tensors, each once; none where it names too many, or one that is elsewhere."""

    def index(*names: str) -> bytes:
        tensors = {f"model.layers.{number}.weight": name for number, name in enumerate(names)}
        return json.dumps({"metadata": {"total_size": 1}, "weight_map": tensors}, indent=2).encode()

    many = [f"model-{number:05}.safetensors" for number in range(PARTS_MAX)]

    assert parts_of(index(*many, *many)) == many
    assert parts_of(index(*many, "one-more.safetensors")) == []
    assert parts_of(index("a.safetensors", "/etc/a.safetensors")) == []
    assert parts_of(index("a.safetensors", "../a.safetensors")) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "dtype", "shape"]), inner),
    max_leaves=8,
)


@given(JSON, st.lists(JSON, max_size=3))
def test_no_document_raises(config: Any, headers: list[Any]) -> None:
    """Whatever a folder holds."""
    assert size_of(config, headers) == UNKNOWN
    assert cache_bytes_per_token(config, "auto") is None
    assert parts_of(json.dumps(config).encode()) == []


LLAMA = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4_096,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("changes", "dtype", "size"),
    [
        pytest.param({}, "auto", 131_072, id="Llama 3.1 8B"),
        pytest.param({}, "fp8_e4m3", 65_536, id="in half the bytes"),
        pytest.param({"head_dim": 256}, "auto", 262_144, id="with a head size of its own"),
        pytest.param({"layer_types": ["full_attention"] * 2}, "auto", 131_072, id="all layers alike"),
        pytest.param({"layer_types": ["full_attention", "linear_attention"]}, "auto", None, id="hybrid"),
        pytest.param({"sliding_window": 4_096}, "auto", None, id="a window"),
        pytest.param({"kv_lora_rank": 512}, "auto", None, id="latent attention"),
        pytest.param({"torch_dtype": "float32"}, "auto", None, id="converted"),
        pytest.param({"num_hidden_layers": None}, "auto", None, id="no layers"),
    ],
)
def test_bytes_of_a_token_in_the_cache(changes: dict[str, Any], dtype: str, size: int | None) -> None:
    """Two times layers, KV heads and head size; unknown where attention is of another kind."""
    assert cache_bytes_per_token(LLAMA | changes, dtype) == size


def test_a_folder_is_read(tmp_path: Path) -> None:
    """One file, or the parts that an index names."""
    (tmp_path / "config.json").write_bytes(orjson.dumps(LLAMA))
    assert read_folder(str(tmp_path)) == (LLAMA, UNKNOWN)
    (tmp_path / "a-1.safetensors").write_bytes(file_of(DENSE))
    (tmp_path / "a-2.safetensors").write_bytes(file_of({"b.weight": tensor(2)}))
    (tmp_path / INDEX).write_bytes(
        orjson.dumps({"weight_map": {"a": "a-1.safetensors", "b": "a-2.safetensors", "c": "a-2.safetensors"}})
    )
    assert read_folder(str(tmp_path)) == (LLAMA, Size(810, 810, 1_620))
    (tmp_path / WHOLE).write_bytes(file_of(DENSE))
    assert read_folder(str(tmp_path)) == (LLAMA, Size(808, 808, 1_616))
    assert read_folder(str(tmp_path), os.getpid()) == (LLAMA, Size(808, 808, 1_616))


def test_a_large_model_is_read_and_a_larger_header_is_not(tmp_path: Path) -> None:
    """An index of eight million bytes, as one of 90,000 tensors is."""
    tensors = {f"{number:060}.weight": f"a-{number % 2}.safetensors" for number in range(90_000)}
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / INDEX).write_bytes(orjson.dumps({"weight_map": tensors}))
    for number in (0, 1):
        (tmp_path / f"a-{number}.safetensors").write_bytes(file_of(DENSE))
    assert read_folder(str(tmp_path)) == ({}, Size(1_616, 1_616, 3_232))
    (tmp_path / "a-1.safetensors").write_bytes(file_of(DENSE | {"__metadata__": "x" * HEADER_BYTES_MAX}))
    assert read_folder(str(tmp_path)) == ({}, UNKNOWN)


@pytest.mark.parametrize("path", [None, "", "meta-llama/Llama-3.1-8B", "/nowhere", "/tmp/../etc", "/a\0b"])
def test_what_is_no_folder_here_is_not_read(path: str | None) -> None:
    """A repository's name, or a path that leads elsewhere."""
    assert read_folder(path) == (None, UNKNOWN)


def test_files_that_are_none_are_not_read(tmp_path: Path) -> None:
    """A pipe does not hold it up, parts outside the folder are not opened, headers have a limit."""
    (tmp_path / "config.json").write_bytes(b"{}")
    os.mkfifo(tmp_path / WHOLE)
    assert read_folder(str(tmp_path)) == ({}, UNKNOWN)
    (tmp_path / WHOLE).unlink()
    (tmp_path / INDEX).write_bytes(orjson.dumps({"weight_map": {"a": "../../etc/a.safetensors"}}))
    assert read_folder(str(tmp_path)) == ({}, UNKNOWN)
    (tmp_path / WHOLE).write_bytes((2**40).to_bytes(8, "little") + b"{}")
    assert read_folder(str(tmp_path)) == ({}, UNKNOWN)
