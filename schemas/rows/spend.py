"""Changes of spend: by how much the bills of a day changed, for whoever adds up what was spent.

A bill is emitted again at each change until it is final; a row holds only the difference. Rows travel on
``window.finals``, each in the transaction that moves the position in ``costs``, so that they are there once: added up
they are what the newest bills say, to the nano-dollar.
"""

from __future__ import annotations

from schemas.fields import Field, Kind, Role, Table

SPEND = Table(
    "spend_changes",
    "spend/1",
    "by how much the bills of a day changed, by tenant and model",
    (
        Field("day_ms", Kind.INT64, Role.TIME, "ms", "start of the day of the bills, event time, UTC"),
        Field("cost_nusd", Kind.INT64, Role.DIFFERENCE, "nUSD", "what is added; below 0 where bills were corrected"),
        Field("tenant", Kind.LABEL, Role.DIMENSION, "", "who pays; null: nobody in particular (idle, wasted)"),
        Field("model", Kind.LABEL, Role.DIMENSION, "", "model as served; null: none"),
    ),
)
