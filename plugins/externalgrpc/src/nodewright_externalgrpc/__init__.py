"""cluster-autoscaler's externalgrpc protocol, both ways: a provider that consumes a server, and a server for providers."""
