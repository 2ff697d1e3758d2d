"""Lists of the cluster that are wrong for a while: without pods, without some of them, or of a moment that is over."""

from nodewright.engine.ports import ClusterPicture

NO_PODS, HALF_OF_THE_PODS, STALE = "no_pods", "half_of_the_pods", "stale"


class Misreads:
    """Shows a picture as a broken API server would; one node that is looked at by its name is always shown as it is."""

    def __init__(self) -> None:
        self._shows = ""
        self._until = 0.0
        self._held: ClusterPicture | None = None

    def begin(self, shows: str, until: float) -> None:
        """Show the cluster wrong from now ``until`` then (epoch seconds)."""
        self._shows, self._until, self._held = shows, until, None

    def apply(self, picture: ClusterPicture, now: float) -> ClusterPicture:
        if now >= self._until:
            return picture
        if self._shows == STALE:
            self._held = self._held or picture
            return self._held
        return _without(picture, every=1 if self._shows == NO_PODS else 2)


def _without(picture: ClusterPicture, *, every: int) -> ClusterPicture:
    """Return the picture without each pod of which the number divides by ``every``."""
    snapshot, number = picture.snapshot.fork(), 0
    for row, _ in list(snapshot.nodes()):
        for pod in snapshot.pods(row):
            number += 1
            if number % every == 0:
                snapshot.unplace(snapshot.class_of(pod, placed=True), row, pod=pod)
    pending = tuple(pod for place, pod in enumerate(picture.pending, 1) if place % every)
    return ClusterPicture(
        snapshot=snapshot, pending=pending, daemon_sets=picture.daemon_sets, priorities=picture.priorities
    )
