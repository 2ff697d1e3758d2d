"""PodTopologySpread: hard spread constraints hold with one more pod."""

SKEW_REASON = "node(s) didn't match pod topology spread constraints"
KEY_REASON = f"{SKEW_REASON} (missing required label)"
