"""How ``fleetpulse ask`` answers: it looks up names, runs the query, and says what of the range it is of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleetpulse.commands import asking
from fleetpulse.commands.elsewhere import label_utc, led_to
from fleetpulse.commands.output import Result, err, print_rows
from fleetpulse.queries.data_ends import Lack, Span, kinds_of
from fleetpulse.queries.meaning import Meaning, meant, of_number, parts
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.scope import NAMES, scoped
from fleetpulse.queries.verdict import said_of
from fleetpulse.report import BY_EXAMPLES
from fleetpulse.sql.database import Answer, Database
from fleetpulse.sql.lookups import lacking, names, with_examples
from fleetpulse.sql.query import Query, at_limit, bound, pairs, parameters_of
from schemas.errors import ConfigError

OTHERS_MAX = 4
_BEFORE = "before_"


@dataclass(frozen=True, slots=True)
class BoundQuestion:
    """A question with all that it is asked with. ``held``: what it is held to, by name; ``kept_from_ms``: since when
    rows of 10 s are kept."""

    meaning: Meaning
    bounds: Mapping[str, int]
    query: Query
    held: Mapping[str, str]
    compared: bool
    kept_from_ms: int = 0

    @classmethod
    def of(
        cls,
        meaning: Meaning,
        bounds: Mapping[str, int],
        params: Sequence[str],
        *,
        whole: bool,
        kept_from_ms: int = 0,
    ) -> BoundQuestion:
        """``params`` of people go before what their words mean. ``whole``: to be printed, with tables that have nothing
        of the range. ``kept_from_ms``: since when rows of 10 s are kept. Raises ``ConfigError`` for names that the
        question is not held to, and unknown parameters."""
        question, given = numbered()[meaning.number], pairs(params)
        span_ms, kept = bounds["to_ms"] - bounds["from_ms"], (bounds["from_ms"], kept_from_ms)
        text = question.sql(span_ms, None if whole else bounds, kept).strip()
        held = held_to(meaning, params).names
        own = parameters_of(text)
        known = {**question.known(), **meaning.given, **held}
        others = [f"{name}={value}" for name, value in given.items() if name not in held]
        query = bound(scoped(text, held), known, others, bounds)
        return cls(meaning, bounds, query, held, f"{_BEFORE}from_ms" in own, kept_from_ms)

    @property
    def measured(self) -> dict[str, str]:
        """What the question measures, as it is asked."""
        return {name: self.query.parameters[name] for name in self.meaning.given if name in self.query.parameters}

    def data(self) -> dict[str, Any]:
        """For programs."""
        question, number = numbered()[self.meaning.number], self.meaning.number
        found = {"number": number, "question": question.text, "query": question.query, "held_to": dict(self.held)}
        return found | {"parameters": dict(self.query.parameters), "unused_words": list(self.meaning.unused)}

    def span(self, which: str = "") -> tuple[int, int]:
        """The range, or with ``before_`` the one that it is compared with."""
        return self.bounds[f"{which}from_ms"], self.bounds[f"{which}to_ms"]


def meaning(words: Sequence[str], params: Sequence[str], span: Span, database: Callable[[], Database]) -> Meaning:
    """What is meant, held to names among ``params`` too; names of this range that the words may be are looked up, and
    nothing where there are none. Raises ``ConfigError`` as ``meant``."""
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        return held_to(of_number(int(words[0])), params)
    text, given = " ".join(words), [name for name in pairs(params) if name in NAMES]
    wanted = parts(text)
    found = names(database(), wanted, span) if wanted else ()
    return held_to(meant(text, found, given), params)


def held_to(meaning: Meaning, params: Sequence[str]) -> Meaning:
    """The same, held to names among these parameters of people too, and measuring what they say. Raises
    ``ConfigError`` for names that are empty, as of a variable that is not set, and for those that the question is not
    held to."""
    given = {name: value for name, value in pairs(params).items() if name in NAMES}
    if empty := [name for name, value in given.items() if not value]:
        raise ConfigError("--param", f"{empty[0]}=", "is empty: give a name, or leave it out for all")
    held = {**meaning.names, **given}
    if not numbered()[meaning.number].takes(held):
        raise ConfigError("--param", ", ".join(held), f"is nothing that question {meaning.number} is held to")
    said = {name: value for name, value in pairs(params).items() if name in meaning.given and name not in NAMES}
    return replace(meaning, names=held, given={**meaning.given, **said})


def answered(database: Database, question: BoundQuestion, of_today: str, again: str, found: str = "") -> Result:
    """The answer, and beside it of what range it is and how much of that has data; where it has none, where data lies.
    ``again``: the command that asked, to which another range can be added; ``found``: how its range was found."""
    which = ("", _BEFORE) if question.compared else ("",)
    answer = database.sql(question.query.sql, question.query.parameters)
    covered = {one: asking.covered(database, *question.span(one), question.kept_from_ms) for one in which}
    without = _without(database, question, answer)
    nearest = without.nearest(compared=question.compared) if without and _may_be_tried(question, without) else None
    verdict = _verdict(question, answer)
    said = [asking.over(question.bounds, seconds, one) for one, seconds in covered.items()]
    examples = "bills" in kinds_of(question.query.sql) and with_examples(database, question.span())
    said += [BY_EXAMPLES] if examples else []
    said += led_to(without, nearest if nearest != question.span() else None, again)
    said += [f"also: fleetpulse ask {one}  {numbered()[one].text}" for one in question.meaning.others[:OTHERS_MAX]]
    full = at_limit(question.query, len(answer.rows))
    said += [full] if full else []
    said += [f"words not used: {', '.join(question.meaning.unused)}"] if question.meaning.unused else []
    data = question.data() | {f"{one}covered_s": seconds for one, seconds in covered.items()}
    data |= {"example_prices": examples, "verdict": verdict or None, "nearest": nearest, "at_limit": bool(full)}
    data |= {"rows": answer.records()}
    understood = asking.understood(question.held, question.measured, of_today)
    first = f"{question.meaning.number}. {data['question']}"
    title = "\n".join(line for line in (first, understood, found, verdict) if line)

    def shown() -> None:
        print_rows(title, *asking.readable(answer.columns, answer.rows), empty=f"{title}\nno rows")
        for line in said:
            err.print(line, markup=False, highlight=False, soft_wrap=True)

    return Result(data, shown)


def _without(database: Database, question: BoundQuestion, answer: Answer) -> Lack | None:
    """What the range lacks where that leaves nothing to answer with; else what the range before it lacks."""
    kinds = kinds_of(question.query.sql)
    found = lacking(database, kinds, question.span())
    if found and (not answer.rows or len(found.kinds) == len(kinds)):
        return found
    return lacking(database, kinds, question.span(_BEFORE)) if question.compared else None


def _may_be_tried(question: BoundQuestion, without: Lack) -> bool:
    """Whether another range helps: not where days are compared and the earlier one has nothing."""
    return without.span == question.span() or question.span(_BEFORE)[1] == question.span()[0]


def _verdict(question: BoundQuestion, answer: Answer) -> str:
    query = numbered()[question.meaning.number].query
    said = said_of(query, question.query.parameters, answer.records())
    if not (said and question.compared):
        return said
    return f"{said}; {' against '.join(label_utc(*question.span(one)) for one in ('', _BEFORE))}"
