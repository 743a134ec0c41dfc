"""Write the dashboards: ``python -m grafana``."""

from __future__ import annotations

from grafana.render import write

if __name__ == "__main__":
    write()
