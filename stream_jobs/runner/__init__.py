"""The runner of steps: all input and output of a stream job, the same for every job.

``owner`` is the protocol that gives exactly-once results; it knows only ``ports``. Around it: ``partitions`` (all
partitions of a process and their timing), ``kafka_ports`` (a real broker), and two shells with one behaviour,
``bare_runner`` (an aiokafka loop) and ``faust_runner`` (a Faust worker).
"""
