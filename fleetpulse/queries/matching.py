"""Which question is meant by plain words: the one that shares most with them, and none where that is little. Pure.

Rare words weigh more, those of the question itself twice as much as others that people call it by. A question is no
match when it lacks more than half of what was asked, by weight: a word of no question weighs most of all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache

from fleetpulse.queries.questions import numbered

SHARE_MIN = 0.5
"""Of the weight of what was asked, what a question must hold: at 0.4 unrelated words find one, at 0.6 related none."""
ELSE_COUNTS, ALIKE = 0.2, 0.8
NEAR_CUTOFF, NEAR_CHARS_MIN = 0.8, 5
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset(
    _WORD.findall(
        "a an and any anything are as at be been being but by can could current currently d did do does down each "
        "ever every for from get give go goes had happen happened has have having hello help hey hi how i if in into "
        "is it its just know latest let like list ll look m many me minute minutes most much my name need now of on "
        "or our out over per please re recent recently right s see should show since so some something t tell than "
        "that the their them then there they thing this time to us ve vs want was way we were what when which while "
        "who whom whose why will with would you your"
    )
)
_STEM, _ENDING = 4, 3
"""Words are alike from so many letters on, with at most so many more: *slow* and *slowing*, *failed* and *failures*."""


def matching(words: Sequence[str]) -> list[int]:
    """Numbers of the questions that hold these words, the best first: the one that they mean alone, if any. Empty
    where none is found."""
    weights = {word: _weight(word) for word in content(words)}
    scores = {number: _score(weights, own, more) for number, (own, more) in _texts().items()}
    best = max(scores.values(), default=0)
    asked = {word.removesuffix("s") for word in weights}
    alone = [number for number, one in numbered().items() if any({*_words(said)} == asked for said in one.alone)]
    ranked = sorted(
        (number for number, score in scores.items() if score > best / 2), key=lambda number: (-scores[number], number)
    )
    return list(dict.fromkeys([*alone, *ranked]))


def _score(weights: Mapping[str, float], own: Sequence[str], more: Sequence[str]) -> float:
    """What a question shares with the words: less where it lacks some of them, and where it asks for much else."""
    held = {word: max(2 * _holds(own, word), _holds(more, word)) for word in weights}
    shared = sum(weight * held[word] for word, weight in weights.items())
    known = sum(weight for word, weight in weights.items() if held[word])
    return float(shared * known / sum(weights.values()) / len(content(own)) ** ELSE_COUNTS) if weights else 0.0


def share(words: Sequence[str], number: int) -> float:
    """Which part of the words a question holds, by weight: 0 to 1."""
    own, more = _texts()[number]
    weights = {word: _weight(word) for word in content(words)}
    held = sum(weight for word, weight in weights.items() if _holds(own, word) or _holds(more, word))
    return held / sum(weights.values()) if weights else 0.0


def unheld(words: Sequence[str], number: int) -> list[str]:
    """Words that say something, and that a question does not hold."""
    own, more = _texts()[number]
    return [word for word in content(words) if not (_holds(own, word) or _holds(more, word))]


def content(words: Iterable[str]) -> list[str]:
    """Words that say something, each once."""
    return list(dict.fromkeys(word for word in _words(" ".join(words)) if word not in _SMALL))


def is_ours(word: str) -> bool:
    """Whether a word is of the questions, or says nothing: no name."""
    parts = _words(word)
    return all(part in _SMALL or part in _vocabulary() or _weight(part) < _weight("") for part in parts)


def corrected(words: Iterable[str]) -> list[str]:
    """The words, those that are nearly one of the questions' as these write it."""
    return [word if is_ours(word) or len(word) < NEAR_CHARS_MIN else _nearly(word) for word in words]


def near(words: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Words of questions that those are nearly."""
    known = sorted(_vocabulary() - _SMALL)
    return [close for word in words for close in get_close_matches(word.lower(), known, n=1, cutoff=cutoff)]


def _nearly(word: str) -> str:
    return next((one for one in near([word], NEAR_CUTOFF) if one[0] == word[0].lower()), word)


@cache
def _texts() -> dict[int, tuple[list[str], list[str]]]:
    return {number: (_words(one.text), _words(f"{one.words} {one.query}")) for number, one in numbered().items()}


@cache
def _vocabulary() -> frozenset[str]:
    return frozenset(word for own, more in _texts().values() for word in (*own, *more))


@cache
def _weight(word: str) -> float:
    found = sum(bool(_holds(own, word) or _holds(more, word)) for own, more in _texts().values()) if word else 0
    return math.log((len(_texts()) + 1) / (found + 0.5))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _holds(words: Sequence[str], word: str) -> float:
    """1 where the word is one of these, less where it is like one, 0 where it is not."""
    if any(one.removesuffix("s") == word.removesuffix("s") for one in words):
        return 1
    return ALIKE * any(min(len(one), len(word)) >= _STEM and _alike(one, word) for one in words)


def _alike(one: str, other: str) -> bool:
    """Whether the shorter begins the longer, but for an ending of its own."""
    short, long = sorted((one, other), key=len)
    return len(long) - len(short) <= _ENDING and long.startswith(short[: max(_STEM, len(short) - 2)])
