"""Auto Scaling groups of AWS as node groups of nodewright."""
