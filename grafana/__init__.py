"""Grafana dashboards as code: ``python -m grafana`` writes ``dashboards/*.json`` of ``boards`` and the query catalogue.

The data source is ``grafana-clickhouse-datasource``; ``provisioning/`` gives it the uid that the dashboards name.
"""
