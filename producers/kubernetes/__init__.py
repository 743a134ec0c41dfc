"""Pods of this node, as Kubernetes knows them: their names, and the serving engines among them."""
