"""Lines over two axes that begin at 0, as SVG."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LEFT, WIDTH, TOP = 60, 660, 40
RIGHT = LEFT + WIDTH


@dataclass(frozen=True, kw_only=True)
class Axes:
    """``most_x`` and ``most_y`` are where the axes end; ``unit`` stands after the figures below."""

    height: int
    most_x: float
    most_y: float
    unit: str = ""

    @property
    def floor(self) -> int:
        return TOP + self.height

    def places(self, curve: Iterable[tuple[float, float]]) -> list[tuple[str, str]]:
        """Where in the picture points of a curve lie."""
        return [
            (f"{LEFT + WIDTH * x / self.most_x:.1f}", f"{self.floor - self.height * y / self.most_y:.1f}")
            for x, y in curve
        ]

    def line(self, curve: Iterable[tuple[float, float]], colour: str) -> str:
        points = " ".join(",".join(place) for place in self.places(curve))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'

    def picture(self, title: str, parts: Sequence[str]) -> str:
        """Return the whole picture, with ``parts`` drawn over the axes."""
        size = f'viewBox="0 0 {RIGHT + 30} {self.floor + 50}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">',
            f'<rect width="{RIGHT + 30}" height="{self.floor + 50}" fill="white"/>',
            f'<text x="{LEFT}" y="22" font-size="14">{title}</text>',
            f'<path d="M{LEFT},{TOP}V{self.floor}H{RIGHT}" fill="none" stroke="#444"/>',
            *(label for share in (0.0, 0.5, 1.0) for label in self._labels(share)),
            *parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _labels(self, share: float) -> tuple[str, str]:
        x, y = LEFT + WIDTH * share, self.floor - self.height * share
        below = f"{self.most_x * share:.0f}{self.unit}"
        return (
            f'<text x="{LEFT - 6}" y="{y + 4:.0f}" font-size="11" text-anchor="end">{self.most_y * share:.0f}</text>',
            f'<text x="{x:.0f}" y="{self.floor + 16}" font-size="11" text-anchor="middle">{below}</text>',
        )
