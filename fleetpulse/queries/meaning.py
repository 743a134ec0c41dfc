"""What plain words mean: which question of the list, held to which names, measuring what, over which range.

Pure: names that the words may be are looked up in between, by query ``dashboard/names``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetpulse.queries import names_in_words
from fleetpulse.queries.matching import SHARE_MIN, corrected, is_ours, matching, share, unheld
from fleetpulse.queries.metric_words import beside, measured
from fleetpulse.queries.names_in_words import Named, listed, may_mean
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.range_words import TODAY, YESTERDAY, NamedRange, not_understood, range_of
from fleetpulse.queries.scope import NAMES
from schemas.errors import ConfigError

NEAREST = 3
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Meaning:
    """``number`` of the question, ``others`` that it could be; ``names`` that it is held to, by parameter; ``given``:
    its parameters, as the words have them; ``last``: the range that they name, or empty; ``unused``: words that the
    question says nothing of."""

    number: int
    others: tuple[int, ...]
    names: Mapping[str, str]
    given: Mapping[str, str]
    last: str = ""
    unused: tuple[str, ...] = ()


def of_number(number: int) -> Meaning:
    """That question, of everything."""
    if number not in numbered():
        raise ConfigError("WORDS", str(number), f"must be a number from 1 to {len(numbered())}")
    return Meaning(number, (), {}, numbered()[number].given)


def parts(text: str) -> list[str]:
    """What names must hold one of, to be looked up before ``meant``; empty where no word can be a name."""
    return names_in_words.candidates(_words(text), is_ours)


def meant(text: str, found: Sequence[Row], given: Sequence[str] = ()) -> Meaning:
    """What the words mean, with names that were found for them (``kind``, ``name``); ``given`` are kinds that the asker
    named beside the words. Raises ``ConfigError`` where no question is meant, a name is none or of several, or a time
    is not understood."""
    by_kind = {kind: [row["name"] for row in found if row["kind"] == kind] for kind in NAMES}
    named = names_in_words.named(_words(text), by_kind, is_ours)
    kinds = [*named.values, *named.several, *given]
    words = [*named.rest, *(word for kind in kinds for word in NAMES[kind].split())]
    last = range_of(text)[0]
    ranked = [*_of_today(words, last), *matching(words)]
    good = list(dict.fromkeys(number for number in ranked if share(words, number) >= SHARE_MIN))
    if not good:
        raise ConfigError("WORDS", text, _no_match(named, ranked))
    if NamedRange.of(last).is_of_calendar:
        good.sort(key=lambda number: numbered()[number].of_now)
    _check_names(text, named, given)
    able = [number for number in good if numbered()[number].takes({*named.values, *given})]
    if not able:
        wanted = " and ".join(NAMES[kind] for kind in {*named.values, *given})
        raise ConfigError("WORDS", text, f"question {good[0]} ({numbered()[good[0]].text}) is not kept by {wanted}")
    question = numbered()[able[0]]
    unused = unheld(beside(" ".join(named.rest), question.given).split(), able[0])
    if times := not_understood(text, unused):
        raise ConfigError("WORDS", text, f"names a time that is not understood ({listed(times)}): give --from and --to")
    last = "" if question.last == last == TODAY else last
    given_ = measured(text, question.given, question.query)
    return Meaning(able[0], tuple(able[1:]), named.values, given_, last, tuple(unused))


def _words(text: str) -> list[str]:
    return corrected(names_in_words.split(range_of(text)[1]))


def _of_today(words: Sequence[str], last: str) -> list[int]:
    """The question that is about a day by itself, where the words name one and ask for no more than it holds."""
    best = matching([*words, last])[:1] if NamedRange.of(last).what in (TODAY, YESTERDAY) else []
    return [number for number in best if numbered()[number].last == TODAY and share(words, number) == 1]


def _no_match(named: Named, ranked: Sequence[int]) -> str:
    nearest = "; ".join(f"{number} {numbered()[number].text}" for number in ranked[:NEAREST])
    unknown = f"; nothing is called {listed(named.unknown)}" if named.unknown and nearest else ""
    return f"no question matches well{': nearest are ' if nearest else ''}{nearest}{unknown}; fleetpulse ask lists all"


def _check_names(text: str, named: Named, given: Sequence[str]) -> None:
    if named.unknown:
        raise ConfigError("WORDS", text, f"no model, tenant, host, engine or GPU is called {listed(named.unknown)}")
    for kind, names in named.several.items():
        if kind not in given:
            choose = f"say which, or -p {kind}=NAME"
            raise ConfigError("WORDS", text, f"{may_mean(kind, names)}: {choose}")
