"""Commands hand over what people ask for, as they ask for it, and end with the code that the result deserves.

Covers fleetpulse.commands.backtest, fleetpulse.commands.dashboard, fleetpulse.commands.deliver,
fleetpulse.commands.edge, fleetpulse.commands.reconcile, fleetpulse.commands.repair, fleetpulse.commands.services,
fleetpulse.commands.top and fleetpulse.dashboard.serve.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from fleetpulse.cli import app
from fleetpulse.dashboard.serve import Binding
from fleetpulse.reconcile.compare import Difference, Report, TopicBooks
from fleetpulse.repair.run import Filled, Repaired
from schemas.errors import ConfigError
from schemas.limits import HOUR_MS
from stream_jobs.rules.load import load_set


class Recording:
    """In a function's place: what it was called with; returns ``answer``."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.called: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, *given: Any, **named: Any) -> object:
        self.called.append((given, named))
        return self.answer


def run(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words))
    return found.exit_code, found.output


HANDED_OVER = {
    "a job": (
        "fleetpulse.services.jobs_and_sink.run_job",
        ("jobs", "finals", "--shell", "bare", "--name", "w-1", "--health-port", "9"),
        (("finals", "bare", "w-1", 9, {}), {}),
    ),
    "all jobs": (
        "fleetpulse.services.jobs_and_sink.run_all_jobs",
        ("jobs", "all"),
        (("faust", "worker-0", None, {}), {}),
    ),
    "a job's files": (
        "fleetpulse.services.jobs_and_sink.run_job",
        ("jobs", "costs", "--prices", __file__),
        (("costs", "faust", "worker-0", None, {"prices": Path(__file__)}), {}),
    ),
    "the sink": (
        "fleetpulse.services.jobs_and_sink.run_sink_service",
        ("sink", "--no-raw", "--no-rollups", "--health-port", "9"),
        ((), {"raw": False, "roll": False, "health_port": 9, "replica": "", "url": None}),
    ),
    "the sink of a copy": (
        "fleetpulse.services.jobs_and_sink.run_sink_service",
        ("sink", "--replica", "b", "--clickhouse", "http://b:8123"),
        ((), {"raw": True, "roll": True, "health_port": None, "replica": "b", "url": "http://b:8123"}),
    ),
    "the agent": (
        "fleetpulse.services.edge.run_agent_service",
        ("agent", "--spool", "/s", "--seconds", "3", "--health-port", "0"),
        ((Path("/s"), 3.0, 0), {}),
    ),
    "one round of the agent": ("fleetpulse.services.edge.run_once", ("agent", "--once"), ((), {})),
    "the proxy": (
        "fleetpulse.services.proxy.run_proxy",
        ("proxy", "--upstream", "http://a", "--upstream", "http://b=2", "--port", "0", "--no-ask-usage"),
        (
            (
                ["http://a", "http://b=2"],
                {
                    "host": None,
                    "port": 0,
                    "ask_usage": False,
                    "tenant_from": None,
                    "workers": None,
                    "log_requests": None,
                    "health_port": None,
                },
                None,
            ),
            {},
        ),
    ),
    "several workers of the proxy": (
        "fleetpulse.services.proxy_workers.run_workers",
        ("proxy", "--upstream", "http://a", "--workers", "2"),
        (
            (
                ["http://a"],
                dict.fromkeys(("host", "port", "ask_usage", "tenant_from", "log_requests", "health_port"), None)
                | {"workers": 2},
                None,
            ),
            {},
        ),
    ),
    "delivery": (
        "fleetpulse.services.deliver.run_deliver",
        ("deliver", "--name", "deliver-1", "--health-port", "9"),
        (("deliver-1", 9), {}),
    ),
}


@pytest.mark.parametrize(("target", "words", "expected"), HANDED_OVER.values(), ids=HANDED_OVER.keys())
def test_what_is_requested_is_handed_over(
    target: str, words: tuple[str, ...], expected: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every option in its place, defaults where nothing was said; exit code 0."""
    shell = Recording()
    monkeypatch.setattr(target, shell)
    monkeypatch.setattr("fleetpulse.services.compile_ahead.provide", Recording())

    code, _ = run(*words)

    assert shell.called == [expected]
    assert code == 0


def test_the_dashboard_says_where_it_is_and_serves_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """On loopback nobody needs a token; objectives are those of the rules."""
    served = Recording()
    monkeypatch.setattr("fleetpulse.dashboard.serve.run", served)
    monkeypatch.setattr("runtime.logs.configure", Recording())

    code, output = run("dashboard", "--port", "8601", "--health-port", "9")

    ((_, access, binding, facts), _) = served.called[0]
    assert code == 0
    assert "http://127.0.0.1:8601" in output
    assert binding == Binding("127.0.0.1", 8601, 9)
    assert not access.token
    assert facts.slo_classes == load_set(None).slo_classes


@pytest.mark.parametrize("between", [" ", ",", ", "], ids=["spaces", "commas", "both"])
def test_a_unit_names_the_reverse_proxy_of_the_dashboard_in_its_environment(
    between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command line is fixed: names that browsers use, and whose word is taken for who is logged in."""
    served = Recording()
    monkeypatch.setattr("fleetpulse.dashboard.serve.run", served)
    monkeypatch.setattr("runtime.logs.configure", Recording())
    monkeypatch.setenv("FLEETPULSE_DASHBOARD_ALLOWED_HOSTS", between.join(("fleet.example", "gpus.example")))
    monkeypatch.setenv("FLEETPULSE_DASHBOARD_LOGIN_HEADER", "X-Forwarded-User")
    monkeypatch.setenv("FLEETPULSE_DASHBOARD_TRUSTED_PROXIES", between.join(("127.0.0.1", "10.0.0.9")))

    assert run("dashboard", "--health-port", "9")[0] == 0

    ((_, access, _, _), _) = served.called[0]
    names = ("fleet.example", "gpus.example:8443", "127.0.0.1:8600", "other.example")
    assert [access.host_is_ours(name) for name in names] == [True, True, True, False]
    assert (access.login_header, access.trusted) == ("X-Forwarded-User", ("127.0.0.1", "10.0.0.9"))


@pytest.mark.parametrize(
    "words",
    [("--check", "--dry-run"), ("--target", "pager"), ("--json",)],
    ids=["both", "a target of nothing", "nothing to print"],
)
def test_options_of_delivery_that_do_not_fit_start_nothing(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2."""
    shell = Recording()
    monkeypatch.setattr("fleetpulse.services.deliver.run_deliver", shell)

    assert run("deliver", *words)[0] == 2
    assert shell.called == []


@pytest.mark.parametrize(("lost", "code"), [(0, 0), (3, 1)])
def test_books_that_differ_end_with_one(lost: int, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they say is printed either way; how long to wait is an option."""
    books = TopicBooks("llm.requests", 10, 0, 10 - lost, 0, 0, 0, 0, 0)
    compared = Recording(Report((books,), 1 if lost == 0 else 0, ()))
    monkeypatch.setattr("fleetpulse.reconcile.compare.reconcile", compared)

    ended, output = run("reconcile", "--wait", "0", "--no-raw", "--json")

    assert ended == code
    assert orjson.loads(output)["exact"] is (lost == 0)
    assert (compared.called[0][1]["wait_s"], compared.called[0][1]["raw"]) == (0.0, False)


def test_the_report_of_the_books_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are longer than 80 characters, and stay lines in a pipe and in a log."""
    report = Report((TopicBooks("llm.requests", 10, 0, 10, 0, 0, 0, 0, 0),), 1, ())
    monkeypatch.setattr("fleetpulse.reconcile.compare.reconcile", Recording(report))

    printed = CliRunner().invoke(app, ["reconcile"]).stdout

    assert printed == f"{report.text()}\n"
    assert max(map(len, printed.splitlines())) > 80


def test_names_in_books_are_shown_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of whoever may write books, and a terminal would clear its screen."""
    report = Report((), 1, (Difference("offsets", "source a\x1b[2J", 1, 2),))
    monkeypatch.setattr("fleetpulse.reconcile.compare.reconcile", Recording(report))

    printed = CliRunner().invoke(app, ["reconcile"]).stdout

    assert printed.endswith("offsets: source a\\x1b[2J: expected 1, found 2\n")


def test_a_backtest_without_files_asks_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one it judges that, by a detector of its own."""
    history, files = Recording({"alerts": [], "windows": 6}), Recording({"series": [], "found": 0})
    monkeypatch.setattr("fleetpulse.backtest.replay.backtest_history", history)
    monkeypatch.setattr("fleetpulse.backtest.files.backtest_files", files)

    code, output = run("backtest", "--last", "2h")
    assert (code, history.called) == (0, [(("2h", None, None, None), {})])
    assert "no rule would have fired" in output
    assert "windows 6" in output

    code, output = run("backtest", "--csv", "a.csv", "--sigmas", "4")
    assert (code, "no series" in output) == (0, True)
    assert files.called[0][0][0] == Path("a.csv")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--sigmas", "4"], "--sigmas"),
        (["--results", "results"], "--results"),
        (["--csv", "a.csv", "--last", "2h"], "--last"),
        (["--dir", "a", "--rules", "r.yaml"], "--rules"),
        (["--query", "SELECT 1", "--labels", "l.json"], "--labels"),
        (["--csv", "a.csv", "--results", "there"], "--results"),
    ],
)
def test_options_that_a_backtest_would_not_heed_are_refused(words: list[str], option: str) -> None:
    """Each is of the history, or of series of files or queries."""
    found = CliRunner().invoke(app, ["backtest", *words])

    assert isinstance(found.exception, ConfigError)
    assert found.exception.key == option


def test_alerts_of_a_backtest_have_their_moments_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as numbers of milliseconds, and numbers stand in one line."""
    alert: dict[str, Any] = dict.fromkeys(("rule", "severity", "labels", "resolved_ms", "value", "baseline", "members"))
    found: dict[str, Any] = {
        "from_ms": 1_790_035_200_000,
        "alerts": [alert | {"opened_ms": 1_790_035_200_000}],
        "records": 10**9,
    }
    found |= {f"number_{n}": n for n in range(30)}
    monkeypatch.setattr("fleetpulse.backtest.replay.backtest_history", Recording(found))

    _, output = run("backtest")

    assert "1,790,035,200,000" not in output
    assert output.count("2026-09-22 00:00") == 2
    assert "number_0 0, number_1 1" in output
    assert output.splitlines()[-1].endswith("number_29 29")


def test_an_unknown_column_of_top_names_the_known_ones() -> None:
    """Before the database is queried."""
    found = CliRunner().invoke(app, ["top", "--sort", "beauty"])

    assert "util %" in str(found.exception)
    assert "temp C" in str(found.exception)


def test_a_repair_is_of_two_servers_and_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both by the configured login; what was copied is counted by table."""
    recording = Recording(Repaired([Filled("books", 2, 4_000)], {"books": 0}))
    monkeypatch.setattr("fleetpulse.repair.run.repair", recording)
    monkeypatch.setattr("fleetpulse.alerts.actions.record_run", lambda *_: None)

    result = CliRunner().invoke(app, ["repair", "--from", "http://a:1", "--to", "http://b:2/", "--last", "7d"])

    ((source, target, span_ms, _limits), named), *_ = recording.called
    assert (result.exit_code, result.stdout) == (0, "books: 2 hours, 4,000 rows\n")
    assert (source.url, target.url, span_ms[1] - span_ms[0]) == ("http://a:1", "http://b:2", 168 * HOUR_MS)
    assert named == {"dry_run": False}


REPAIR = ["repair", "--from", "http://a:1", "--to", "http://b:2"]
RESET = ["jobs", "reset", "--yes", "--partition", "llm.requests:3"]


@pytest.mark.parametrize(
    "words",
    [
        [*REPAIR, "--last", "1week"],
        [*REPAIR, "--from", "a"],
        [*REPAIR, "--to", "http://user:password@b"],
        [*RESET, "--to", "earlist"],
        [*RESET, "--to", "\N{SUPERSCRIPT TWO}"],
    ],
    ids=["a range", "the source", "the target", "an offset", "a digit that is no number"],
)
def test_what_is_asked_for_wrongly_is_not_recorded_as_a_run(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands among people's actions is kept for ever."""
    recorded = Recording()
    monkeypatch.setattr("fleetpulse.alerts.actions.record_run", recorded)

    async def planned(*_given: Any, **_named: Any) -> None:
        raise ConfigError("--to", "", "must be earliest, latest or an offset")

    monkeypatch.setattr("fleetpulse.services.reset_partition.reset_partition", planned)

    found = CliRunner().invoke(app, words)

    assert isinstance(found.exception, ConfigError)
    assert recorded.called == []


@pytest.mark.parametrize("more", [(), ("--same-topic",)])
def test_a_reset_is_recorded_as_it_was_asked_for(more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that the topic was said to be a copy."""
    recorded: list[Any] = []

    async def reset(*_given: Any, same_topic: bool) -> tuple[None, bool]:
        assert same_topic is bool(more)
        return None, True

    monkeypatch.setattr("fleetpulse.services.reset_partition.reset_partition", reset)
    monkeypatch.setattr("fleetpulse.alerts.actions.record_run", lambda *given: recorded.append(given[1:]))

    words = ["jobs", "reset", "--partition", "llm.requests:3", "--of", "windows", "--to", "7", "--yes", *more]
    result = CliRunner().invoke(app, words)

    options = {"--partition": "llm.requests:3", "--to": "7", "--of": "windows", "--same-topic": bool(more) or None}
    assert (result.exit_code, recorded) == (0, [("jobs reset", options)])
