"""The command that answers questions, each by the shipped query that it names."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import cache
from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, out, print_rows
from fleetpulse.commands.people import From, To
from fleetpulse.commands.progress import spinner
from fleetpulse.commands.stack import DataDir
from runtime.clock import SystemClock
from runtime.config import load


@answers
def ask(
    words: Annotated[
        list[str] | None, typer.Argument(help="The question in your words, or its number; without them all questions.")
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--last", help="How far back: 15m, 24h, 30d, or today; without it as fits the question."),
    ] = None,
    from_: From = None,
    to: To = None,
    against: Annotated[
        str | None,
        typer.Option(help="What a change is against: the same so much earlier (1d, 7d); without it what was before."),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            help="Whose midnight today, and a day of --from and --to, begins at: Europe/Berlin; without it this "
            "machine's, of --from and --to UTC."
        ),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter of the query: model=NAME; may be repeated.")
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the query alone.")] = False,
    data_dir: DataDir = None,
) -> Result:
    """Ask a question in plain words: the best matching of those below is answered by the query that it names.

    The name of a model, tenant, host, engine or GPU among the words holds the answer to it, as -p model=NAME does; p95,
    TPOT or failures say what is measured; yesterday at 15:38, this afternoon, this week, this month or last 2 hours
    when. Who is behind a spike is answered for the minute of the range in which the latency rose most; --against
    compares all of the range. Where no question matches, none is answered.

    Example: [bold]fleetpulse ask[/bold], [bold]fleetpulse ask tenant behind the p99 spike of llama-70b[/bold],
    [bold]fleetpulse ask monthly cost of idle GPUs[/bold], [bold]fleetpulse ask tokens of llama-70b today[/bold]
    """
    from fleetpulse.commands import asking, rising
    from fleetpulse.commands.answering import BoundQuestion, answered, held_to, meaning
    from fleetpulse.queries.questions import numbered
    from fleetpulse.queries.range_words import range_of
    from fleetpulse.sql.database import Database
    from fleetpulse.sql.lookups import in_full

    if not words:
        return _listed()
    config, zone_, now_ms = load({"data_dir": data_dir}), asking.zone_of(zone), SystemClock().now_ms()
    of_words = range_of(" ".join(words))[0]
    until_now = (asking.span_of(last or of_words or "1d", from_, to, zone_, now_ms)[0], now_ms)
    with ExitStack() as ending:
        ending.enter_context(spinner("asking ClickHouse", lines=False))
        database = cache(lambda: ending.enter_context(closing(Database(config.reading))))  # once something is looked up
        found = meaning(words, param or (), until_now, database)
        params = (param or []) if sql else in_full(database, param or (), until_now)
        found = held_to(found, params)
        question = numbered()[found.number]
        bounds = asking.bounds_of(question, last or found.last, from_, to, against, zone_, now_ms)
        rose = ""
        if rising.may_be_sought(found) and not (sql or against):
            found, bounds, rose = rising.sought(database(), found, bounds, given=bool(last or from_ or to))
        bound = BoundQuestion.of(found, bounds, params, whole=sql, kept_from_ms=config.limits.kept_from_ms(now_ms))
        if sql:
            data = bound.data() | {"sql": bound.query.sql}
            return Result(data, lambda: out.print(bound.query.sql, markup=False, highlight=False, soft_wrap=True))
        of_today = asking.of_today(question, last or found.last, from_ or to, against, zone)
        again = asking.command(words, param or (), against=against, zone=zone, data_dir=data_dir)
        return answered(database(), bound, of_today, again, rose)


def _listed() -> Result:
    from fleetpulse.queries.questions import QUESTIONS

    listed = [
        {"number": number, "question": one.text, "query": one.query, "asked_by": who, "last": one.last}
        for number, (who, one) in enumerate(((who, one) for who, group in QUESTIONS.items() for one in group), 1)
    ]

    def shown() -> None:
        for who in QUESTIONS:
            rows = [(one["number"], one["question"], one["query"]) for one in listed if one["asked_by"] == who]
            print_rows(who, ("", "question", "query"), rows, empty="no questions", least=("query",))

    return Result(listed, shown)
