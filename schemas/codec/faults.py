"""What is wrong with a value that its codec could read: reason and detail, by the field's own rules.

The compiled walk says only which field of a row is at fault; this module says why, from the row as it was sent.
"""

from __future__ import annotations

from schemas.codec.block import Bins, Block, Column, Labels, Numbers, Texts
from schemas.codec.values import shown
from schemas.fields import Field
from schemas.limits import Limits
from schemas.sketch import BIN_MAX, ZERO_BIN


def word_fault(field: Field, word: bytes | None, label_bytes_max: int) -> tuple[str, str] | None:
    """Reason and detail when this word may not stand in the label column, else None."""
    if not word and field.required:
        return "missing_field", f"{field.name} is missing, null or empty"
    if word is None:
        return None
    if len(word) > label_bytes_max:
        return "too_long", f"{field.name} has {len(word)} bytes; at most {label_bytes_max}"
    try:
        text = word.decode()
    except UnicodeDecodeError:
        return "wrong_type", f"{field.name} = {shown(word)}: is not UTF-8"
    if field.allowed and text not in field.allowed:
        return "not_allowed", f"{field.name} = {shown(text)}: must be one of {', '.join(field.allowed)}"
    return None


def fault_of(field: Field, block: Block, row: int, limits: Limits) -> tuple[str, str]:
    """Reason and detail of a value that the walk refused; ``block`` holds the row as it was sent."""
    column: Column = block.columns[field.name]
    if isinstance(column, Labels):
        fault = word_fault(field, column.words[column.codes[row]], limits.label_bytes_max)
        assert fault is not None, field.name
        return fault
    if isinstance(column, Numbers):
        low = "the least of its kind" if field.low is None else field.low
        high = "the greatest of its kind" if field.high is None else field.high
        return "out_of_range", f"{field.name} = {column.values[row]}: must lie in [{low}, {high}]"
    if isinstance(column, Bins):
        return "bad_bins", (
            f"{field.name}: bins must rise within [{ZERO_BIN}, {BIN_MAX}], counts must be above 0 and at most 2^32"
        )
    assert isinstance(column, Texts), f"{field.name}: lists are not judged"
    return _text_fault(field, column, row, limits.text_bytes_max)


def _text_fault(field: Field, column: Texts, row: int, text_bytes_max: int) -> tuple[str, str]:
    size = int(column.ends[row]) - (int(column.ends[row - 1]) if row else 0)
    if size > text_bytes_max:
        return "too_long", f"{field.name} has {size} bytes; at most {text_bytes_max}"
    return "missing_field", f"{field.name} is missing, null or empty"
