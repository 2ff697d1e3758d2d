"""Why a node, a pod, a group, a request or a buffer is as it is."""
