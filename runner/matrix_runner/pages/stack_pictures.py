"""Pictures of stacks: a box for each group of disks and each layer, and arrows from what a layer uses."""

from collections.abc import Sequence
from dataclasses import dataclass

from matrix_runner.answers.axes import grouped
from matrix_runner.base.findings import few
from matrix_runner.pages.run_data import RunData
from matrix_runner.pages.terminal_text import volume
from matrix_runner.records.run_folder import StackBox

WIDTH, HEIGHT = 225, 40  # of a box, in pixels
_STEP, _RISE = 250, 66  # from box to box
_NAMED = 3  # stacks that a title names


@dataclass(frozen=True, slots=True)
class PlacedBox:
    box: StackBox
    x: int
    y: int
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def about(self) -> str:
        one, size = self.box, volume(self.box.size)
        return f"{one.devices} {one.noun}, {size} each" if one.devices > 1 else f"{one.noun.removesuffix('s')}, {size}"


@dataclass(frozen=True, slots=True)
class Arrow:
    """From the middle of the lower box up: into the box above, or past others into the side of one."""

    lower: PlacedBox
    upper: PlacedBox
    text: str  # what the upper box uses the lower one for; empty: its data

    @property
    def path(self) -> str:
        start, middle = self.lower.x + WIDTH // 2, self.upper.y + HEIGHT // 2
        if self.lower.x == self.upper.x:
            return f"M{start} {self.lower.y}V{self.upper.y + HEIGHT}m-4 8l4 -8l4 8"
        return f"M{start} {self.lower.y}V{middle}H{self.upper.x + WIDTH}m8 -4l-8 4l8 4"


@dataclass(frozen=True, slots=True)
class StackPicture:
    title: str
    boxes: Sequence[PlacedBox]
    arrows: Sequence[Arrow]

    @property
    def width(self) -> int:
        return max(one.x for one in self.boxes) + WIDTH + 1

    @property
    def height(self) -> int:
        return max(one.y for one in self.boxes) + HEIGHT + 1


def stack_pictures(recorded: RunData) -> list[StackPicture]:
    """Draw each stack. Those that look the same share a picture."""
    alike = grouped((facts.boxes, name) for name, facts in recorded.stacks.items())
    return [_picture(few(names, _NAMED), boxes) for boxes, names in alike.items() if boxes]


def _picture(title: str, boxes: Sequence[StackBox]) -> StackPicture:
    used = {number for box in boxes for number, _ in box.below} | {len(boxes) - 1}
    places = dict[int, tuple[int, int]]()  # by number of the box: its column and row
    columns = 0
    for number in sorted(used):
        below = [places[one] for one, _ in boxes[number].below]
        places[number] = min(below)[0] if below else columns, max((row for _, row in below), default=-1) + 1
        columns += not below
    top = max(row for _, row in places.values())
    placed = {
        number: PlacedBox(boxes[number], column * _STEP + 1, (top - row) * _RISE + 1)
        for number, (column, row) in places.items()
    }
    arrows = [Arrow(placed[number], one, text) for one in placed.values() for number, text in one.box.below]
    return StackPicture(title, list(placed.values()), arrows)
