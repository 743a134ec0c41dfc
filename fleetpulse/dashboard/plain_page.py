"""Pages without scripts, for who is not logged in and for addresses that are no page. Pure."""

from __future__ import annotations

import html
from collections.abc import Mapping

PATH_CHARS_MAX = 200
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>fleetpulse: {title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root{{color-scheme:light dark}}body{{font:15px/1.5 system-ui,sans-serif;display:grid;place-items:center;
min-height:100vh;margin:0;background:Canvas;color:CanvasText}}form,main{{display:grid;gap:12px;width:min(360px,90vw)}}
input,button{{font:inherit;padding:9px 11px;border-radius:6px;border:1px solid #8888}}h1,p{{margin:0}}
button{{background:#2563eb;color:#fff;border:0;cursor:pointer}}.w{{color:#dc2626}}code{{overflow-wrap:anywhere}}
nav{{display:flex;flex-wrap:wrap;gap:4px 16px}}</style></head><body><main>{body}</main></body></html>"""


def plain_page(title: str, body: str) -> str:
    """A whole HTML page. ``body`` is HTML: what comes from anybody is escaped in it already."""
    return _PAGE.format(title=html.escape(title), body=body)


def not_found(path: str, pages: Mapping[str, str]) -> str:
    """The page for an address that is none, with the way back: links to ``pages``, titles by path."""
    shown = path if len(path) <= PATH_CHARS_MAX else f"{path[:PATH_CHARS_MAX]}…"
    links = "".join(f'<a href="{html.escape(to)}">{html.escape(title)}</a>' for to, title in pages.items())
    body = f"<h1>No such page</h1><p>This dashboard has no page <code>{html.escape(shown)}</code>. It has these:</p>"
    return plain_page("no such page", f'{body}<nav aria-label="Pages">{links}</nav>')
