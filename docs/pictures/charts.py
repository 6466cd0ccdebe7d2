"""Pictures of statistics. Their data is made up; intervals come from `matrix_runner.statistics`, as in a report."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, TypeVar

from docs.pictures.svg import Picture, Scale
from matrix_runner.statistics.percentile import Histogram, estimated_percentiles
from matrix_runner.statistics.ratios import paired_ratio, student_interval
from matrix_runner.statistics.stopping import Rule, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.statistics.ratios import Interval

T = TypeVar("T")
_TEN = (465.2, 485.8, 447.0, 481.2, 458.9, 461.9, 497.3, 463.4, 462.8, 476.5)
_THREE = (477.0, 480.2, 452.8)
_ROUNDS_A = (552, 541, 536, 522, 513, 505, 488, 481)
_ROUNDS_B = (690, 665, 681, 637, 646, 626, 615, 587)
#: By accident, the first three are near each other and far from the true mean.
_TWELVE = (502, 519, 510, 434, 481, 466, 461, 501, 476, 466, 524, 460)
_TRUE_MEAN = 480
_TWO_STATES = (402, 497, 418, 506, 408, 397, 489, 511, 411, 501)
_LATENCIES = (
    (1, 8, 46, 118, 150, 142, 120, 94, 72, 52, 38, 28, 21, 15, 11, 8, 6, 4, 3, 2, 2, 1, 1, 1),
    (0, 6, 40, 112, 158, 150, 122, 92, 70, 50, 38, 28, 20, 14, 10, 7, 5, 3, 2, 2, 1, 1, 0, 1),
    (1, 9, 48, 120, 148, 138, 118, 95, 73, 54, 40, 30, 22, 17, 13, 10, 7, 6, 4, 3, 2, 2, 1, 0),
    (0, 7, 44, 116, 152, 144, 121, 93, 71, 52, 38, 29, 20, 15, 11, 8, 5, 4, 3, 2, 2, 1, 1, 1),
)
_RUNS = (462, 478, 455, 470, 449)
_NEW_RUN = 459


def _known(value: T | None) -> T:
    if value is None:
        raise ValueError("the data of this picture gives no interval")
    return value


def _interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    return _known(student_interval(values, confidence))


def _axis(picture: Picture, scale: Scale, ticks: Mapping[float, str], y: float) -> None:
    """Draw a horizontal axis."""
    picture.line((scale.start, y), (scale.end, y), colour="faint", width=1.5)
    for tick, text in ticks.items():
        picture.line((scale(tick), y), (scale(tick), y + 5), colour="faint", width=1.5)
        picture.text((scale(tick), y + 21), text, "small", colour="faint")


def _grid(picture: Picture, scale: Scale, ticks: Mapping[float, str], x: tuple[float, float]) -> None:
    """Draw the horizontal lines of an upright axis, with their numbers at the left."""
    for tick, text in ticks.items():
        picture.line((x[0], scale(tick)), (x[1], scale(tick)), colour="rule", width=1)
        picture.text((x[0] - 8, scale(tick) + 5), text, "small", anchor="end", colour="faint")


def interval() -> Picture:
    picture = Picture(
        "More trials give a narrower interval",
        "Two cells have the same mean and the same scatter. With three trials the interval of the mean is ± 7.9 %. "
        "With ten trials it is ± 2.3 %.",
        318,
    )
    up = Scale(425, 515, 268, 54)
    _grid(picture, up, {value: str(value) for value in (430, 450, 470, 490, 510)}, (58, 680))
    picture.text((16, 32), "IOPS", "small", anchor="start", colour="faint")
    picture.text((680, 32), "hollow dots: trials; line: interval of the mean", "small", anchor="end", colour="faint")
    for left, values in ((100, _THREE), (400, _TEN)):
        for place, value in enumerate(values):
            picture.dot((left + place * (130 / (len(values) - 1)), up(value)), hollow=True, colour="faint")
        found = _interval(values)
        x = left + 168
        picture.interval((x, up(found.mean)), up(found.low), up(found.high))
        words = f"± {found.half_width / found.mean:.1%}".replace("%", " %")
        picture.text((x + 14, up(found.mean) + 5), words, "strong", anchor="start", colour="blue")
        picture.text((left + 84, 300), f"{len(values)} trials", "strong")
    return picture


def drift() -> Picture:
    a, b = (dict(enumerate(values)) for values in (_ROUNDS_A, _ROUNDS_B))
    ratio = _known(paired_ratio(a, b))
    picture = Picture(
        "Rounds cancel drift",
        "Over eight rounds the host becomes slower, and both cells fall by about an eighth. Their ratio stays near "
        f"{ratio.ratio:.2f}, with a narrow interval.",
        412,
    )
    across = Scale(1, 8, 90, 560)
    up = Scale(440, 720, 236, 40)
    _grid(picture, up, {value: str(value) for value in (450, 550, 650)}, (58, 600))
    picture.text((16, 26), "IOPS", "small", anchor="start", colour="faint")
    for values, colour, name in ((_ROUNDS_B, "orange", "cell B"), (_ROUNDS_A, "blue", "cell A")):
        points = [(across(place + 1), up(value)) for place, value in enumerate(values)]
        picture.line(*points, colour=colour)
        for point in points:
            picture.dot(point, colour=colour)
        picture.text((612, points[-1][1] + 5), name, "strong", anchor="start", colour=colour)
    below = Scale(1.1, 1.4, 366, 282)
    _grid(picture, below, {value: f"{value:.1f}" for value in (1.1, 1.2, 1.3, 1.4)}, (58, 600))
    picture.text((16, 264), "B / A", "small", anchor="start", colour="faint")
    picture.rectangle((58, below(ratio.high)), (542, below(ratio.low) - below(ratio.high)), fill="green-tint")
    picture.line((58, below(ratio.ratio)), (600, below(ratio.ratio)), colour="green")
    for place in a:
        picture.dot((across(place + 1), below(b[place] / a[place])), colour="green", hollow=True)
        picture.text((across(place + 1), 388), str(place + 1), "small", colour="faint")
    picture.text((612, below(ratio.ratio) - 4), f"{ratio.ratio:.2f}", "strong", anchor="start", colour="green")
    picture.text((612, below(ratio.ratio) + 14), f"{ratio.low:.2f} to {ratio.high:.2f}", "small", anchor="start")
    picture.text((325, 405), "round", "small", colour="faint")
    return picture


def stopping() -> Picture:
    picture = Picture(
        "An early narrow interval can be an accident",
        "The interval of a mean after each of 12 rounds, with until 5 %. After round 3 it is narrow by accident and "
        "does not contain the true mean. Then it is wide. After rounds 9 and 10 it is narrow twice, and matrix stops.",
        418,
    )
    rule = Rule(2, 12, 0.05)
    across = Scale(1, 12, 90, 664)
    up = Scale(405, 555, 318, 58)
    _grid(picture, up, {value: str(value) for value in (420, 450, 480, 510, 540)}, (58, 684))
    picture.text((16, 40), "IOPS", "small", anchor="start", colour="faint")
    picture.line((58, up(_TRUE_MEAN)), (684, up(_TRUE_MEAN)), colour="green", dashed=True)
    picture.text((64, up(_TRUE_MEAN) + 18), "true mean", "small", anchor="start", colour="green")
    for count in range(1, len(_TWELVE) + 1):
        x, later = across(count), count > 10
        picture.text((x, 342), str(count), "small", colour="faint")
        if count < 3:
            continue
        found = _interval(_TWELVE[:count], rule.checked_confidence)
        narrow = found.half_width / found.mean <= 0.05
        colour = "rule" if later else "orange" if count == 3 else "blue" if narrow else "grey"
        low, high = max(found.low, 407), min(found.high, 553)
        picture.interval((x, up(found.mean)), up(low), up(high), colour=colour)
        words = f"{found.half_width / found.mean:.1%}".replace("%", "")
        kind = "small strong" if narrow and not later else "small"
        picture.text((x, 370), words, kind, colour="faint" if later else colour if narrow else "text")
    picture.text((16, 342), "round", "small", anchor="start", colour="faint")
    picture.text((16, 370), "± %", "small", anchor="start", colour="faint")
    picture.text((across(3), 30), "narrow by accident", "small strong", colour="orange")
    picture.arrow((across(3), 36), (across(3), up(537)), colour="orange")
    middle = (across(9) + across(10)) / 2
    picture.text((middle, 30), "narrow twice: stop", "small strong", colour="blue")
    picture.line((across(9) - 8, 62), (across(9) - 8, 48), (across(10) + 8, 48), (across(10) + 8, 62), colour="blue")
    picture.text(
        (16, 404),
        "until: 5%, intervals of 96.25 %. Grey: rounds after the stop, which are not measured.",
        "small",
        anchor="start",
    )
    return picture


def states() -> Picture:
    found = _interval(_TWO_STATES)
    picture = Picture(
        "A mean can hide two states",
        "Ten trials lie in two groups, near 410 and near 500 IOPS. Their mean of 454 IOPS lies between the groups, "
        "where no trial is.",
        206,
    )
    across = Scale(380, 530, 40, 660)
    _axis(picture, across, {value: str(value) for value in range(380, 531, 30)}, 158)
    picture.text((350, 198), "IOPS", "small", colour="faint")
    for place, value in enumerate(_TWO_STATES):
        picture.dot((across(value), 126 - place % 3 * 14), colour="blue", hollow=True, radius=5.5)
    for value, words in ((407, "5 trials"), (501, "5 trials")):
        picture.text((across(value), 76), words, "small")
    picture.interval((across(found.mean), 54), across(found.low), across(found.high), colour="orange", upright=False)
    picture.text((across(found.mean), 34), "mean: 454 IOPS, in no trial", "strong", colour="orange")
    picture.line((across(found.mean), 60), (across(found.mean), 158), colour="orange", dashed=True)
    return picture


def percentile() -> Picture:
    trials = [Histogram.of({place + 1: count for place, count in enumerate(one)}) for one in _LATENCIES]
    (estimate,) = estimated_percentiles(trials, [99.0], Rule(4, 4), StopReason.FIXED)
    p99 = _known(_known(estimate).interval)
    picture = Picture(
        "A percentile counts requests",
        f"A histogram of the latencies of all requests. p99 is {p99.mean:.0f} ms: 99 % of the requests took at most "
        f"that long. Its interval is from {p99.low:.0f} to {p99.high:.0f} ms.",
        322,
    )
    sums = [sum(column) for column in zip(*_LATENCIES, strict=True)]
    across = Scale(0.5, 24.5, 30, 680)
    up = Scale(0, max(sums), 258, 44)
    low, high = across(p99.low), across(p99.high)
    picture.rectangle((low, 84), (high - low, 174), fill="orange-tint")
    for place, count in enumerate(sums, 1):
        left, right = across(place - 0.42), across(place + 0.42)
        top = min(up(count), 256.5)
        picture.rectangle((left, top), (right - left, 258 - top), fill="blue" if place <= p99.mean else "orange")
    _axis(picture, across, {value: str(value) for value in range(2, 25, 2)}, 258)
    picture.text((350, 308), "latency of a request, ms", "small", colour="faint")
    picture.text((30, 28), "requests", "small", anchor="start", colour="faint")
    picture.line((across(p99.mean), 84), (across(p99.mean), 258), colour="orange", dashed=True)
    words = f"p99: {p99.mean:.0f} ms ({p99.low:.0f} to {p99.high:.0f})"
    picture.text((across(p99.mean), 72), words, "strong", colour="orange")
    picture.text((low - 14, 128), "99 % of the requests", "small", anchor="end", colour="blue")
    picture.text((high + 10, 128), "1 %", "small", anchor="start", colour="orange")
    return picture


def comparison() -> Picture:
    picture = Picture(
        "A comparison has four results",
        "Four intervals of the ratio B / A beside the band from 0.95 to 1.05. Above 1: faster. Below 1: slower. All of "
        "it within the band: same. Across 1 and wider than the band: cannot tell.",
        290,
    )
    across = Scale(0.6, 1.4, 150, 670)
    picture.rectangle((across(0.95), 40), (across(1.05) - across(0.95), 194), fill="green-tint")
    picture.line((across(1), 40), (across(1), 234), colour="green", dashed=True)
    picture.text((across(1), 28), "± 5 %", "small strong", colour="green")
    rows = (
        ("faster", 1.12, 1.22, 1.33, "blue"),
        ("slower", 0.7, 0.77, 0.85, "orange"),
        ("same", 0.975, 1.005, 1.035, "green"),
        ("cannot tell", 0.91, 1.04, 1.18, "grey"),
    )
    for place, (name, low, middle, high, colour) in enumerate(rows):
        y = 66 + place * 47
        picture.text((24, y + 5), name, "strong", anchor="start", colour=colour)
        picture.interval((across(middle), y), across(low), across(high), colour=colour, upright=False)
    _axis(picture, across, {value: f"{value:.1f}" for value in (0.6, 0.8, 1.0, 1.2, 1.4)}, 234)
    picture.text((410, 276), "B / A, with its 95 % interval", "small", colour="faint")
    return picture


def runs() -> Picture:
    picture = Picture(
        "Runs differ more than trials",
        "The means of five earlier runs scatter by 4 %, more than the interval of each run. A new run lies within that "
        "scatter, so it does not differ.",
        312,
    )
    up = Scale(432, 496, 262, 44)
    level, spread = fmean(_RUNS), 0.04 * fmean(_RUNS)
    picture.rectangle((58, up(level + spread)), (626, up(level - spread) - up(level + spread)), fill="grey-tint")
    _grid(picture, up, {value: str(value) for value in (440, 460, 480)}, (58, 684))
    picture.text((16, 32), "IOPS", "small", anchor="start", colour="faint")
    picture.text(
        (238, up(level + spread) - 9), "scatter of earlier runs: ± 4 %", "small", anchor="start", colour="grey"
    )
    for place, mean in enumerate((*_RUNS, _NEW_RUN)):
        x, is_new = 120 + place * 98 + (24 if place == len(_RUNS) else 0), place == len(_RUNS)
        colour = "orange" if is_new else "blue"
        picture.interval((x, up(mean)), up(mean - 5), up(mean + 5), colour=colour)
        picture.text(
            (x, 290), "new run" if is_new else f"run {place + 1}", "strong" if is_new else "small", colour=colour
        )
    picture.line((586, 50), (586, 296), colour="faint", width=1, dashed=True)
    return picture
