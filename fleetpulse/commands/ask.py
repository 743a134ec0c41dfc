"""The command that answers questions, each by the shipped query that it names."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from fleetpulse.commands.output import Result, answers, err, out, print_rows
from runtime.clock import SystemClock

OTHERS_MAX = 4


@answers
def ask(
    words: Annotated[
        list[str] | None, typer.Argument(help="The question in your words, or its number; without them all questions.")
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--last", help="How far back: 15m, 24h, 30d, or today; without it as fits the question."),
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Begin: 2026-01-31 or 2026-01-31T06:00:00Z.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="End, likewise; without it now.")] = None,
    against: Annotated[
        str | None,
        typer.Option(help="What a change is against: the same so much earlier (1d, 7d); without it what was before."),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Whose midnight today begins at: Europe/Berlin; without it this machine's.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="A parameter of the query: model=NAME; may be repeated.")
    ] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the query alone.")] = False,
) -> Result:
    """Ask a question in plain words: the best matching of those below is answered by the query that it names.

    Example: [bold]fleetpulse ask[/bold], [bold]fleetpulse ask tenant behind p99 spike --last 10m -p model=NAME[/bold],
    [bold]fleetpulse ask monthly cost of idle GPUs[/bold], [bold]fleetpulse ask tokens today yesterday --sql[/bold]
    """
    from fleetpulse.commands import asking
    from fleetpulse.queries.questions import numbered
    from fleetpulse.sql.database import Database
    from fleetpulse.sql.query import bound
    from runtime.config import load

    if not words:
        return _listed()
    number, others = asking.chosen(words)
    question = numbered()[number]
    bounds = asking.bounds_of(question, last, from_, to, against, asking.zone_of(zone), SystemClock().now_ms())
    text = question.sql(bounds["to_ms"] - bounds["from_ms"], None if sql else bounds)
    query = bound(text.strip(), question.known(), param or (), bounds)
    data = {"number": number, "question": question.text, "query": question.query, "parameters": query.parameters}
    if sql:
        return Result(
            data | {"sql": query.sql}, lambda: out.print(query.sql, markup=False, highlight=False, soft_wrap=True)
        )
    with closing(Database(load().reading)) as database:
        answer = database.sql(query.sql, query.parameters)
        said = {"": asking.covered(database, bounds["from_ms"], bounds["to_ms"])}
        if "before_from_ms" in query.parameters:
            said["before_"] = asking.covered(database, bounds["before_from_ms"], bounds["before_to_ms"])
    data |= {f"{which}covered_s": seconds for which, seconds in said.items()} | {"rows": answer.records()}

    def shown() -> None:
        columns, rows = asking.readable(answer.columns, answer.rows)
        print_rows(f"{number}. {question.text}", columns, rows, empty=f"{number}. {question.text}\nno rows")
        for which, seconds in said.items():
            err.print(asking.over(bounds, seconds, which), markup=False, highlight=False)
        for other in others[:OTHERS_MAX]:
            err.print(f"also: fleetpulse ask {other}  {numbered()[other].text}", markup=False, highlight=False)

    return Result(data, shown)


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
