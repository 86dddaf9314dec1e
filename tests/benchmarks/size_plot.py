"""A plot as SVG: a few lines over the number of passages."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 34, 34
COLOURS = ("#3366cc", "#dc3912", "#ff9900", "#109618", "#990099")


def plot(title: str, lines: Mapping[str, Mapping[int, float]]) -> str:
    """Lines by name, each as passages -> value; both axes begin at 0."""
    across = max((n for line in lines.values() for n in line), default=1)
    most = max((value for line in lines.values() for value in line.values()), default=0.0) or 1.0
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(n: float) -> float:
        return LEFT + wide * n / across

    def y(value: float) -> float:
        return TOP + high * (1 - value / most)

    out = [f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>']
    for part in range(5):
        value = most * part / 4
        out.append(f'<path d="M{LEFT} {y(value):.1f}h{wide}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>')
        n = across * part / 4
        out.append(f'<text x="{x(n):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{n:,.0f}</text>')
    for at, (name, line) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        points = " ".join(f"{x(n):.1f},{y(value):.1f}" for n, value in sorted(line.items()))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x(n):.1f}" cy="{y(v):.1f}" r="3" fill="{colour}"/>' for n, v in line.items()]
        row = TOP + 12 + 18 * at
        out.append(f'<text x="{WIDTH - RIGHT + 12}" y="{row}" fill="{colour}">{escape(name)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="system-ui" font-size="11">{"".join(out)}</svg>'
    )
