"""Facts of an engine beside its metrics: which documents to fetch, and where each fact is in them. Pure.

Every path is optional: a value that is missing, of another shape or out of bounds is an unknown fact. Nothing else of
a document is kept; some (SGLang's server arguments) hold keys.

Sources, read 2026-11: vLLM ``/version`` and ``/v1/models`` (0.32 reports the type of its weights in development mode
alone, on ``/server_info``, which takes seconds and holds its whole environment: not read); SGLang ``/server_info``
(before 2026: ``/get_server_info``) with its server arguments; TGI ``/info`` (``router/src/lib.rs``, struct Info);
its ``internal_states`` have the memory of weights and cache (``managers/scheduler.py``, get_internal_state);
trtllm-serve ``/version`` and the labels of ``trtllm_model_config_info`` and ``trtllm_parallel_config_info``; Triton
``/v2`` (KServe's server metadata); llama.cpp ``/props`` and ``/v1/models`` (``tools/server``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import groupby, takewhile
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from producers.engines.mappings import BY_KIND, ENGINES, START_TIME
from producers.exposition import Sample
from schemas.events.event_types import ENGINE_EVENTS

TEXT_CHARS_MAX = 256
_COUNTS = ("context_tokens_max", "tensor_parallel")
NUMBER_MAX = 2**31 - 1
SAYS_NOTHING = frozenset({"", "auto", "none", "null", "default", "unknown"})

PRECISIONS: Mapping[str, str] = MappingProxyType(
    {
        **{"float16": "fp16", "half": "fp16", "f16": "fp16", "bfloat16": "bf16"},
        **{"float32": "fp32", "float": "fp32", "f32": "fp32", "all f32": "fp32"},
        **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "fp8_e4m3", "fp8_e5m2", "w8a8_fp8", "fbgemm_fp8"), "fp8"),
        **dict.fromkeys(("w8a8_int8", "q8_0"), "int8"),
        **dict.fromkeys(("w4a16", "awq", "awq_marlin", "q4_0", "q4_1", "q4_k - medium", "q4_k - small"), "int4"),
    }
)
"""One spelling for a weight type: torch's names (``torch.`` in front is cut off), quantisation methods of SGLang and
vLLM that have one width (AWQ is 4 bits; GPTQ has several and keeps its name), and llama.cpp's ``ftype``
(``llama_model_ftype_name`` in ``src/llama-model-loader.cpp``)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """None: unknown."""

    model: str | None = None
    model_version: str | None = None
    precision: str | None = None
    engine_version: str | None = None
    context_tokens_max: int | None = None
    tensor_parallel: int | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    weight_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    folder: str | None = None
    """Where it says that its weights are; for looking there, and in no event."""


SIZES = ("parameters", "active_parameters", "weight_bytes", "kv_cache_bytes", "kv_cache_tokens")
NUMBERS: Mapping[str, int] = MappingProxyType(
    {name: ENGINE_EVENTS.field(name).high or 0 for name in SIZES} | dict.fromkeys(_COUNTS, NUMBER_MAX)
)
"""The highest of each."""
NO_FACTS = Facts()

Path = tuple[str | int | None, ...]
"""Keys, and places in lists; None is the only item of a list that has one."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document of the engine: for each fact the paths where it may be, best first."""

    url_path: str
    paths: Mapping[str, tuple[Path, ...]]


@dataclass(frozen=True, slots=True)
class InfoMetric:
    """A metric whose labels are facts: fact by label, best first."""

    name: str
    labels: Mapping[str, tuple[str, ...]]


_MODELS: Mapping[str, tuple[Path, ...]] = MappingProxyType(
    {"model": (("data", 0, "id"),), "context_tokens_max": (("data", 0, "max_model_len"),)}
)
_VLLM_MODELS = MappingProxyType({**_MODELS, "model_version": (("data", 0, "root"),), "folder": (("data", 0, "root"),)})
"""``root`` is the repository or folder that weights were loaded from: all that vLLM reports of their version."""
_SGLANG_ARGUMENTS: Mapping[str, tuple[Path, ...]] = MappingProxyType(
    {
        "engine_version": (("version",),),
        "model": (("served_model_name",), ("model_path",)),
        "model_version": (("revision",), ("weight_version",)),
        "precision": (("quantization",), ("dtype",)),
        "context_tokens_max": (("context_length",),),
        "tensor_parallel": (("tp_size",),),
        "folder": (("model_path",),),
    }
)

DOCUMENTS: Mapping[str, tuple[Document, ...]] = MappingProxyType(
    {
        "vllm": (Document("/version", {"engine_version": (("version",),)}), Document("/v1/models", _VLLM_MODELS)),
        "sglang": (
            Document("/server_info", _SGLANG_ARGUMENTS),
            Document("/get_server_info", _SGLANG_ARGUMENTS),
            Document("/v1/models", _MODELS),
        ),
        "tgi": (
            Document(
                "/info",
                {
                    "engine_version": (("version",),),
                    "model": (("model_id",),),
                    "model_version": (("model_sha",),),
                    "precision": (("model_dtype",),),
                    "context_tokens_max": (("max_total_tokens",),),
                    "folder": (("model_id",),),
                },
            ),
        ),
        "trtllm": (Document("/version", {"engine_version": (("version",),)}), Document("/v1/models", _MODELS)),
        "triton": (Document("/v2", {"engine_version": (("version",),)}),),
        "llamacpp": (
            Document(
                "/props",
                {
                    "engine_version": (("build_info",),),
                    "context_tokens_max": (("default_generation_settings", "n_ctx"), ("n_ctx",)),
                },
            ),
            Document(
                "/v1/models",
                {
                    "model": (("data", None, "id"),),
                    "precision": (("data", None, "meta", "ftype"),),
                    "context_tokens_max": (("data", None, "meta", "n_ctx"),),
                    "parameters": (("data", None, "meta", "n_params"),),
                    "weight_bytes": (("data", None, "meta", "size"),),
                },
            ),
        ),
    }
)

INFO_METRICS: tuple[InfoMetric, ...] = (
    InfoMetric(
        "trtllm_model_config_info", {"precision": ("quantization", "dtype"), "context_tokens_max": ("max_model_len",)}
    ),
    InfoMetric("trtllm_parallel_config_info", {"tensor_parallel": ("tensor_parallel_size",)}),
)
"""``vllm:cache_config_info`` is none of them: its dtype is that of the cache, not of the weights
(``cache_of_samples``)."""


def facts_of(document: Document, answer: Any) -> Facts:
    """The facts of one parsed JSON answer, of whatever shape it is."""
    found: dict[str, Any] = {}
    for name, paths in document.paths.items():
        found[name] = next((value for path in paths if (value := _fact(name, _at(answer, path))) is not None), None)
    return first_known(Facts(**found), _memory_of_sglang(answer))


def _memory_of_sglang(answer: Any) -> Facts:
    """``internal_states`` of its server arguments, one for each data-parallel copy: tokens of the cache, and GiB of one
    GPU, which are those of an engine of several where every GPU has a part of the one copy."""
    states = answer.get("internal_states") if isinstance(answer, dict) else None
    used = [_at(state, ("memory_usage",)) for state in states] if isinstance(states, list) else []
    tokens = [_number("kv_cache_tokens", _at(each, ("token_capacity",))) for each in used]
    whole = len(used) == 1 and answer.get("pp_size") in (None, 1)
    gpus = _number("tensor_parallel", answer.get("tp_size")) if whole else None
    return Facts(
        weight_bytes=_gib(_at(used[0], ("weight",)), gpus) if whole else None,
        kv_cache_bytes=_gib(_at(used[0], ("kvcache",)), gpus) if whole else None,
        kv_cache_tokens=_sum(tokens),
    )


def _gib(value: Any, gpus: int | None) -> int | None:
    if gpus is None or isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 2**14:
        return None
    return round(value * gpus * 2**30)


def facts_of_sizes(**sizes: int | None) -> Facts:
    """Of these, by their names in ``SIZES``; one that is above the highest that it can be is unknown."""
    return Facts(**{name: _fact(name, size) for name, size in sizes.items()})


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def cache_of_samples(samples: Iterable[Sample]) -> tuple[int | None, str | None]:
    """Tokens that the KV cache has room for, all data-parallel copies of the model together, and the type of its values
    as the engine names it.

    vLLM: labels of ``vllm:cache_config_info`` of each copy, the tokens themselves (0.32) or blocks x their size.
    Triton: two gauges.
    """
    tokens: list[int | None] = []
    dtypes, blocks = set[str](), dict[str, int | None]()
    for sample in samples:
        if sample.name == "vllm:cache_config_info":
            said, number, size = (_number("kv_cache_tokens", sample.labels.get(name)) for name in _VLLM_CACHE)
            tokens.append(said or _product(number, size))
            dtypes.add(sample.labels.get("cache_dtype", ""))
        elif sample.name == "nv_trt_llm_kv_cache_block_metrics":
            kind = sample.labels.get("kv_cache_block_type", "")
            blocks[kind] = None if kind in blocks else _number("kv_cache_tokens", _whole_of(sample.value))
    if blocks:
        tokens.append(_product(blocks.get("max"), blocks.get("tokens_per")))
    total = _sum(tokens)
    dtype = next(iter(dtypes)) if len(dtypes) == 1 else None
    return (total if total is not None and total <= NUMBERS["kv_cache_tokens"] else None), dtype or None


def reserved_of_samples(samples: Iterable[Sample]) -> int | None:
    """The share of each of its GPUs' memory that the engine may take (ppm): vLLM's ``gpu_memory_utilization``, of every
    data-parallel copy the same. None where it does not report one, or sizes its cache by ``kv_cache_memory_bytes``,
    which that does not bound."""
    shares = set[int | None]()
    for sample in samples:
        if sample.name == "vllm:cache_config_info":
            by_bytes = sample.labels.get("kv_cache_memory_bytes", "None") != "None"
            shares.add(None if by_bytes else _share_ppm(sample.labels.get("gpu_memory_utilization")))
    return shares.pop() if len(shares) == 1 else None


def _share_ppm(text: str | None) -> int | None:
    try:
        share = float(text or "")
    except ValueError:
        return None
    return round(share * 1_000_000) if 0 < share <= 1 else None


_VLLM_CACHE = ("kv_cache_size_tokens", "num_gpu_blocks", "block_size")


def _product(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one * other


def _whole_of(value: float) -> int | None:
    return int(value) if float(value).is_integer() else None  # infinities and NaN are none


def facts_of_samples(samples: Iterable[Sample]) -> Facts:
    """The facts in labels of info metrics."""
    by_name = {metric.name: metric for metric in INFO_METRICS}
    facts = NO_FACTS
    for sample in samples:
        metric = by_name.get(sample.name)
        if metric is not None:
            found = {
                name: next((v for label in labels if (v := _fact(name, sample.labels.get(label))) is not None), None)
                for name, labels in metric.labels.items()
            }
            facts = first_known(facts, Facts(**found))
    return facts


def first_known(*several: Facts) -> Facts:
    """Each fact from the first that has it."""
    known = NO_FACTS
    for facts in several:
        missing = {each.name: getattr(facts, each.name) for each in fields(Facts) if getattr(known, each.name) is None}
        known = replace(known, **missing)
    return known


def _at(answer: Any, path: Path) -> Any:
    for step in path:
        if step is None:
            answer = answer[0] if isinstance(answer, list) and len(answer) == 1 else None
        elif isinstance(step, int):
            answer = answer[step] if isinstance(answer, list) and len(answer) > step else None
        else:
            answer = answer.get(step) if isinstance(answer, dict) else None
    return answer


def _fact(name: str, value: Any) -> Any:
    if name in NUMBERS:
        return _number(name, value)
    if not isinstance(value, str):
        return None
    text = value.strip()[:TEXT_CHARS_MAX]
    if text.lower() in SAYS_NOTHING:
        return None
    return precision_of(text) if name == "precision" else text


def _number(name: str, value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= NUMBERS[name] else None


def precision_of(text: str) -> str:
    """The short name of a weight type: ``torch.bfloat16`` is ``bf16``; other names are lower-cased."""
    name = text.lower().removeprefix("torch.")
    return PRECISIONS.get(name, name)


def excerpt(text: str, kind: str) -> str:
    """The lines that begin with a name of the engine's (or a longer one), readable or not, in their order.

    The end of a text that was cut within a line stays cut.
    """
    lines: list[str] = _lines(kind).findall("\n" + text)
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def promising(text: str) -> bool:
    """False when no engine known here has such a page, by a look that costs a hundredth of reading it."""
    return any(sign in text for engine in ENGINES for sign in engine.signs)


@cache
def _lines(kind: str) -> re.Pattern[str]:
    """One search through the page, in a sixth of the time that a look at every line takes: names that begin alike are
    one branch of it, so that most lines are passed over by their first letters."""
    info = (*(metric.name for metric in INFO_METRICS), "vllm:cache_config_info")
    names = sorted({*BY_KIND[kind].names, START_TIME, *info})
    alike = [list(each) for _, each in groupby(names, key=itemgetter(0))]
    begins = [_common_begin(each[0], each[-1]) for each in alike]
    branches = [
        re.escape(begin) + f"(?:{'|'.join(re.escape(name.removeprefix(begin)) for name in each)})"
        for begin, each in zip(begins, alike, strict=True)
    ]
    return re.compile(rf"\n((?:{'|'.join(branches)})[^\n]*)")


def _common_begin(one: str, other: str) -> str:
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in alike)
