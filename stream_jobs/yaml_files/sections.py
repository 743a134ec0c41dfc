"""Files as models: sections with known keys, and errors with ``file:line: key``. Only ``read`` touches the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, ValidationError, model_validator

from stream_jobs.yaml_files.errors import SHOWN_MAX, FileError, WrongError, nearest, quoted
from stream_jobs.yaml_files.tree import BYTES_MAX, Items, Table, Word

_WRONG = {"missing": "is missing", "tuple_type": "must be a list", "dict_type": "must be a mapping (key: value)"}
"""By pydantic's type of error."""


class Section(BaseModel):
    """A mapping whose keys are the fields, and no others. ``place`` is its ``file:line``."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)
    _place: str = PrivateAttr(default="")

    @model_validator(mode="wrap")
    @classmethod
    def _placed(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Table):
            raise ValueError("must be a mapping (key: value)")
        value.names = cls.key_names()
        made = handler(value)
        made._place = value.at
        return made

    @classmethod
    def key_names(cls) -> tuple[str, ...]:
        """The keys that it may have."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    @property
    def place(self) -> str:
        """``file:line`` where it begins."""
        return self._place


def read(path: Path, bytes_max: int = BYTES_MAX) -> bytes:
    """What a file holds, at most one byte more than ``bytes_max``. Raises ``FileError``."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FileError(str(path), (f"{path}:1", f"cannot be read: {why}; check path and rights")) from None


Model = TypeVar("Model", bound=Section)


def validated(model: type[Model], tree: Table, path: str, context: Any = None) -> Model:
    """The model of a file's tree; validators find ``context``. Raises ``FileError`` with every mistake."""
    try:
        return model.model_validate(tree, context=context)
    except ValidationError as error:
        raise FileError(path, *pairs_of(error, tree)) from None


def pairs_of(error: ValidationError, tree: Table) -> Iterator[tuple[str, str]]:
    """``file:line`` and ``key.key: what is wrong`` of each mistake that pydantic found in a tree."""
    for one in error.errors(include_url=False, include_input=False):
        keys, place, table = _walked(tree, one["loc"])
        cause = one.get("ctx", {}).get("error")
        if isinstance(cause, WrongError):
            pairs = cause.pairs
        elif one["type"] == "extra_forbidden":
            unknown = str(one["loc"][-1])
            pairs = ((table.key_at(unknown), f"unknown key; {nearest(unknown, table.names)}"),)
        else:
            pairs = ((place, str(cause or _WRONG.get(one["type"], one["msg"]))),)
        yield from ((at or place, f"{keys}: {what}" if keys else what) for at, what in pairs)


def _walked(tree: Table, loc: tuple[str | int, ...]) -> tuple[str, str, Table]:
    """Of a location: its dotted keys (list items by their ``name``), ``file:line``, and the innermost mapping."""
    node: Any = tree
    keys, at, table = list[str](), tree.at, tree
    for part in loc:
        if isinstance(node, Table) and isinstance(part, str) and part != "[key]":
            at, table, node = node.at_of(part), node, node.get(part)
            keys.append(part)
        elif isinstance(node, Items) and isinstance(part, int):
            node = node[part]
            at = getattr(node, "at", at)
            keys += [node["name"]] if isinstance(node, Table) and isinstance(node.get("name"), Word) else []
    return ".".join(key if key.isprintable() and len(key) <= SHOWN_MAX else quoted(key) for key in keys), at, table
