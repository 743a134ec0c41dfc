"""The web dashboard: pages over named queries of the read-only user. Pure parts decide, thin NiceGUI pages show.

Names of models, tenants and hosts are anybody's text. They reach the browser as text only: in labels, in table cells
and in chart data, never as markup, never as the key of a dictionary (NiceGUI runs keys that begin with a colon).
"""
