"""Request tracking: folds what was seen of one LLM request into its one terminal event. Pure: no I/O.

``sse`` cuts a byte stream into events, ``openai_shapes`` reads one of them (or a whole body) into a ``chunk.Chunk``,
``tracker.Tracker`` keeps what matters of them with their times and builds the row at the end, whatever the end was
(``endings``). ``ttft_tpot_itl`` computes the latencies, for one request or for thousands at once. ``request_meta`` is
what is known on arrival. ``reasons`` names what could not be read.
"""
