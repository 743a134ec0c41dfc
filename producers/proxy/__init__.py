"""Proxy: OpenAI-compatible reverse proxy that forwards bytes first and parses them afterwards.

``wire``, ``errors``, ``tenants``, ``upstreams``, ``usage`` and ``deadlines`` decide and do no I/O. ``client_side`` and
``upstream_side`` are the two protocols, ``exchange`` is one request between them, ``stats`` its counters; ``server``
owns them all.
"""
