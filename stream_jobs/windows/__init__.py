"""The windows job: events in, additive rows per window and series out, each event once.

``step`` puts the parts together: ``dedup`` (re-sends), ``series`` (which labels keep their names), ``sums`` (numbers),
``histograms`` (bins), ``books`` (what became of every event), ``emit`` (rows as Native blocks), ``snapshot`` (state as
bytes).
"""
