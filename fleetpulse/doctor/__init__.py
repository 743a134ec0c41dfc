"""What is wrong with a set-up, and the command that mends each of it.

``look_*`` ask the world and return facts; ``judge_*`` make findings of facts and know no network; ``examine`` runs all
of it within time limits.
"""
