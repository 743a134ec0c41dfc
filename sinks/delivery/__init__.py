"""Bring alerts to people and machines: Alertmanager, webhooks, chat, pagers. At least once, in order per alert."""
