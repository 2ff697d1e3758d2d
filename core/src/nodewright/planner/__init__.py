"""Pure decisions: from ClusterState to a Plan with its reasons."""
