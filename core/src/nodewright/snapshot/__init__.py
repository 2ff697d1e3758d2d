"""The snapshot of nodes and pods, which is columnar and can be forked, and the Observation that contains it."""
