from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.engines.mappings import BY_KIND, ENGINES, LLAMACPP, SGLANG, TGI, TRITON, VLLM, EngineKind
from producers.engines.reading import (
    FAMILIES_SHOWN_MAX,
    MODELS_MAX,
    Reading,
    UnknownEngineError,
    confirm,
    detect,
    read,
    whole_number,
)
from schemas.events.event_types import ENGINE_SAMPLES
from schemas.fields import Role


@dataclass(frozen=True)
class Line:
    name: str
    value: float
    labels: dict[str, str] = field(default_factory=dict)


def values(reading: Reading) -> dict[tuple[str | None, str | None], dict[str, list[int | None]]]:
    """Without the names of series."""
    return {
        identity: {name: list(series.values()) for name, series in each.items()}
        for identity, each in reading.fields.items()
    }


# Tables


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.kind)
def test_every_field_is_a_number_of_the_event(engine: EngineKind) -> None:
    """A mapping cannot name a field that is not there, nor one twice."""
    numbers = {field.name for field in ENGINE_SAMPLES.of(Role.GAUGE, Role.DIFFERENCE)} - {"interval_ms"}
    names = [mapping.name for mapping in engine.fields]

    assert set(names) <= numbers
    assert len(names) == len(set(names))


def test_signs_of_engines_do_not_overlap() -> None:
    """A name is one engine's."""
    signs = [sign for engine in ENGINES for sign in engine.signs]

    assert len(signs) == len(set(signs))
    assert all(engine.anchor is None or engine.anchor in engine.signs for engine in ENGINES)


# Detection


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.kind)
def test_an_engine_is_found_by_any_one_of_its_signs(engine: EngineKind) -> None:
    """Other names beside it do not matter."""
    for sign in engine.signs:
        assert detect(["python_info", sign, "process_start_time_seconds"]) is engine


def test_an_unknown_engine_is_an_error_that_names_what_was_seen() -> None:
    """With the first names in order and the number of the others."""
    names = [f"ollama_{at:02}" for at in range(FAMILIES_SHOWN_MAX + 2)]

    with pytest.raises(UnknownEngineError) as caught:
        read([Line(name, 1) for name in reversed(names)])

    assert caught.value.families == tuple(names)
    assert str(caught.value) == (
        "the metrics are of no engine known here; set the engine's kind, or another url. Names seen: "
        + ", ".join(names[:FAMILIES_SHOWN_MAX])
        + " and 2 more"
    )


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.kind)
def test_a_page_of_something_else_is_not_of_a_configured_engine(engine: EngineKind) -> None:
    """Of one whose metrics come one by one as they are counted, the first is enough; its client's own say nothing."""
    for name in engine.signs | engine.names:
        confirm(engine, ["process_start_time_seconds", name])
    confirm(engine, ["python_info", "process_start_time_seconds"])
    with pytest.raises(UnknownEngineError, match=f"not of {engine.kind}; .* Names seen: go_info"):
        confirm(engine, ["go_info", "process_start_time_seconds"])


@pytest.mark.parametrize("engine", [None, VLLM], ids=["found", "set"])
def test_a_router_that_repeats_engines_is_none(engine: EngineKind | None) -> None:
    """Its page has the names of vLLM, by server; an engine's own has its model."""
    lines = [Line("vllm:num_requests_running", 3, {"server": f"http://10.0.0.{at}:8000"}) for at in range(2)]

    with pytest.raises(UnknownEngineError, match="of a router"):
        read(lines, engine)
    assert read([Line("vllm:num_requests_running", 3, {"server": "a", "model_name": "m"})], engine).kind == "vllm"
    assert read([Line("vllm:num_requests_running", 3)], engine).kind == "vllm"


def test_a_page_without_metrics_is_unknown_too() -> None:
    """JSON, for example, has no names."""
    with pytest.raises(UnknownEngineError, match=r"Names seen: none$"):
        read([])


def test_metrics_of_two_engines_at_once_are_not_guessed_at() -> None:
    """Behind one address; a configured kind decides."""
    lines = [Line("vllm:num_requests_running", 1), Line("sglang:num_running_reqs", 2)]

    with pytest.raises(UnknownEngineError, match="of vllm and sglang at once"):
        read(lines)
    assert values(read(lines, SGLANG)) == {(None, None): {"running": [2]}}


def test_a_configured_engine_may_have_nothing_to_report_yet() -> None:
    """TGI shows a family once it was counted."""
    assert read([], TGI) == Reading("tgi", None, {}, {})


# Fields


def test_the_newest_name_is_taken_and_never_added_to_the_old_one() -> None:
    """vLLM 0.9 and 0.10 report both."""
    old, new = "vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"

    assert values(read([Line(old, 0.5), Line(new, 0.25)], VLLM)) == {(None, None): {"kv_used_ppm": [250_000]}}
    assert values(read([Line(old, 0.5)], VLLM)) == {(None, None): {"kv_used_ppm": [500_000]}}


def test_created_series_and_unmapped_names_are_passed_over() -> None:
    """A creation time is no count."""
    lines = [Line("vllm:prompt_tokens_total", 7), Line("vllm:prompt_tokens_created", 1.79e9), Line("up", 1)]

    assert values(read(lines, VLLM)) == {(None, None): {"prompt_tokens": [7]}}


def test_ranks_tell_the_same_once_each() -> None:
    """Tensor-parallel ranks are one series, with the highest value; data-parallel ranks are series of their own."""
    lines = [
        Line("sglang:num_running_reqs", 4, {"tp_rank": "0", "dp_rank": "0"}),
        Line("sglang:num_running_reqs", 5, {"tp_rank": "1", "dp_rank": "0"}),
        Line("sglang:num_running_reqs", 3, {"tp_rank": "0", "dp_rank": "1"}),
    ]

    assert values(read(lines)) == {(None, None): {"running": [5, 3]}}


def test_a_label_that_must_be_empty_may_be_missing() -> None:
    """SGLang without priority scheduling has no such label."""
    lines = [
        Line("sglang:num_queue_reqs", 3, {"priority": ""}),
        Line("sglang:num_queue_reqs", 1, {"priority": "1"}),
        Line("sglang:num_running_reqs", 2, {}),
    ]

    assert values(read(lines)) == {(None, None): {"running": [2], "waiting": [3]}}


def test_a_whole_field_needs_all_of_its_sources() -> None:
    """llama.cpp before it reported cached tokens: its prompt tokens are not ours."""
    computed, cached = Line("llamacpp:prompt_tokens_total", 4_208), Line("llamacpp:prompt_tokens_cached_total", 88)

    assert values(read([computed, cached], LLAMACPP)) == {
        (None, None): {"prompt_tokens": [4_208, 88], "prefix_hit_tokens": [88]}
    }
    assert values(read([computed], LLAMACPP)) == {}


def test_requests_that_tgi_refused_did_not_finish() -> None:
    """Only failures of requests that had begun count."""
    lines = [Line("tgi_request_success", 10)]
    lines += [Line("tgi_request_failure", 1, {"err": err}) for err in ("overloaded", "validation", "dropped")]

    assert values(read(lines, TGI)) == {(None, None): {"finished_requests": [10, 1]}}


def test_requests_that_triton_refused_did_not_finish() -> None:
    """They had not begun. Older releases say no reason."""
    about = {"model": "m", "version": "1"}
    lines = [
        Line("nv_trt_llm_request_metrics", 0, {**about, "request_type": "scheduled"}),
        Line("nv_inference_request_success", 10, about),
    ]
    failed = [Line("nv_inference_request_failure", 2, {**about, "reason": why}) for why in ("REJECTED", "BACKEND")]
    plain = Line("nv_inference_request_failure", 3, about)

    assert values(read([*lines, *failed]))["m", "1"]["finished_requests"] == [10, 2]
    assert values(read([*lines, plain]))["m", "1"]["finished_requests"] == [10, 3]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1.0, 1e19])
def test_what_is_no_number_of_this_kind_is_unknown_and_counted(value: float) -> None:
    """Beside good values of the same field."""
    lines = [
        Line("vllm:num_preemptions_total", value, {"engine": "0"}),
        Line("vllm:num_preemptions_total", 3, {"engine": "1"}),
        Line("vllm:prompt_tokens_total", 9),
    ]
    reading = read(lines, VLLM)

    assert values(reading) == {(None, None): {"preemptions": [None, 3], "prompt_tokens": [9]}}
    assert reading.wrong == {"preemptions": 1}


def test_one_unreadable_rank_makes_its_series_unknown() -> None:
    """Whichever comes first."""
    lines = [
        Line("sglang:num_queue_reqs", value, {"tp_rank": str(at)}) for at, value in enumerate([1, float("nan"), 2])
    ]

    assert values(read(lines)) == {(None, None): {"waiting": [None]}}


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([1, 1_000_000]))
def test_a_whole_number_is_near_the_value_or_unknown(value: float, scale: int) -> None:
    """Never negative, never beyond 63 bits."""
    number = whole_number(value, scale)

    if number is None:
        assert not 0 <= value * scale < 2**63 - 2**10
    else:
        assert 0 <= number < 2**63
        assert abs(number - value * scale) <= 0.5


# Models


def test_several_models_are_several_rows() -> None:
    """By the label of the engine; an ensemble's steps, which are no engines, are none."""
    lines = [
        Line("nv_trt_llm_request_metrics", 2, {"model": "a", "version": "1", "request_type": "scheduled"}),
        Line("nv_trt_llm_request_metrics", 3, {"model": "b", "version": "2", "request_type": "scheduled"}),
        Line("nv_inference_request_success", 10, {"model": "a", "version": "1"}),
        Line("nv_inference_request_success", 10, {"model": "ensemble", "version": "1"}),
    ]

    assert values(read(lines)) == {
        ("a", "1"): {"running": [2], "finished_requests": [10]},
        ("b", "2"): {"running": [3]},
    }


def test_models_beyond_the_bound_have_no_row() -> None:
    """A page that names a hundred thousand is no reason to make as many rows a second."""
    names = [f"m-{at}" for at in range(MODELS_MAX + 2)]
    lines = [Line("vllm:num_requests_running", 1, {"model_name": name}) for name in names]
    lines += [Line("vllm:num_requests_waiting", 2, {"model_name": name}) for name in (names[0], names[-1])]
    reading = read(lines)

    assert [model for model, _ in reading.fields] == names[:MODELS_MAX]
    assert values(reading)[names[0], None] == {"running": [1], "waiting": [2]}
    assert reading.wrong == {"model": 3}


def test_what_names_no_model_goes_to_the_only_one() -> None:
    """Among several it goes to none, and is counted."""
    one = [Line("vllm:num_requests_running", 1, {"model_name": "a"}), Line("vllm:num_requests_waiting", 2)]
    two = [*one, Line("vllm:num_requests_running", 4, {"model_name": "b"})]

    assert values(read(one)) == {("a", None): {"running": [1], "waiting": [2]}}
    assert values(read(two)) == {("a", None): {"running": [1]}, ("b", None): {"running": [4]}}
    assert (read(one).wrong, read(two).wrong) == ({}, {"model": 1})


def test_an_empty_label_names_no_model() -> None:
    """The same as a label that is missing."""
    line = Line("nv_trt_llm_request_metrics", 2, {"model": "", "request_type": "waiting"})

    assert values(read([line], TRITON)) == {(None, None): {"waiting": [2]}}


# Start time


@pytest.mark.parametrize(
    ("values", "started_at_s"),
    [
        ([], None),
        ([1.5], 1.5),
        ([float("nan")], None),
        ([1e306], None),
        ([99_999_999_999_999_999_999], None),
        ([-1.0], None),
        ([1.5, 2.5], None),
    ],
    ids=["missing", "one", "no number", "no time", "no whole time", "before 1970", "of several processes"],
)
def test_the_start_time_is_known_when_one_process_tells_it(values: list[float], started_at_s: float | None) -> None:
    """Several processes behind one address are not one."""
    lines = [Line("process_start_time_seconds", value) for value in values]

    assert read(lines, BY_KIND["vllm"]).started_at_s == started_at_s
