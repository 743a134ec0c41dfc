"""Which engine a request, a GPU or a sample is of: the agent's knowledge of its host's engines, shared by all edges."""
