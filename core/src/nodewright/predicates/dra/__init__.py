"""Dynamic resource allocation: devices for the claims of pods, as kube-scheduler's structured allocator gives them."""
