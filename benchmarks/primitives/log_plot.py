"""A log-log line plot as SVG, without a plotting library."""

import math
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 560, 340, 70, 46, 30, 190
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#555555")


def write(path: Path, title: str, across: str, up: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    """Write one file; a line's name that starts with ``(`` is drawn dashed."""
    points = [point for line in lines.values() for point in line]
    (x0, x1), (y0, y1) = (_range([point[axis] for point in points]) for axis in (0, 1))

    def place(point: tuple[float, float]) -> str:
        x = LEFT + (math.log10(point[0]) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        y = HEIGHT - BOTTOM - (math.log10(point[1]) - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<text x="{LEFT}" y="18" font-size="13">{title}</text>']
    for power in range(math.ceil(x0), math.floor(x1) + 1):
        x = place((10.0**power, 10**y0)).split(",")[0]
        parts.append(f'<line x1="{x}" y1="{TOP}" x2="{x}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{_power(power)}</text>')
    for power in range(math.ceil(y0), math.floor(y1) + 1):
        y = place((10**x0, 10.0**power)).split(",")[1]
        parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{float(y) + 4}" text-anchor="end">{_power(power)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{across}</text>')
    parts.append(f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{up}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour, dash = COLOURS[number % len(COLOURS)], ' stroke-dasharray="5 4"' if name.startswith("(") else ""
        route = " ".join(place(point) for point in sorted(line))
        parts.append(f'<polyline points="{route}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        y = TOP + 14 + 18 * number
        ends = f'x1="{WIDTH - RIGHT + 8}" y1="{y}" x2="{WIDTH - RIGHT + 30}" y2="{y}"'
        parts.append(f'<line {ends} stroke="{colour}" stroke-width="2"{dash}/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 35}" y="{y + 4}">{name}</text>')
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


def _range(values: list[float]) -> tuple[float, float]:
    logs = [math.log10(value) for value in values]
    return min(logs) - 0.1, max(logs) + 0.1


def _power(power: int) -> str:
    return f'10<tspan dy="-4" font-size="8">{power}</tspan>'
