"""The world of the kind ``runonce``: a cluster, a cloud and a clock that follow the rules of its cases."""
