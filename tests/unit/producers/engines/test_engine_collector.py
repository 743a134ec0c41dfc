from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.collector import Collected, Identity
from producers.differences import bounds, within
from producers.engines.collector import (
    FACTS_EVERY_MS,
    KNOCK_EVERY_MS,
    LOST_AFTER,
    SEEK_EVERY_MS,
    EngineCollector,
    addresses,
)
from producers.engines.facts import SIZES
from producers.engines.fetch import FetchError, FetchLimits
from producers.engines.mappings import BY_KIND
from producers.engines.placement import HostPlacement
from producers.engines.processes import ProcessTable
from producers.engines.reading import UnknownEngineError
from producers.engines.target import EngineTarget
from producers.engines.weights import Size
from runtime.counters import Counters
from schemas.codec.build import block_from_rows
from schemas.contract.engines import decode, encode
from schemas.events.event_types import ENGINE_EVENTS, ENGINE_SAMPLES
from tests.virtual_clock import VirtualClock

SCRAPES = Path(__file__).resolve().parents[4] / "tests" / "data" / "engine_scrapes"
TARGET = EngineTarget("e", "http://127.0.0.1:8000")
LABELS = {"host": "h", "cluster": "c", "region": None}
METRICS = "http://127.0.0.1:8000/metrics"
VERSION, MODELS = "http://127.0.0.1:8000/version", "http://127.0.0.1:8000/v1/models"
FACTS = {VERSION: {"version": "0.32.0"}, MODELS: {"data": [{"id": "tiny", "max_model_len": 2_048}]}}


class Engine:
    """What answers at which address: bytes, JSON, or an error's reason."""

    def __init__(self, pages: dict[str, Any]) -> None:
        self.pages = pages
        self.fetched: list[str] = []
        self.keys: set[str | None] = set()

    def __call__(self, url: str, limits: FetchLimits, api_key: str | None = None) -> bytes:
        self.fetched.append(url)
        self.keys.add(api_key)
        page = self.pages.get(url, "status")
        if isinstance(page, str):
            raise FetchError(page, url, page)  # type: ignore[arg-type]
        return page if isinstance(page, bytes) else json.dumps(page).encode()


class Rig:
    """A collector of one engine on a clock that is turned by hand."""

    def __init__(self, pages: dict[str, Any], target: EngineTarget = TARGET, begun_ms: int = 0, **more: Any) -> None:
        self.engine = Engine(pages)
        self.clock = VirtualClock()
        self.clock.advance(begun_ms)
        self.counters = Counters()
        self.registry = HostPlacement("h", clock=self.clock)
        self.collector = EngineCollector(
            target,
            Identity(LABELS, self.registry.placement),
            self.registry,
            1_000,
            fetch=self.engine,
            clock=self.clock,
            counters=self.counters,
            **more,
        )

    def tick(self, after_ms: int = 1_000) -> dict[str, list[dict[str, Any]]]:
        """Rows by topic."""
        self.clock.advance(after_ms)
        return {each.event.topic: list(each.rows) for each in self.collector.collect(self.clock.now_ms())}

    def news(self, after_ms: int = 1_000) -> list[tuple[str, str]]:
        """Kind and message of the events."""
        return [(row["kind"], row["message"]) for row in self.tick(after_ms).get("engine.events", [])]

    def errors(self, field: str) -> float:
        return self.counters.value("sampler_errors", sampler="engine", field=field)


def scrape(name: str = "vllm-0.32.0_cpu_after_1_request.prom") -> bytes:
    return (SCRAPES / name).read_bytes()


def small(model: str = "m", *, start: float = 1.0, tokens: float = 5) -> bytes:
    return (
        f"process_start_time_seconds {start}\n"
        f'vllm:num_requests_running{{model_name="{model}"}} 1\n'
        f'vllm:generation_tokens_total{{model_name="{model}"}} {tokens}\n'
    ).encode()


SAMPLE = {
    "at_ms": 1_000,
    "origin": "measured",
    **LABELS,
    "engine_id": "e",
    "placement_group": "h",
    "model": "tiny",
    "model_version": None,
    "precision": None,
    "engine_kind": "vllm",
    "running": 0,
    "waiting": 0,
    "kv_used_ppm": 0,
}


def test_an_engine_is_registered_and_sampled() -> None:
    """Events first; then a sample a tick, with differences from the second on."""
    rig = Rig({METRICS: scrape(), **FACTS})

    assert (rig.collector.name, rig.collector.period_ms) == ("engine e", 1_000)
    assert rig.tick() == {
        "engine.events": [
            {
                "at_ms": 1_000,
                "origin": "measured",
                **LABELS,
                "engine_id": "e",
                "placement_group": "h",
                "engine_kind": "vllm",
                "model": "tiny",
                "model_version": None,
                "precision": None,
                "engine_version": "0.32.0",
                "context_tokens_max": 2_048,
                "tensor_parallel": None,
                "gpu_uuids": None,
                "load_ms": None,
                **dict.fromkeys(SIZES),
                "kv_cache_tokens": 1_048_576,
                "kind": "registered",
                "message": "vllm 0.32.0 serves tiny",
            }
        ],
        "engine.samples": [SAMPLE],
    }
    rig.engine.pages[METRICS] = scrape("vllm-0.32.0_cpu_after_bench60_aiperf80.prom")
    assert rig.tick() == {
        "engine.samples": [
            SAMPLE
            | {
                "at_ms": 2_000,
                "interval_ms": 1_000,
                "preemptions": 0,
                "prompt_tokens": 18_892,
                "prefix_hit_tokens": 0,
                "generation_tokens": 5_600,
                "finished_requests": 140,
            }
        ]
    }
    rig.collector.close()


def test_rows_name_their_event() -> None:
    """As the agent publishes them."""
    rig = Rig({METRICS: small()})

    assert [type(each) for each in rig.collector.collect(5)] == [Collected, Collected]
    assert [each.event for each in Rig({METRICS: small()}).collector.collect(5)] == [ENGINE_EVENTS, ENGINE_SAMPLES]


# Where to look


def test_the_address_that_answers_is_kept() -> None:
    """Other paths are not fetched again."""
    prometheus = "http://127.0.0.1:8000/prometheus/metrics"
    rig = Rig({METRICS: [{"iter": 1}], prometheus: scrape("written/trtllm-serve-1.prom")})

    assert rig.tick()["engine.samples"][0]["engine_kind"] == "trtllm"
    rig.engine.fetched.clear()
    rig.tick()
    assert rig.engine.fetched == [prometheus]


def test_a_server_that_is_down_is_scraped_once() -> None:
    """At another path it would be down too."""
    rig = Rig({METRICS: "refused"})
    rig.tick()

    assert rig.engine.fetched == [METRICS]


@pytest.mark.parametrize(
    ("target", "urls"),
    [
        (TARGET, ["/metrics", "/prometheus/metrics"]),
        (replace(TARGET, kind="trtllm"), ["/prometheus/metrics", "/metrics"]),
        (replace(TARGET, kind="vllm"), ["/metrics"]),
        (replace(TARGET, url="http://127.0.0.1:8000/my/page"), ["/my/page"]),
        (replace(TARGET, url="http://127.0.0.1:8000/", kind="tgi"), ["/metrics"]),
    ],
)
def test_a_path_in_the_address_is_the_only_one(target: EngineTarget, urls: list[str]) -> None:
    """Else the usual paths of the engine, or of all of them."""
    assert addresses(target) == [f"http://127.0.0.1:8000{url}" for url in urls]


def test_facts_are_fetched_at_the_api() -> None:
    """With its key."""
    target = replace(TARGET, facts_url="http://127.0.0.1:9000/v1", api_key="secret")
    rig = Rig({METRICS: small(), "http://127.0.0.1:9000/version": {"version": "1"}}, target)

    assert target.server == "http://127.0.0.1:9000"
    assert rig.news() == [("registered", "vllm 1 serves m")]
    assert rig.engine.keys == {"secret"}


# Failures


def test_an_engine_that_is_down_is_reported_once_and_counted_every_time() -> None:
    """And reported again when it is back, with what was counted meanwhile."""
    rig = Rig({METRICS: small(tokens=5)})
    rig.tick()
    rig.engine.pages[METRICS] = "refused"
    got = [rig.news() for _ in range(LOST_AFTER + 2)]
    rig.engine.pages[METRICS] = small(tokens=9)
    back = rig.tick()

    assert got == [[], [], [("lost", f"GET {METRICS}: refused")], [], []]
    assert rig.errors("refused") == LOST_AFTER + 2
    assert [(row["kind"], row["message"]) for row in back["engine.events"]] == [("found", "the engine answers again")]
    assert back["engine.samples"][0]["generation_tokens"] == 4
    assert back["engine.samples"][0]["interval_ms"] == 1_000 * (LOST_AFTER + 3)


def test_a_gap_has_a_row_for_each_window() -> None:
    """With everything that a row says of its engine."""
    rig = Rig({METRICS: small(tokens=0)})
    rig.tick(9_000)
    rig.engine.pages[METRICS] = small(tokens=30)
    rows = rig.tick(3_000)["engine.samples"]

    assert [(row["at_ms"], row["interval_ms"], row["generation_tokens"], row.get("running")) for row in rows] == [
        (9_999, 1_000, 10, None),
        (12_000, 2_000, 20, 1),
    ]
    assert [(row["engine_id"], row["model"], row["host"], row["origin"]) for row in rows] == [
        ("e", "m", "h", "measured")
    ] * 2


def test_another_engine_at_the_address_is_found() -> None:
    """Its page has none of the lines that are looked at."""
    rig = Rig({METRICS: small()})
    rig.tick()
    rig.engine.pages[METRICS] = scrape("written/tgi-3.prom")
    rows = rig.tick()

    assert rows["engine.samples"][0]["engine_kind"] == "tgi"
    assert rows["engine.events"][0]["kind"] == "changed"
    assert rows["engine.events"][0]["message"] == "engine_kind vllm -> tgi"


def test_another_engine_is_found_at_another_path() -> None:
    """Where the one before had its page there is none any more, or somebody else's."""
    prometheus = "http://127.0.0.1:8000/prometheus/metrics"
    for gone in ("status", "broken", b"<html>no metrics</html>\n"):
        rig = Rig({METRICS: [{"iter": 1}], prometheus: scrape("written/trtllm-serve-1.prom")})
        rig.tick()
        rig.engine.pages = {METRICS: small(), prometheus: gone}

        assert rig.tick() == {}
        assert [row["engine_kind"] for row in rig.tick()["engine.samples"]] == ["vllm"]


def test_a_page_that_ends_within_a_line_is_not_whole() -> None:
    """What it lacks may have been there."""
    rig = Rig({METRICS: small()[:-1]})
    rig.tick()
    rig.engine.pages[METRICS] = small(tokens=7) + b'vllm:request_success_total{model_name="m"} 900\n'

    assert rig.tick()["engine.samples"][0]["finished_requests"] is None


def test_a_short_silence_is_no_loss() -> None:
    """One scrape that fails is a gap in the samples."""
    rig = Rig({METRICS: small()})
    rig.tick()
    rig.engine.pages[METRICS] = "timeout"
    silence = [rig.tick() for _ in range(LOST_AFTER - 1)]
    rig.engine.pages[METRICS] = small()

    assert silence == [{}] * (LOST_AFTER - 1)
    assert list(rig.tick()) == ["engine.samples"]


def test_an_engine_that_never_answered_is_not_lost() -> None:
    """There is nothing to report of it yet; it is counted."""
    rig = Rig({METRICS: "refused"})

    assert [rig.tick() for _ in range(LOST_AFTER)] == [{}] * LOST_AFTER
    assert rig.errors("refused") == LOST_AFTER


def test_an_unknown_engine_is_raised_with_the_names_it_has() -> None:
    """For the agent to say and to rest."""
    rig = Rig({METRICS: b"ollama_up 1\nollama_requests 2\n"})

    with pytest.raises(UnknownEngineError, match=r"Names seen: ollama_requests, ollama_up$"):
        rig.tick()
    assert rig.errors("unknown engine") == 1


def test_a_known_engine_whose_page_is_strange_for_a_while_is_kept() -> None:
    """A proxy's error page is no new engine."""
    rig = Rig({METRICS: small()})
    rig.tick()
    rig.engine.pages[METRICS] = b"<html>starting</html>\n"

    assert [len(rig.news()) for _ in range(LOST_AFTER)] == [0, 0, 1]
    assert rig.errors("unknown engine") == LOST_AFTER


def test_unreadable_lines_are_counted_and_the_others_taken() -> None:
    """A series that appears after them begins then."""
    more = b'vllm:request_success_total{model_name="m"} 900\n'
    rig = Rig({METRICS: small() + b"vllm:request_success_total{model_name= 900\n"})
    first = rig.tick()
    rig.engine.pages[METRICS] = small(tokens=7) + more
    second = rig.tick()

    assert first["engine.samples"][0]["running"] == 1
    assert rig.errors("line") == 1
    assert second["engine.samples"][0]["finished_requests"] is None
    assert second["engine.samples"][0]["generation_tokens"] == 2


def test_values_out_of_bounds_are_null_and_counted() -> None:
    """By the engine's own text, and by the bounds of the event."""
    page = b"vllm:num_requests_running -1\nvllm:num_requests_waiting NaN\nvllm:kv_cache_usage_perc 1.5\n"
    rig = Rig({METRICS: page})
    row = rig.tick()["engine.samples"][0]

    assert (row["running"], row["waiting"], row["kv_used_ppm"]) == (None, None, None)
    assert [rig.errors(name) for name in ("running", "waiting", "kv_used_ppm")] == [1, 1, 1]


# Engines that are only sought


def test_an_address_that_is_only_sought_is_tried_seldom_and_is_no_error() -> None:
    """Whatever answers there, or nothing."""
    rig = Rig({METRICS: "refused"}, replace(TARGET, sought=True))
    quiet = [rig.tick(), rig.tick()]
    fetched = len(rig.engine.fetched)
    rig.engine.pages[METRICS] = b"somebody_elses 1\nnot even{ this\n"
    quiet += [rig.tick(SEEK_EVERY_MS), rig.tick()]
    rig.engine.pages[METRICS] = small()
    quiet += [rig.tick()]

    assert quiet == [{}] * 5
    assert fetched == 1
    assert rig.counters.render() == Counters().render()
    assert rig.news(SEEK_EVERY_MS) == [("registered", "vllm serves m")]
    assert list(rig.tick()) == ["engine.samples"]


def test_an_engine_that_begins_to_listen_is_found_within_seconds() -> None:
    """A refused connection costs next to nothing, so it is tried again soon."""
    rig = Rig({METRICS: "refused"}, replace(TARGET, sought=True))
    quiet = [rig.tick(), rig.tick(KNOCK_EVERY_MS - 1), rig.tick(1)]
    fetched = len(rig.engine.fetched)
    rig.engine.pages[METRICS] = small()

    assert quiet == [{}] * 3
    assert fetched == 2
    assert rig.news(KNOCK_EVERY_MS) == [("registered", "vllm serves m")]


def test_a_sought_server_that_does_not_hand_over_its_page_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An engine under load may be slow; nobody listening, or a page that is not there, is nothing to report."""
    rig = Rig({METRICS: "refused"}, replace(TARGET, sought=True))

    with caplog.at_level("INFO"):
        for page in ("refused", "status", "timeout", "timeout", "broken"):
            rig.engine.pages[METRICS] = page
            rig.tick(SEEK_EVERY_MS)

    assert [record.why for record in caplog.records] == [f"GET {METRICS}: timeout", f"GET {METRICS}: broken"]  # type: ignore[attr-defined]


def test_a_sought_engine_that_is_lost_gives_its_gpus_back() -> None:
    """A configured one keeps them."""
    for target, workload in ((replace(TARGET, sought=True), "idle"), (replace(TARGET, gpu_uuids=("G",)), "inference")):
        rig = Rig({METRICS: small()}, target)
        rig.registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))
        rig.tick()
        assert rig.registry.placement["G"]["workload"] == "inference"
        rig.registry.saw_processes(ProcessTable(gpus={"G": {}}))
        rig.engine.pages[METRICS] = "refused"
        for _ in range(LOST_AFTER):
            rig.tick()
        assert rig.registry.placement["G"]["workload"] == workload


@pytest.mark.parametrize("page", ["refused", "timeout", b"<html>starting</html>\n"], ids=["down", "slow", "strange"])
def test_a_configured_engine_that_does_not_answer_yet_is_starting(page: Any) -> None:
    """While a process works on its GPUs; from its first answer on it serves."""
    rig = Rig({METRICS: page}, replace(TARGET, gpu_uuids=("G",)))
    rig.registry.saw_processes(ProcessTable(gpus={"G": {1: "vllm"}}))
    before = rig.registry.placement["G"]
    with contextlib.suppress(UnknownEngineError):
        rig.tick()
    starting = rig.registry.placement["G"]
    rig.engine.pages[METRICS] = small()
    rig.tick()

    assert (before["engine_id"], before["workload"]) == (None, None)
    assert (starting["engine_id"], starting["placement_group"], starting["workload"]) == ("e", "e", "startup")
    assert rig.registry.placement["G"]["workload"] == "inference"


# What is known of it


def test_facts_are_fetched_now_and_then_and_after_a_restart() -> None:
    """Not at every tick."""
    rig = Rig({METRICS: small(), **FACTS})
    rig.tick()
    rig.engine.fetched.clear()
    rig.tick(FACTS_EVERY_MS - 1)
    assert rig.engine.fetched == [METRICS]
    rig.tick(1)
    assert rig.engine.fetched == [METRICS, METRICS, VERSION, MODELS]
    rig.engine.fetched.clear()
    rig.engine.pages[METRICS] = small(start=2.0)
    rig.tick()
    assert rig.engine.fetched == [METRICS, VERSION, MODELS]


def test_an_agent_that_starts_again_goes_on_with_the_counters(tmp_path: Path) -> None:
    """Of an engine that ran on, and of one that was restarted meanwhile. Without a folder there are none."""
    counted = list[list[int | None]]()
    for state, start in [(tmp_path, 1.0), (tmp_path, 1.0), (tmp_path, 1_003.5), (None, 1_003.5)]:
        pages = {METRICS: small(start=start, tokens=10 * (len(counted) + 1))}
        rig = Rig(pages, begun_ms=1_000_000 + 2_000 * len(counted), state=state)
        counted.append([row.get("generation_tokens") for row in rig.tick()["engine.samples"]])
        rig.collector.close()

    assert counted == [[None], [10], [30], [None]]
    assert [path.name for path in tmp_path.iterdir()] == ["engine_counters"]


def test_processes_that_answer_in_turn_are_no_engine(caplog: pytest.LogCaptureFixture) -> None:
    """Behind a load balancer: what each counted in its life is no growth of a second. It is lost as one that does not
    answer, and warned of once."""
    rig = Rig({METRICS: small(start=1.0, tokens=3e9)})
    rows = rig.tick(100_000)["engine.samples"]
    events = []
    for start, tokens in [(2.0, 2e9), (1.0, 3e9 + 5), (2.0, 2e9 + 5), (2.0, 2e9 + 9), (1.0, 3e9 + 9)]:
        rig.engine.pages[METRICS] = small(start=start, tokens=tokens)
        told = rig.tick()
        rows += told.get("engine.samples", [])
        events += told.get("engine.events", [])

    assert [row.get("generation_tokens") for row in rows] == [None, None]
    assert [(row["kind"], "load balancer" in row["message"]) for row in events] == [("lost", True)]
    assert [record.getMessage() for record in caplog.records] == ["engine not responding, retrying"]


def test_a_process_that_began_after_the_reading_before_has_counted_since() -> None:
    """It is the engine's next; one that was there before has counted longer than that."""
    rig = Rig({METRICS: small(start=1.0, tokens=7)})
    rig.tick(100_000)
    counted = []
    for start, tokens in [(100.5, 3), (50.0, 9_000), (50.0, 9_004)]:
        rig.engine.pages[METRICS] = small(start=start, tokens=tokens)
        counted += [row.get("generation_tokens") for row in rig.tick()["engine.samples"]]

    assert counted == [3, None, 4]


@pytest.mark.parametrize(
    ("page", "seen"),
    [(b"go_goroutines 7\n", "go_goroutines"), (b"<html>up</html>\n", "none"), (b'[{"iter": 1}]', "none")],
    ids=["an exporter", "a site", "JSON"],
)
def test_a_configured_engine_with_a_page_of_something_else_is_an_error(page: bytes, seen: str) -> None:
    """It is no engine in good health."""
    rig = Rig({METRICS: page}, replace(TARGET, kind="vllm"))

    with pytest.raises(UnknownEngineError, match=f"not of vllm; .* Names seen: {seen}$"):
        rig.tick()
    rig.engine.pages[METRICS] = small()
    assert rig.news()[0][0] == "registered"


@pytest.mark.parametrize("page", [b"", b"# TYPE tgi_request_count counter\n"], ids=["empty", "no samples"])
def test_a_configured_engine_that_has_counted_nothing_yet_is_one(page: bytes) -> None:
    """Some have no metric before."""
    rig = Rig({METRICS: page}, replace(TARGET, kind="tgi"))

    assert [kind for kind, _ in rig.news()] == ["registered"]


def test_an_engine_in_another_container_goes_on() -> None:
    """It counts from 0 as after any restart, is not registered again, and its failures add up."""
    rigs = [Rig({METRICS: small(start=1.0, tokens=7)}, replace(TARGET, sought=True)) for _ in range(2)]
    rigs[0].tick(100_000)
    rigs[0].engine.pages[METRICS] = "refused"
    rigs[0].tick()
    rigs[1].collector.succeed(rigs[0].collector)
    rigs[1].engine.pages[METRICS] = "refused"
    told = [*rigs[1].news(101_000), *rigs[1].news()]
    rigs[1].engine.pages[METRICS] = small(start=101.5, tokens=3)
    rows = rigs[1].tick()

    assert [kind for kind, _ in told] == ["lost"]
    assert rows["engine.events"][0]["kind"] == "found"
    assert [row["generation_tokens"] for row in rows["engine.samples"]] == [3]


def test_another_model_is_a_deployment() -> None:
    """Reported with what it was, in the tick in which it answers."""
    rig = Rig({METRICS: small(), **FACTS})
    rig.tick()
    rig.engine.pages |= {METRICS: small("n", start=2.0), VERSION: {"version": "0.33.0"}}

    assert rig.news() == [("changed", "model m -> n; engine_version 0.32.0 -> 0.33.0")]
    assert rig.news() == []


def test_facts_that_fail_leave_what_was_known() -> None:
    """Softly."""
    rig = Rig({METRICS: small(), **FACTS})
    rig.tick()
    rig.engine.pages |= {VERSION: "timeout", MODELS: b"{not json"}

    assert rig.news(FACTS_EVERY_MS) == []


def test_configuration_says_what_the_engine_does_not() -> None:
    """In samples and events."""
    target = replace(TARGET, model="mine", model_version="r1", precision="fp8", gpu_uuids=("G1", "G0"))
    rig = Rig({METRICS: scrape("llama-server_after_aiperf40.prom")}, target)
    rows = rig.tick()
    sample, event = rows["engine.samples"][0], rows["engine.events"][0]

    assert [sample[name] for name in ("model", "model_version", "precision")] == ["mine", "r1", "fp8"]
    assert (sample["placement_group"], event["placement_group"], event["gpu_uuids"]) == ("e", "e", "G0,G1")


def test_a_model_that_the_engine_names_in_its_facts_only_stands_in_its_samples() -> None:
    """llama.cpp has no labels."""
    page = {"data": [{"id": "tiny.gguf"}]}
    rig = Rig({METRICS: scrape("llama-server_after_aiperf40.prom"), MODELS: page})

    assert rig.tick()["engine.samples"][0]["model"] == "tiny.gguf"


def test_models_of_one_server_are_distinguished() -> None:
    """What is configured for the engine is not said of each of them."""
    target = replace(TARGET, precision="fp8")
    rig = Rig({METRICS: scrape("written/triton-trtllm_two_models.prom")}, target)
    rows = rig.tick()["engine.samples"]

    assert [(row["model"], row["model_version"], row.get("precision")) for row in rows] == [
        ("tensorrt_llm", "1", None),
        ("draft", "3", None),
    ]


def test_gpus_that_are_found_register_the_engine_again() -> None:
    """With its group; samples carry it from then on."""
    rig = Rig({METRICS: small()})
    rig.tick()
    rig.registry.saw_processes(ProcessTable({8000: {1}}, {2: 1}, {"G": {2: "worker"}}))
    rows = rig.tick()

    assert [row["message"] for row in rows["engine.events"]] == ["placement_group h -> e; gpu_uuids is G"]
    assert rows["engine.samples"][0]["placement_group"] == "e"


@pytest.mark.parametrize(
    ("silent_ms", "of_gpu"),
    [pytest.param(40_000, "e", id="soon"), pytest.param(200_000, "h", id="after its GPUs were given back")],
)
def test_an_engine_that_answers_again_keeps_its_group_until_processes_were_looked_at(
    silent_ms: int, of_gpu: str
) -> None:
    """Its host is not its group for these seconds: that would be two changes of none."""
    rig = Rig({METRICS: small(start=1.0)}, replace(TARGET, sought=True))
    rig.tick()
    rig.registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))
    rig.tick()
    rig.engine.pages[METRICS] = "refused"
    for _ in range(LOST_AFTER):
        rig.tick()
    rig.registry.saw_processes(ProcessTable(gpus={"G": {}}))
    rig.engine.pages[METRICS] = small(start=2.0)
    rows = rig.tick(silent_ms)

    assert [(row["kind"], row["placement_group"]) for row in rows["engine.events"]] == [("found", "e")]
    assert {row["placement_group"] for row in rows["engine.samples"]} == {"e"}
    assert rig.registry.placement["G"]["placement_group"] == of_gpu
    rig.registry.saw_processes(ProcessTable({8000: {2}}, {}, {"G": {2: "vllm"}}))
    assert rig.news() == []
    assert rig.registry.of("e") == (("G",), "e")


def test_a_start_that_was_seen_has_its_load_time() -> None:
    """From the start of the process to the first answer, where it was seen not to answer before; of that start only."""
    rig = Rig({METRICS: "refused"})
    rig.tick()
    rig.tick(80_000)
    rig.engine.pages[METRICS] = small(start=1.0)
    first = rig.tick(1_000)["engine.events"]
    rig.engine.pages[METRICS] = small(start=100.0)
    unseen = rig.tick(FACTS_EVERY_MS)
    rig.engine.pages[METRICS] = "refused"
    rig.tick()
    rig.engine.pages[METRICS] = small(start=142.5)
    seen = rig.tick()["engine.events"]

    assert [row["load_ms"] for row in first] == [81_000]
    assert "engine.events" not in unseen
    assert [(row["load_ms"], row["message"]) for row in seen] == [(1_500, "load_ms is 1500")]


def test_sizes_come_from_the_cache_and_from_files_of_this_host() -> None:
    """Read once a process; of another host's engine nothing is read."""
    looked: list[Any] = []
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32}

    def read_folder(path: str | None, pid: int | None) -> tuple[Any, Size]:
        looked.append((path, pid))
        return config | {"torch_dtype": "bfloat16"}, Size(1_000, 900, 2_000)

    info = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="10",cache_dtype="auto"} 1\n'
    models = {MODELS: {"data": [{"id": "m", "root": "/models/m"}]}}
    rig = Rig({METRICS: small() + info, **models}, replace(TARGET, pid=7), read_folder=read_folder)
    (row,) = rig.tick()["engine.events"]
    rig.tick(FACTS_EVERY_MS)
    far = {url.replace("127.0.0.1", "far"): page for url, page in ({METRICS: small(), **models}).items()}
    Rig(far, replace(TARGET, url="http://far:8000"), read_folder=read_folder).tick()

    assert {name: row[name] for name in SIZES} == {
        "parameters": 1_000,
        "active_parameters": 900,
        "weight_bytes": 2_000,
        "kv_cache_bytes": 160 * 2 * 2 * 2 * 8 * 2,
        "kv_cache_tokens": 160,
    }
    assert looked == [("/models/m", 7), (None, None)]


def test_sizes_that_cannot_be_are_unknown() -> None:
    """A folder says what it likes: no event holds a number beyond its field's bounds."""
    config = dict.fromkeys(("num_hidden_layers", "num_key_value_heads", "head_dim"), 2**20 - 1)

    def read_folder(path: str | None, pid: int | None) -> tuple[Any, Size]:
        return config | {"torch_dtype": "bfloat16"}, Size(2**70, 2**64, 2**992)

    info = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="10",cache_dtype="auto"} 1\n'
    models = {MODELS: {"data": [{"id": "m", "root": "/models/m"}]}}
    (row,) = Rig({METRICS: small() + info, **models}, read_folder=read_folder).tick()["engine.events"]

    assert {name: row[name] for name in SIZES} == dict.fromkeys(SIZES) | {"kv_cache_tokens": 160}


def test_gpus_have_what_their_engine_may_take() -> None:
    """From its first answer, again after a restart with another flag; not where it is not reported, nor beside an
    engine that does not report it."""

    def page(share: str, start: float) -> bytes:
        return small(start=start) + f'vllm:cache_config_info{{gpu_memory_utilization="{share}"}} 1\n'.encode()

    rig, seen = Rig({METRICS: page("0.9", 1.0)}, replace(TARGET, gpu_uuids=("G",))), list[int | None]()
    rig.registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))
    for share, start in (("0.9", 1.0), ("0.5", 2.0), ("None", 3.0), ("0.8", 4.0)):
        rig.engine.pages[METRICS] = page(share, start)
        rig.tick()
        seen.append(rig.registry.reserved_ppm("G"))
    rig.registry.saw_engine(replace(TARGET, engine_id="other", gpu_uuids=("G",)))
    seen.append(rig.registry.reserved_ppm("G"))
    rig.registry.saw_reservation("other", 100_000)

    assert seen == [900_000, 500_000, None, 800_000, None]
    assert (rig.registry.reserved_ppm("G"), rig.registry.reserved_ppm("H")) == (900_000, None)


def test_every_kind_can_be_configured() -> None:
    """Before it has answered."""
    for kind in BY_KIND:
        rig = Rig(
            {METRICS: b"python_info 1\n", "http://127.0.0.1:8000/prometheus/metrics": b""}, replace(TARGET, kind=kind)
        )
        assert rig.news() == [("registered", f"{kind} serves a model it does not name")]


# Bad input


@st.composite
def broken_pages(draw: st.DrawFn) -> bytes:
    """A small page that is cut, or has bytes replaced."""
    page = bytearray(small(tokens=draw(st.sampled_from([0, 5, 7e18, 1e300]))))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(page) - 1), st.integers(0, 255)), max_size=4)):
        page[at] = byte
    return bytes(page[: draw(st.integers(0, len(page)))])


@settings(max_examples=60)
@given(st.lists(broken_pages() | st.binary(max_size=64), min_size=1, max_size=4))
def test_no_page_breaks_the_collector_or_makes_a_wrong_number(pages: list[bytes]) -> None:
    """Whatever comes after a good one: rows within the event's bounds, or none."""
    rig = Rig({METRICS: small(), **FACTS})
    rig.tick()
    for page in pages:
        rig.engine.pages[METRICS] = page
        rows = rig.tick().get("engine.samples", [])
        assert [within(bounds(ENGINE_SAMPLES), row)[1] for row in rows] == [[]] * len(rows)
        block_from_rows(ENGINE_SAMPLES.fields, rows)


@pytest.mark.parametrize("start", [1e306, 1e20, -1e20])
def test_a_start_that_no_clock_shows_is_unknown(start: float) -> None:
    """The other engines of the host are read on, and edges learn of this one."""
    rig = Rig({METRICS: small(start=start)})
    rig.tick()
    rig.registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))

    assert rig.tick()["engine.samples"] != []
    (known,) = rig.registry.engines.directory.engines
    assert known.started_ms is None
    assert decode(encode(known)) == known


def test_edges_learn_which_engine_answers_where() -> None:
    """Its addresses, facts, start and whether it has served, once processes were looked at; that it is silent, too."""
    rig = Rig({METRICS: scrape(), **FACTS})
    rig.tick()
    assert rig.registry.engines.directory.engines == ()
    assert rig.registry.awaited
    rig.registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))
    rig.tick()
    known = rig.registry.engines.directory.at("127.0.0.1:8000")

    assert known is not None
    assert (known.engine_id, known.host, known.model, known.engine_version) == ("e", "h", "tiny", "0.32.0")
    assert (known.placement_group, known.gpu_uuids) == ("e", ("G",))
    assert (known.started_ms, known.warm_ms, known.responding) == (1_795_229_531_210, 2_000, True)
    rig.engine.pages[METRICS] = "refused"
    rig.tick()
    assert rig.registry.engines.directory.at("127.0.0.1:8000") == replace(known, responding=False)


def test_edges_learn_of_a_new_start_before_its_processes_were_looked_at() -> None:
    """Its first requests are cold, and come as soon as it answers; the group is that of before until then."""
    rig = Rig({METRICS: small(start=1.0)}, replace(TARGET, sought=True))
    rig.tick()
    rig.registry.saw_processes(ProcessTable({8000: {1}}, {}, {"G": {1: "vllm"}}))
    rig.tick()
    (before,) = rig.registry.engines.directory.engines
    rig.engine.pages[METRICS] = "refused"
    for _ in range(LOST_AFTER):
        rig.tick()
    rig.engine.pages[METRICS] = small(start=2.0, tokens=0)
    rig.tick(60_000)
    (known,) = rig.registry.engines.directory.engines

    assert not rig.registry.is_matched("e")
    assert (before.started_ms, before.warm_ms) == (1_000, 2_000)
    assert known == replace(before, started_ms=2_000, warm_ms=None)
    rig.engine.pages[METRICS] = small(start=2.0, tokens=5)
    rig.tick()
    (served,) = rig.registry.engines.directory.engines
    assert served.warm_ms == rig.clock.now_ms()
