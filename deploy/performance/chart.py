"""Draws what growth costs as SVG: rates over the number of records, each beside its own at the smallest set."""

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 64, 250, 44, 52
# Told apart by those who see no colours, too: each line has its name at its end.
LINES = [
    ("W1a, store", lambda row: row["w1aPerSecond"], "#1f5fa8"),
    ("W1b, store", lambda row: row["w1bPerSecond"], "#b3541e"),
    ("W2, store", lambda row: row["pulledPerSecond"], "#2e7d4f"),
    ("W1a, installation", lambda row: row["stack"]["w1aPerSecond"], "#7a3e9d"),
    ("W1b, installation", lambda row: row["stack"]["w1bPerSecond"], "#a8324a"),
    ("W2, installation", lambda row: row["stack"]["w2PerSecond"], "#4a4a4a"),
]


def growth(rows):
    """The picture of measured sets, in ascending order of their counts."""
    import math

    first, last = math.log10(rows[0]["count"]), math.log10(rows[-1]["count"])
    top = max(1.25, max(value(row) / value(rows[0]) for _, value, _ in LINES for row in rows) * 1.05)

    def x(count):
        return LEFT + (math.log10(count) - first) / max(last - first, 1e-9) * (WIDTH - LEFT - RIGHT)

    def y(ratio):
        return HEIGHT - BOTTOM - ratio / top * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             "<title>Saves and pulls a second over the number of records</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
             f'<text x="{LEFT}" y="22" font-size="14">Records a second, as parts of those with {text(rows[0]["count"])} records</text>']
    ratio = 0.0
    while ratio <= top:
        parts.append(f'<line x1="{LEFT}" y1="{y(ratio):.1f}" x2="{WIDTH - RIGHT}" y2="{y(ratio):.1f}" stroke="{"#888888" if ratio == 0 else "#dddddd"}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio * 100:.0f} %</text>')
        ratio += 0.25
    for row in rows:
        parts.append(f'<text x="{x(row["count"]):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{text(row["count"])}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 12}" text-anchor="middle">records in four shards</text>')
    ends = []
    for name, value, colour in LINES:
        points = [(x(row["count"]), y(value(row) / value(rows[0]))) for row in rows]
        parts.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        ends.append([points[-1][1], f"{name}: {text(value(rows[-1]))}", colour, points[-1]])
    # Names at the ends of their lines, none upon another.
    ends.sort(key=lambda end: end[0])
    below = TOP
    for end in ends:
        end[0] = below = max(end[0], below + 16)
    above = HEIGHT - BOTTOM + 8
    for end in reversed(ends):
        end[0] = above = min(end[0], above - 16)
    for place, name, colour, (a, b) in ends:
        parts.append(f'<line x1="{a + 5:.1f}" y1="{b:.1f}" x2="{WIDTH - RIGHT + 22}" y2="{place:.1f}" stroke="{colour}" stroke-width="0.7"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 26}" y="{place + 4:.1f}" fill="{colour}">{name}/s</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def text(count):
    return f"{round(count):,}".replace(",", " ")
