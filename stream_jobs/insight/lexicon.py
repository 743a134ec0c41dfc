"""Words with codes that last: a fleet says the same ones in every window, and every view and rule looks them up.

Columns over one lexicon have the same ``words`` object, which only grows: their codes can be compared, joined and
mapped without a look at the words. Nothing may hang on which code a word has: another process gives it another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from schemas.codec.block import Block, Labels

WORDS_MAX = 1 << 19
"""Of one label; with more of them a new lexicon begins with the next window."""
_UNKNOWN = -1


class Lexicon(list[bytes | None]):
    """The words of one label by code; 0 is null."""

    def __init__(self) -> None:
        super().__init__([None])
        self.codes: dict[bytes | None, int] = {None: 0}
        self._texts = np.array([None], np.object_)

    def take(self, words: Sequence[bytes | None]) -> npt.NDArray[np.int32]:
        """The code of each word; those that are new get one."""
        found = np.fromiter(map(self.codes.get, words, repeat(_UNKNOWN)), np.int32, len(words))
        for place in np.flatnonzero(found == _UNKNOWN).tolist():
            word = words[place]
            code = found[place] = self.codes.setdefault(word, len(self))
            if code == len(self):
                self.append(word)
        return found

    def code(self, word: str | None) -> int:
        """Of one word; -1 where nobody said it yet."""
        return self.codes.get(None if word is None else word.encode(), _UNKNOWN)

    def texts(self) -> npt.NDArray[np.object_]:
        """All words as text, None for null: the same object for a word, each time."""
        if len(self._texts) < len(self):
            more = [None if word is None else word.decode() for word in self[len(self._texts) :]]
            self._texts = np.concatenate([self._texts, np.array(more, np.object_)])
        return self._texts


class Lexicons:
    """One for each label, whatever the topic."""

    def __init__(self, words_max: int = WORDS_MAX) -> None:
        self._max = words_max
        self._of: dict[str, Lexicon] = {}

    def shared(self, tables: Mapping[str, Block]) -> dict[str, Block]:
        """The tables of a window with the codes of all labels over these lexicons."""
        self._of = {name: one for name, one in self._of.items() if len(one) <= self._max}
        return {topic: self.block(table) for topic, table in tables.items()}

    def block(self, block: Block) -> Block:
        """The same of one block."""
        columns = {
            name: self._shared(name, column) if isinstance(column, Labels) else column
            for name, column in block.columns.items()
        }
        return Block(block.rows, columns)

    def _shared(self, name: str, column: Labels) -> Labels:
        lexicon = self._of.setdefault(name, Lexicon())
        return Labels(lexicon.take(column.words)[column.codes], lexicon)
