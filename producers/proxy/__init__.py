"""The proxy: an OpenAI-compatible reverse proxy that passes bytes on first and looks at them afterwards.

``wire``, ``errors``, ``tenants``, ``upstreams``, ``usage`` and ``deadlines`` decide and do no I/O. ``client_side`` and
``upstream_side`` are the two protocols, ``exchange`` is one request between them, ``figures`` what is counted of them,
``server`` owns them all.
"""
