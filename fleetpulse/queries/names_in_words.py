"""Names of models, tenants, hosts ... that occur in a question in plain words. Pure.

A word is a name where it is one, whatever its case; else where it begins exactly one, or is made of parts of exactly
one (``llama-70b`` of ``llama-3.3-70b-instruct``). Several words that are parts of one name mean that one. Where several
of a kind remain nobody is guessed: the asker chooses. Words of the questions themselves are names only where
they stand beside the kind (``tenant batch``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetpulse.queries.scope import NAMES

_KIND_WORDS: Mapping[str, str] = {
    "model": "model",
    **dict.fromkeys(("tenant", "customer", "team"), "tenant"),
    **dict.fromkeys(("host", "machine", "node", "server"), "host"),
    "engine": "engine_id",
    "region": "region",
    "cluster": "cluster",
    "class": "slo_class",
    "gpu": "gpu_uuid",
    "version": "model_version",
}
_PART = re.compile(r"[a-z]+|\d+(?:[a-z]+\b)?", re.IGNORECASE)
_EDGES = "?!.,;:\"'()"
_CHARS_MIN = 2
WORDS_MAX = 20
"""So many words of a question may be names; more are not looked up."""
SEVERAL_MAX = 9
"""So many names are listed where one may be any of them."""
_BEFORE_NAMES = frozenset(("of", "for", "by", "from", "on"))

Found = Mapping[str, Sequence[str]]
"""Names of each kind."""


@dataclass(frozen=True, slots=True)
class Named:
    """``values`` by kind; ``several``: of a kind more than one is meant; ``unknown``: words that look like names and
    are none; ``rest``: the other words."""

    values: Mapping[str, str]
    several: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...]
    rest: tuple[str, ...]


def split(text: str) -> list[str]:
    """Words without what stands around them."""
    found = (word.strip(_EDGES).removesuffix("'s").removesuffix("’s") for word in text.split())
    return [word for word in found if word]


def candidates(words: Sequence[str], is_ours: Callable[[str], bool]) -> list[str]:
    """Words that may be names, as parts that a name must hold one of."""
    found: list[str] = []
    for place, word in enumerate(words):
        if _may_be(words, place, is_ours):
            found += [word, *(part for part in _parts(word) if len(part) >= _CHARS_MIN and not part.isdigit())]
    return list(dict.fromkeys(one.casefold() for one in found if len(one) >= _CHARS_MIN))[: 2 * WORDS_MAX]


def named(words: Sequence[str], found: Found, is_ours: Callable[[str], bool]) -> Named:
    """What of the words are names, of those that were found for them."""
    meant: dict[str, tuple[str, ...]] = {}
    unknown, rest = [], []
    for place, word in enumerate(words):
        if not _may_be(words, place, is_ours):
            rest.append(word)
            continue
        kind, names = _of_word(word, found, _kind_beside(words, place), whole=is_ours(word))
        if not kind:
            rest.append(word)
            unknown += [word] if _looks_like_a_name(words, place, is_ours) else []
            continue
        both = tuple(name for name in meant.get(kind, names) if name in names)
        meant[kind] = both or tuple(dict.fromkeys((*meant.get(kind, ()), *names)))
    values = {kind: names[0] for kind, names in meant.items() if len(names) == 1}
    several = {kind: names for kind, names in meant.items() if len(names) > 1}
    return Named(values, several, tuple(unknown), tuple(rest))


def _may_be(words: Sequence[str], place: int, is_ours: Callable[[str], bool]) -> bool:
    return not is_ours(words[place]) or _kind_beside(words, place, before_only=True) != ""


def _kind_beside(words: Sequence[str], place: int, *, before_only: bool = False) -> str:
    """The kind that the word before, or after, says this one is of."""
    places = (place - 1,) if before_only else (place - 1, place + 1)
    for beside in places:
        if 0 <= beside < len(words):
            kind = _KIND_WORDS.get(words[beside].lower().removesuffix("s"), "")
            if kind and (beside < place or not before_only):
                return kind
    return ""


def _of_word(word: str, found: Found, kind: str, *, whole: bool) -> tuple[str, tuple[str, ...]]:
    """The kind that is meant and its names, by the closest way in which any matches; none for no match."""
    ways = _ways(word)[: 1 if whole else None]
    kinds = [kind, *(one for one in NAMES if one != kind)] if kind in NAMES else [*NAMES]
    for way in ways:
        for one in kinds:
            if names := tuple(name for name in found.get(one, ()) if way(name)):
                return one, names
    return "", ()


def in_full(part: str, names: Iterable[str]) -> tuple[str, ...]:
    """Those of the names that a part of one may mean, by the closest way in which any matches."""
    known = [*names]
    return next((found for way in _ways(part) if (found := tuple(name for name in known if way(name)))), ())


def _ways(word: str) -> list[Callable[[str], bool]]:
    """In which a name may be meant by a word, the closest first."""
    folded = word.casefold()
    return [
        lambda name: name.casefold() == folded,
        lambda name: name.casefold().startswith(folded),
        lambda name: _made_of(folded, name.casefold()),
    ]


def _made_of(folded: str, name: str) -> bool:
    """Whether each part of the word begins a part of the name, in this order."""
    parts = iter(_parts(name))
    wanted = _parts(folded)
    return bool(wanted) and all(any(part.startswith(one) for part in parts) for one in wanted)


def _parts(text: str) -> list[str]:
    return _PART.findall(text.casefold())


def _looks_like_a_name(words: Sequence[str], place: int, is_ours: Callable[[str], bool]) -> bool:
    word = words[place]
    odd = any(char.isdigit() for char in word) and any(char.isalpha() for char in word)
    beside = words[place - 1].lower() if place else ""
    return not is_ours(word) and (odd or beside in _BEFORE_NAMES or _kind_beside(words, place, before_only=True) != "")


def may_mean(kind: str, names: Sequence[str]) -> str:
    """What is said where several names of a kind are meant."""
    return f"may mean {NAMES[kind]} {' or '.join(names[:SEVERAL_MAX])}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """The first of these, and how many more there are."""
    each = list(names)
    more = f" and {len(each) - most} more" if len(each) > most else ""
    return ", ".join(each[:most]) + more
