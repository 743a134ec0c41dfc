"""The table of kinds as Markdown, for docs/how-to/rules.md."""

from __future__ import annotations

from stream_jobs.rules.kinds import KINDS, DetectorKind, Form, Option
from stream_jobs.rules.writing import option_text


def markdown() -> str:
    """A section for each kind: meaning, measures, options with defaults and bounds."""
    return "\n\n".join(_kind(kind) for kind in KINDS.values())


def _kind(kind: DetectorKind) -> str:
    measures = [f"`{slot.name}`{'' if slot.required else ' (optional)'}: {slot.meaning}" for slot in kind.measures]
    lines = [
        f"### {kind.name}",
        "",
        f"{kind.meaning[0].upper()}{kind.meaning[1:]}. Measures: {'; '.join(measures)}. "
        f"State: about {kind.state_bytes} bytes per series.",
        "",
        "| option | form | default | meaning |",
        "|---|---|---|---|",
        *(_option(option) for option in kind.options),
    ]
    return "\n".join(lines)


def _option(option: Option) -> str:
    shown = "–" if option.default is None else f"`{_default(option)}`"
    return f"| `{option.name}` | {_form(option)} | {shown} | {option.meaning} |"


def _default(option: Option) -> str:
    written = option_text(option, option.default)
    if isinstance(written, bool):
        return "true" if written else "false"
    if isinstance(written, list):
        return str(written).replace("'", "")
    return f"{written:g}" if isinstance(written, float) else str(written)


def _form(option: Option) -> str:
    if option.form is Form.CHOICE:
        return ", ".join(option.choices)
    if option.form is Form.LEVEL:
        return "level" if option.of == "value" else f"level of `{option.of}`"
    if option.low is None and option.high is None:
        return option.form.value
    low = "" if option.low is None else _bound(option, option.low)
    high = "" if option.high is None else _bound(option, option.high)
    return f"{option.form.value}, {low} to {high}" if high else f"{option.form.value}, {low} or more"


def _bound(option: Option, value: float) -> str:
    if option.form in (Form.SHARE, Form.SECONDS):
        return str(option_text(option, value))
    return f"{value:g}"
