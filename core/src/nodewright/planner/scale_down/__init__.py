"""Scale-down, step by step as CA takes them (docs/adr/0009-scale-down.md)."""
