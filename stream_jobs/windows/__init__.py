"""The windows job: events in, additive rows per window and series out, each event once.

``step`` joins the parts: ``dedup`` (duplicates), ``series`` (which labels keep their names), ``sums`` (numbers),
``histograms`` (bins), ``books`` (accounting of every event), ``emit`` (rows as Native blocks), ``snapshot`` (state as
bytes).
"""
