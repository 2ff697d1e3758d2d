"""Scale-up planning: which groups grow, by how many nodes, for which pods (docs/behaviour/scale-up.md)."""
