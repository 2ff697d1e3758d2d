"""kube-scheduler's filters, one file each: a mask over nodes and an explanation for one."""
