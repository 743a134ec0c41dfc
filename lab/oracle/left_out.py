"""What faces show and random ranges do not compare, with the reason; tests hold that nothing else is left out."""

from __future__ import annotations

from collections.abc import Mapping

_NOW = "of now, not of a range"
_PIPELINE, _ALERTS = "of the pipeline, not of what it carries", "of alerts, which rules make"
_AS_THEY_ARE, _READINGS = "single rows, as they are", "of readings in tests"
_NAMES = "names, no numbers"

RECIPES: Mapping[str, str] = {
    **dict.fromkeys(
        ("Which GPUs run hot right now, and for whom?", "Who has gone silent, and who was silent for a while?"), _NOW
    ),
    **dict.fromkeys(
        (
            "What has changed against the stretch before?",
            "How do the last 24 hours compare with the same hours a week ago?",
            "How do I get a row for every minute, also for quiet ones?",
        ),
        "of two stretches before now, or of minutes up to now",
    ),
    **dict.fromkeys(
        (
            "What is open now?",
            "How often does each rule fire, and for how long?",
            "Which requests does an alert name as evidence?",
        ),
        _ALERTS,
    ),
    **dict.fromkeys(
        (
            "Is everything accounted for?",
            "What was rejected, why, and what did it look like?",
            "How far behind is the data?",
            "Do rollups wait to be computed?",
            "How many events came late, and by how much?",
            "Why does a count without FINAL come out too high?",
            "Which bills were revised, and what did they say before?",
            "Which final minutes got rows after their bill?",
        ),
        _PIPELINE,
    ),
    "What share of requests was good, by service class?": "its objectives are its own; tests judge by them",
    "Who made the tail longer, or shorter?": "of a view that is compared itself: who_changed",
    "Whom did each GPU fault hit?": "fault_impact, by the answers of `fleetpulse ask`",
    "What happened to GPUs, and what is to be done about it?": _AS_THEY_ARE,
    "Which single requests were the slowest, with their trace?": "exemplars: of each window those that were kept",
    "What would a hosted model have charged?": "prices of its own",
}
"""Recipes of the cookbook."""
QUESTIONS: Mapping[str, str] = {
    **dict.fromkeys(("percentiles_by_model", "errors_by_kind", "gpu_summary"), "by its name: `fleetpulse query`"),
    **dict.fromkeys(("cost_by", "cost_goodput_windows"), "as the report has it"),
    **dict.fromkeys(("open_alerts", "alert_history"), _ALERTS),
    **dict.fromkeys(("dashboard/deployments", "actions"), _AS_THEY_ARE),
    **dict.fromkeys(("dashboard/pipeline_freshness", "dashboard/pipeline_topics"), _PIPELINE),
    **dict.fromkeys(
        ("requests_of_gpu_fault", "requests_lost"), "of faults in their time, which begin and end outside of ranges"
    ),
    "cost_power_cap": "of whole minutes of usage, a table of its own",
    "starved_gpus": _READINGS,
    "dashboard/engines": "of the newest readings, whatever the range",
    **dict.fromkeys(("gpu_links", "host_summary", "engine_processes", "dashboard/training"), _READINGS),
}
"""Queries behind questions of ``fleetpulse ask``. Each is beside single rows in tests/integration/test_answers.py."""
PAGES: Mapping[str, str] = {
    **dict.fromkeys(("alert_transitions", "alerts_history", "alerts_open", "alerts_over_time"), _ALERTS),
    **dict.fromkeys(
        (
            "actions",
            "cost_prices",
            "deployments",
            "engine_changes",
            "gpu_faults",
            "gpu_identity",
            "request",
            "requests",
        ),
        _AS_THEY_ARE,
    ),
    **dict.fromkeys(
        (
            *("pipeline_clocks", "pipeline_freshness", "pipeline_over_time", "pipeline_overflow", "pipeline_producers"),
            *("pipeline_rejected", "pipeline_rejected_bytes", "pipeline_rejected_rows", "pipeline_topics"),
        ),
        _PIPELINE,
    ),
    **dict.fromkeys(
        (
            *("engine_gpus", "engine_gpus_over_time", "engine_memory", "engine_over_time", "engines_over_time"),
            *("host_devices", "host_links", "process_load", "processes", "threads_over_time", "request_engine"),
            *("request_gpus", "training", "training_over_time", "training_ranks", "custom", "custom_over_time"),
        ),
        _READINGS,
    ),
    **dict.fromkeys(("names", "values_of_gpus", "values_of_requests"), _NAMES),
    "cost_by_day": "as the report has it",
    "data_ends": "of all data, to the minute",
    "goodput_of_requests": "for where windows have no verdicts, by objectives of its own",
    "joins": "of what lacks a join: beside single rows in tests/integration/test_joins.py",
    "latency_baseline": "of the weeks before: beside single rows in tests",
    "latency_by_concurrency": "of windows as wide as its rows, and of every so many alone",
    "latency_rise": "of two stretches; what of it is of a range stands in who_slowed_model",
    "request_cost": "of one request",
    "request_cost_of_alert": "of one alert",
    "slowest_of_windows": "exemplars: of each window those that were kept",
}
"""Queries of pages. Those of readings are beside single rows in tests/integration: ``test_page_readings.py``,
``test_dashboard_queries.py``, ``test_host_queries.py``, ``test_machine_queries.py``, ``test_dashboard_rows.py``."""
VIEWS: Mapping[str, str] = {
    "alert_history": _ALERTS,
    **dict.fromkeys(
        ("billed", "billed_parts", "billed_lines", "billed_owners", "billed_owner_parts", "billed_owner_lines"),
        "what queries of money read: these are compared",
    ),
    "cost_late": _PIPELINE,
    "fault_impact": "of faults in their time, which begin and end outside of ranges",
    "fleet_now": _NOW,
    "gpu_event_windows": _AS_THEY_ARE,
    **dict.fromkeys(("custom_windows", "process_windows", "training_windows"), _READINGS),
}
"""Views, without the level that may end their name."""
