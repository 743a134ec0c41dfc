"""Send alerts to Alertmanager, webhooks, Slack and PagerDuty: at least once, in order per alert."""
