"""Facts of an engine beside its metrics: which documents to fetch, and where each fact is in them. Pure.

Every path is optional: a value that is missing, of another shape or out of bounds is an unknown fact. Nothing else of
a document is kept; some (SGLang's server arguments) hold keys.

Sources, read 2026-11: vLLM ``/version`` and ``/v1/models`` (0.32 reports the type of its weights in development mode
alone, on ``/server_info``, which takes seconds and holds its whole environment: not read); SGLang ``/server_info``
(before 2026: ``/get_server_info``) with its server arguments; TGI ``/info`` (``router/src/lib.rs``, struct Info);
trtllm-serve ``/version`` and the labels of ``trtllm_model_config_info`` and ``trtllm_parallel_config_info``; Triton
``/v2`` (KServe's server metadata); llama.cpp ``/props`` and ``/v1/models`` (``tools/server``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from producers.engines.mappings import BY_KIND, ENGINES, START_TIME
from producers.exposition import Sample

TEXT_CHARS_MAX = 256
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


NUMBERS = frozenset({"context_tokens_max", "tensor_parallel"})
NO_FACTS = Facts()

Path = tuple[str | int, ...]


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
_VLLM_MODELS = MappingProxyType({**_MODELS, "model_version": (("data", 0, "root"),)})
"""``root`` is the repository or folder that weights were loaded from: all that vLLM reports of their version."""
_SGLANG_ARGUMENTS: Mapping[str, tuple[Path, ...]] = MappingProxyType(
    {
        "engine_version": (("version",),),
        "model": (("served_model_name",), ("model_path",)),
        "model_version": (("revision",), ("weight_version",)),
        "precision": (("quantization",), ("dtype",)),
        "context_tokens_max": (("context_length",),),
        "tensor_parallel": (("tp_size",),),
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
                    "model": (("data", 0, "id"),),
                    "precision": (("data", 0, "meta", "ftype"),),
                    "context_tokens_max": (("data", 0, "meta", "n_ctx"),),
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
"""``vllm:cache_config_info`` is none of them: its dtype is that of the cache, not of the weights."""


def facts_of(document: Document, answer: Any) -> Facts:
    """The facts of one parsed JSON answer, of whatever shape it is."""
    found: dict[str, Any] = {}
    for name, paths in document.paths.items():
        found[name] = next((value for path in paths if (value := _fact(name, _at(answer, path))) is not None), None)
    return Facts(**found)


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
        if isinstance(step, int):
            answer = answer[step] if isinstance(answer, list) and len(answer) > step else None
        else:
            answer = answer.get(step) if isinstance(answer, dict) else None
    return answer


def _fact(name: str, value: Any) -> Any:
    if name in NUMBERS:
        return _number(value)
    if not isinstance(value, str):
        return None
    text = value.strip()[:TEXT_CHARS_MAX]
    if text.lower() in SAYS_NOTHING:
        return None
    return precision_of(text) if name == "precision" else text


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= NUMBER_MAX else None


def precision_of(text: str) -> str:
    """The short name of a weight type: ``torch.bfloat16`` is ``bf16``; other names are lower-cased."""
    name = text.lower().removeprefix("torch.")
    return PRECISIONS.get(name, name)


def excerpt(text: str, kind: str) -> str:
    """The lines that begin with a name of the engine's (or a longer one), readable or not, in their order.

    The end of a text that was cut within a line stays cut.
    """
    lines = [line for line in text.split("\n") if line.startswith(_names(kind))]
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def promising(text: str) -> bool:
    """False when no engine known here has such a page, by a look that costs a hundredth of reading it."""
    return any(sign in text for engine in ENGINES for sign in engine.signs)


@cache
def _names(kind: str) -> tuple[str, ...]:
    return (*sorted(BY_KIND[kind].names), START_TIME, *(metric.name for metric in INFO_METRICS))
