"""nodewright: a Kubernetes node autoscaler whose clouds are plugins."""
