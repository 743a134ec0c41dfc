"""The request tracking core: what was seen of one LLM request, folded into its one terminal event. Pure: no I/O.

``sse`` cuts a byte stream into events, ``openai_shapes`` reads one of them (or a whole body) into a ``chunk.Chunk``,
``tracker.Tracker`` keeps what matters of them with their times and writes the row at the end, whatever the end was
(``endings``). ``times`` does the arithmetic, for one request or for thousands at once. ``reasons`` names what could
not be read.
"""
