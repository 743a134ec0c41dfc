"""Size of a model from the files that an engine loaded it from: parameters, those one token uses, bytes. Pure.

A model's folder holds ``model.safetensors``, or an index that names its parts (``model.safetensors.index.json``). Each
part begins with the length of its header (8 bytes, little-endian) and the header: JSON with type, shape and place of
every tensor (https://github.com/huggingface/safetensors, section Format). So what is counted is what is there, whatever
the architecture. ``config.json`` says how many experts a token uses.

- Parameters are not known where tensors are packed (several values in one number: GPTQ, AWQ); scales are none.
- Bytes are those of the files. They are not known for 32-bit weights, which engines convert when they load them.
- A mixture of experts: tensors below ``.experts.N.`` are used by ``num_experts_per_tok`` of N experts, all others by
  every token. Where that is not said, the active parameters are not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, TypeGuard

CONFIG, WHOLE, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PARTS_MAX = 1_024
DIMENSIONS_MAX = 16
"""Of a tensor; models have up to five."""
_NAMED = re.compile(rb'"([^"]*\.safetensors)"')
_PART = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\.safetensors")
_EXPERT = re.compile(r"\.experts\.([0-9]{1,4})\.")
_SCALE = re.compile(r"(scale|scale_inv|scales|zero_point)$")
_FLOATS = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"})
_CONVERTED = frozenset({"F64", "F32"})
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")

_OTHER_ATTENTION = ("sliding_window", "kv_lora_rank", "mamba_d_state", "ssm_cfg", "linear_num_key_heads", "text_config")
_CACHE_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}


@dataclass(frozen=True, slots=True)
class Size:
    """None: not known."""

    parameters: int | None = None
    active_parameters: int | None = None
    weight_bytes: int | None = None


UNKNOWN = Size()


def parts_of(index: bytes) -> list[str]:
    """File names of the parts that an index names, in order; none where it names one outside its folder, or too many.

    They are looked for in its text: parsed, the indices of large models would be hundreds of thousands of objects.
    """
    names = set[bytes]()
    for found in _NAMED.finditer(index):
        names.add(found[1])
        if len(names) > PARTS_MAX or not _PART.fullmatch(found[1]):
            return []
    return sorted(name.decode() for name in names)


def size_of(config: Any, headers: Iterable[Any]) -> Size:
    """The size of a model with these headers, of whatever shape they are; ``UNKNOWN`` where one cannot be read."""
    dense = routed = held = 0
    packed = converted = False
    experts: set[str] = set()
    for header in headers:
        for name, tensor in (header if isinstance(header, dict) else {"": None}).items():
            if name == "__metadata__":
                continue
            found = _tensor(tensor)
            if found is None:
                return UNKNOWN
            dtype, values, size = found
            held += size
            packed |= dtype not in _FLOATS
            converted |= dtype in _CONVERTED
            expert = _EXPERT.search(name)
            experts |= {expert[1]} if expert else set()
            if not _SCALE.search(name):
                routed, dense = (routed + values, dense) if expert else (routed, dense + values)
    if not held:
        return UNKNOWN
    parameters = None if packed else dense + routed
    used = _used(config, len(experts))
    active = None if parameters is None or used is None else dense + (routed * used // max(len(experts), 1))
    return Size(parameters, active, None if converted else held)


def cache_bytes_per_token(config: Any, cache_dtype: str | None) -> int | None:
    """Keys and values of one token in all layers, where every layer keeps all of them once for each KV head; None for
    other attention (windows, latents, states), or for a type that is not known. ``auto`` is that of the model."""
    if not isinstance(config, dict) or any(config.get(name) for name in _OTHER_ATTENTION):
        return None
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and set(map(str, kinds)) - {"full_attention"}:
        return None
    dtype = config.get("dtype") or config.get("torch_dtype") if cache_dtype in (None, "auto") else cache_dtype
    size = _CACHE_BYTES.get(str(dtype))
    heads, hidden = config.get("num_attention_heads"), config.get("hidden_size")
    each = config.get("head_dim") or (hidden // heads if _positive(hidden) and _positive(heads) else None)
    layers, kept = config.get("num_hidden_layers"), config.get("num_key_value_heads") or heads
    if size is None or not _positive(layers) or not _positive(kept) or not _positive(each):
        return None
    return 2 * layers * kept * each * size


def _positive(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value < 2**20


def _used(config: Any, experts: int) -> int | None:
    """Of so many experts, how many a token uses."""
    if not experts:
        return 0 if not _says_experts(config) else None
    found = (config.get(name) for name in _PER_TOKEN) if isinstance(config, dict) else iter(())
    return next((each for each in found if type(each) is int and 0 < each <= experts), None)


def _says_experts(config: Any) -> bool:
    """Whether a config names experts, which then stand in tensors of another form."""
    return isinstance(config, dict) and any(config.get(name) for name in _PER_TOKEN)


def _tensor(tensor: Any) -> tuple[str, int, int] | None:
    """Type, number of values and bytes."""
    if not isinstance(tensor, dict):
        return None
    dtype, shape, place = tensor.get("dtype"), _whole(tensor.get("shape")), _whole(tensor.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or place is None or len(place) != 2:
        return None
    return dtype, prod(shape), max(0, place[1] - place[0])


def _whole(values: Any) -> list[int] | None:
    """Whole numbers, no more than a tensor has dimensions: the product of millions would take minutes."""
    if not isinstance(values, list) or len(values) > DIMENSIONS_MAX:
        return None
    return values if all(type(each) is int and 0 <= each < 2**62 for each in values) else None
