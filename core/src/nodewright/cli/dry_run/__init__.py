"""One loop without its writes, on a dump or on a live cluster."""
