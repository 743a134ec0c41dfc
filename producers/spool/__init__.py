"""The spool: a durable queue on one host's disk, from which records are sent under identities that they keep.

``spool`` is the queue itself, ``backlog`` what of it was not handed out yet. ``segment`` and ``segment_log`` are its
files, ``frame`` the bytes of a record in them. ``ack_state`` keeps ``books`` and the low-water mark in ``slots``, small
areas that a kill in the middle of a write leaves whole. ``identity`` names the spool and its boots.
"""
