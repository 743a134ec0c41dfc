"""The topic contract: topics, headers, placement, verdicts and admission."""
