"""The page as one HTML file: no script, no network, light and dark, printable. Everything that is data is escaped."""

from __future__ import annotations

from html import escape
from itertools import accumulate

from fleetpulse.report.page import Bars, Headline, Page, Section, Table

COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6", "c7")
"""Classes of the style sheet; palette of Okabe and Ito, distinct for colour-blind people too."""
_WIDTH, _HEIGHT, _LEFT, _BELOW = 960, 220, 56, 22
_LABELS_MAX = 12

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --fill: #f3f5f7;
  --warn: #7a4b00; --warn-fill: #fff4d9; --c1: #0072b2; --c2: #d55e00; --c3: #8a8f98; --c4: #009e73; --c5: #cc79a7;
  --c6: #e69f00; --c7: #56b4e9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a3adb8; --line: #3a424c; --paper: #14181d;
  --fill: #1d232a; --warn: #ffd58a; --warn-fill: #3a2c0a; --c1: #58a6e0; --c2: #f0883e; --c3: #8a929c; --c4: #3fc59b;
  --c5: #e3a0c4; --c6: #f2bd4b; --c7: #8fd0f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 28px 24px 48px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 36px 0 4px; }
p { margin: 4px 0 10px; color: var(--soft); max-width: 80ch; }
.warn { color: var(--warn); background: var(--warn-fill); padding: 8px 12px; border-radius: 6px; margin: 8px 0; }
.heads { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; margin: 20px 0 8px; }
.head { background: var(--fill); border-radius: 8px; padding: 12px 14px; }
.head dt { color: var(--soft); font-size: 13px; } .head dd { margin: 0; font-size: 22px; font-weight: 600; }
.head dd.note { font-size: 13px; font-weight: 400; color: var(--soft); }
.wide { overflow-x: auto; margin: 10px 0 16px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); font-size: 13px; padding: 4px 0; }
th, td { text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { font-size: 13px; color: var(--soft); border-bottom: 2px solid var(--line); }
tbody th { font-weight: 500; overflow-wrap: break-word; } .r { text-align: right; white-space: nowrap; }
.bar { width: 22%; min-width: 90px; padding-right: 0; } .bar span { display: block; height: 12px; margin-top: 4px;
  background: var(--c1); border-radius: 2px; min-width: 1px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--line); stroke-width: 1; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--soft); list-style: none;
  margin: 4px 0 0; padding: 0; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 6px; }
footer { margin-top: 40px; border-top: 1px solid var(--line); padding-top: 10px; font-size: 13px; }
@media print { body { font-size: 11px; } main { max-width: none; padding: 0; } section, table, figure { break-inside:
  avoid-page; } h2 { break-after: avoid-page; } .head, .bar span, svg rect, .key i, .warn
  { print-color-adjust: exact; } }
figure { margin: 10px 0 16px; }
"""


def html(page: Page) -> str:
    """The whole file."""
    colours = "".join(f".{name} {{ fill: var(--{name}); background: var(--{name}); }}\n" for name in COLOURS)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(page.title)}</title>\n<style>{_STYLE}{colours}</style>\n</head>\n<body>\n<main>",
            f"<header>\n<h1>{escape(page.title)}</h1>\n<p>{escape(page.subtitle)}</p>\n</header>",
            *(f'<p class="warn" role="note">{escape(one)}</p>' for one in page.warnings),
            f'<div class="heads">{"".join(_headline(one) for one in page.headlines)}</div>',
            *(_section(one) for one in page.sections),
            f"<footer>{''.join(f'<p>{escape(one)}</p>' for one in page.foot)}</footer>",
            "</main>\n</body>\n</html>\n",
        ]
    )


def _headline(one: Headline) -> str:
    note = f'<dd class="note">{escape(one.note)}</dd>' if one.note else ""
    return f'<dl class="head"><dt>{escape(one.label)}</dt><dd>{escape(one.value)}</dd>{note}</dl>'


def _section(one: Section) -> str:
    text = f"<p>{escape(one.text)}</p>" if one.text else ""
    drawn = _figure(one.bars) if one.bars and one.bars.bars else ""
    drawn += f"<figure>{one.drawing}</figure>" if one.drawing else ""
    tables = "".join(_table(table) for table in one.tables if table.rows)
    empty = f"<p>{escape(one.empty)}</p>" if one.empty and not tables else ""
    return f"<section>\n<h2>{escape(one.title)}</h2>\n{text}{drawn}{tables}{empty}\n</section>"


def _table(table: Table) -> str:
    right = [name in table.right for name in table.columns]
    heads = "".join(
        f'<th scope="col"{_class(r)}>{escape(name)}</th>' for name, r in zip(table.columns, right, strict=True)
    )
    heads += '<th scope="col" class="bar">share</th>' if table.shares else ""
    rows = []
    for number, row in enumerate(table.rows):
        first, *others = (
            f"<{tag}{_class(r)}>{escape(cell)}</{'th' if tag.startswith('th') else 'td'}>"
            for tag, cell, r in zip(('th scope="row"', *["td"] * (len(row) - 1)), row, right, strict=True)
        )
        rows.append(f"<tr>{first}{''.join(others)}{_bar(table, number)}</tr>")
    head = f"<caption>{escape(table.caption)}</caption>\n<thead><tr>{heads}</tr></thead>"
    return f'<div class="wide"><table>{head}\n<tbody>\n' + "\n".join(rows) + "\n</tbody></table></div>\n"


def _class(right: bool) -> str:
    return ' class="r"' if right else ""


def _bar(table: Table, number: int) -> str:
    if not table.shares:
        return ""
    width = 100 * max(0.0, min(1.0, table.shares[number]))
    return '<td class="bar">' + (f'<span style="width: {width:.1f}%"></span>' if width else "") + "</td>"


def _figure(bars: Bars) -> str:
    used = [i for i in range(len(bars.stack)) if any(amounts[i] for _, amounts in bars.bars)]
    key = "".join(f'<li><i class="{COLOURS[i % len(COLOURS)]}"></i>{escape(bars.stack[i])}</li>' for i in used)
    return f'<figure>{_svg(bars)}<ul class="key">{key}</ul></figure>'


def _svg(bars: Bars) -> str:
    highest = max(sum(amounts) for _, amounts in bars.bars) or 1.0
    step = nice(highest / 4)
    top = step * -(-highest // step)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _BELOW}" role="img" aria-label="{escape(bars.caption, quote=True)}">',
        f"<title>{escape(bars.caption)}</title>",
    ]
    for number in range(round(top / step) + 1):
        y = _HEIGHT - (_HEIGHT - 10) * number * step / top
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = f"{bars.unit}{number * step:,.4g}"
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
    return "".join([*parts, *_drawn(bars, top), "</svg>"])


def _drawn(bars: Bars, top: float) -> list[str]:
    parts: list[str] = []
    width = (_WIDTH - _LEFT) / len(bars.bars)
    every = -(-len(bars.bars) // _LABELS_MAX)
    for number, (label, amounts) in enumerate(bars.bars):
        x = _LEFT + width * number
        for i, (below, amount) in enumerate(zip(accumulate(amounts, initial=0.0), amounts, strict=False)):
            if amount <= 0:
                continue
            height = (_HEIGHT - 10) * amount / top
            y = _HEIGHT - (_HEIGHT - 10) * below / top - height
            said = escape(f"{label}, {bars.stack[i]}: {bars.unit}{amount:,.4g}")
            parts.append(
                f'<rect class="{COLOURS[i % len(COLOURS)]}" x="{x + width * 0.1:.1f}" y="{y:.1f}" '
                f'width="{width * 0.8:.1f}" height="{height:.1f}"><title>{said}</title></rect>'
            )
        if number % every == 0:
            parts.append(
                f'<text x="{x + width / 2:.1f}" y="{_HEIGHT + 16}" text-anchor="middle">{escape(label)}</text>'
            )
    return parts


def nice(amount: float) -> float:
    """The next greater of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** int(f"{amount:e}".partition("e")[2])
    return next(step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0) if step * power >= amount)
