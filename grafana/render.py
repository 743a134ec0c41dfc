"""JSON of the dashboards, the same bytes for the same tables of ``boards``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from grafana.boards import BOARDS, Annotation, Board, Panel, Recorded
from grafana.sql import FILTERS, counted_sql, grafana_sql, variables_of
from schemas.limits import MINUTE_MS

FOLDER = Path(__file__).with_name("dashboards")
SOURCE = {"type": "grafana-clickhouse-datasource", "uid": "fleetpulse-clickhouse"}
PROMETHEUS = {"type": "prometheus", "uid": "fleetpulse-prometheus"}
COLUMNS = 24
_HEIGHT = {"timeseries": 8, "table": 9, "stat": 4}
_FORMAT = {"timeseries": 0, "table": 1, "stat": 1}
"""The data source's numbers for a series and for a table."""


def panel_sql(board: Board, panel: Panel) -> str:
    """What a panel asks, with Grafana's macros in it."""
    inner = grafana_sql(panel.query, panel.params, whole=panel.rows_max is not None)
    if "counted_s" in panel.select:
        inner = f"SELECT *, {counted_sql(panel.query, panel.time, panel.row_s)} AS counted_s\nFROM (\n{inner}\n)"
    if panel.kind != "timeseries":
        order = f"\nORDER BY {panel.order}" if panel.order else ""
        limit = "" if panel.rows_max is None else f" LIMIT {panel.rows_max}"
        return f"SELECT {panel.select}\nFROM (\n{inner}\n){order}{limit}"
    return f"SELECT fromUnixTimestamp64Milli({panel.time}) AS time, {panel.select}\nFROM (\n{inner}\n)\nORDER BY time"


def annotation_sql(board: Board, one: Annotation) -> str:
    """The query of an annotation, with Grafana's macros in it."""
    return f"SELECT {one.select}\nFROM (\n{grafana_sql(one.query, {})}\n)\nORDER BY time"


def filters_of(board: Board) -> list[str]:
    """Variables that a dashboard has boxes for."""
    texts = [panel_sql(board, panel) for panel in board.panels]
    texts += [annotation_sql(board, one) for one in board.annotations]
    used = frozenset[str]().union(*map(variables_of, texts))
    return [name for name in FILTERS if name in used]


def _title(panel: Panel, sql: str, filters: list[str]) -> str:
    """The title says which boxes of the dashboard the panel does not follow."""
    ignored = [name.replace("_", " ") for name in filters if name not in variables_of(sql)]
    if not ignored:
        return panel.title
    return f"{panel.title} ({'whole fleet' if len(ignored) == len(filters) else 'any ' + ', '.join(ignored)})"


def dashboard(board: Board) -> dict[str, Any]:
    """A whole dashboard."""
    used = filters_of(board)
    panels = _placed([*(_panel(board, panel, used) for panel in board.panels), *map(_recorded, board.recorded)])
    return {
        "uid": f"fleetpulse-{board.name}",
        "title": f"fleetpulse: {board.title}",
        "description": board.says,
        "tags": ["fleetpulse"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "timezone": "utc",
        "refresh": "30s",
        "time": {"from": f"now-{board.span_ms // MINUTE_MS}m", "to": "now"},
        "links": [{"type": "dashboards", "title": "fleetpulse", "tags": ["fleetpulse"], "asDropdown": True}],
        "templating": {"list": [_variable(name) for name in used]},
        "annotations": {"list": [_annotation(board, one) for one in board.annotations]},
        "panels": panels,
    }


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "textbox",
        "label": name.replace("_", " "),
        "description": "only this value; empty takes all",
        "query": "",
        "current": {"text": "", "value": ""},
        "options": [{"text": "", "value": "", "selected": True}],
    }


def _annotation(board: Board, one: Annotation) -> dict[str, Any]:
    return {
        "name": one.name,
        "datasource": SOURCE,
        "enable": True,
        "iconColor": one.colour,
        "target": _target("Anno", "table", 1, annotation_sql(board, one)),
    }


def _target(ref: str, query_type: str, form: int, sql: str) -> dict[str, Any]:
    return {
        "refId": ref,
        "datasource": SOURCE,
        "editorType": "sql",
        "queryType": query_type,
        "format": form,
        "rawSql": sql,
    }


def _panel(board: Board, panel: Panel, filters: list[str]) -> dict[str, Any]:
    query_type = "timeseries" if panel.kind == "timeseries" else "table"
    sql = panel_sql(board, panel)
    target = _target("A", query_type, _FORMAT[panel.kind], sql)
    return {
        "type": panel.kind,
        "title": _title(panel, sql, filters),
        "datasource": SOURCE,
        "targets": [target],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": [_override(*one) for one in panel.units.items()]},
        "options": _OPTIONS[panel.kind],
        "gridPos": {"w": panel.width, "h": _HEIGHT[panel.kind]},
    }


def _recorded(one: Recorded) -> dict[str, Any]:
    legend = f"{one.legend} {{{{namespace}}}}"
    target = {"refId": "A", "datasource": PROMETHEUS, "expr": one.expression, "legendFormat": legend, "range": True}
    custom = {"fillOpacity": 5, "showPoints": "never", "spanNulls": False}
    return {
        "type": "timeseries",
        "title": one.title,
        "description": f"normal: {one.normal}",
        "datasource": PROMETHEUS,
        "targets": [target],
        "fieldConfig": {"defaults": {"unit": one.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": _OPTIONS["timeseries"],
        "gridPos": {"w": one.width, "h": _HEIGHT["timeseries"]},
    }


_OPTIONS: dict[str, dict[str, Any]] = {
    "timeseries": {
        "tooltip": {"mode": "multi", "sort": "desc"},
        "legend": {"displayMode": "list", "placement": "bottom"},
    },
    "table": {"cellHeight": "sm", "showHeader": True},
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "none"},
}


def _defaults(panel: Panel) -> dict[str, Any]:
    if panel.kind != "timeseries":
        return {"unit": panel.unit}
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    custom = {
        "fillOpacity": 30 if panel.stacked else 5,
        "stacking": stacking,
        "showPoints": "never",
        "spanNulls": False,
    }
    return {"unit": panel.unit, "min": 0, "custom": custom}


def _override(column: str, unit: str) -> dict[str, Any]:
    return {"matcher": {"id": "byName", "options": column}, "properties": [{"id": "unit", "value": unit}]}


def _placed(panels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Panels beside each other until a line is full; ids count from 1."""
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        place = panel["gridPos"]
        if x + place["w"] > COLUMNS:
            x, y, height = 0, y + height, 0
        panel["id"], place["x"], place["y"] = number, x, y
        x, height = x + place["w"], max(height, place["h"])
    return panels


def text(board: Board) -> str:
    """A dashboard's file."""
    return json.dumps(dashboard(board), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write(folder: Path = FOLDER) -> list[Path]:
    """Write all dashboards and return their paths."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{board.name}.json" for board in BOARDS]
    for path, board in zip(paths, BOARDS, strict=True):
        path.write_text(text(board), encoding="utf-8")
    return paths
