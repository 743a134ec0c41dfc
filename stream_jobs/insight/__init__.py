"""From finals to findings: measures by label, baselines, detectors.

Pure and vectorised; event time is the only clock.
"""
