"""A stack as boxes for its picture: groups of disks and layers, from the bottom up."""

from collections.abc import Iterator

from matrix_runner.layers.bare import On
from matrix_runner.layers.geometry import Below
from matrix_runner.records.run_folder import StackBox
from matrix_runner.space.variants import Layers, levels

_DISKS = "disks"


def boxes_of(stack: Layers, disks: Below) -> Iterator[StackBox]:
    groups = {part.name: part.top for part in disks.parts} or {_DISKS: disks}
    tops: dict[str, tuple[int, ...]] = {name: (number,) for number, name in enumerate(groups)}  # of groups and parts
    for name, group in groups.items():
        yield StackBox(name, group.count, _DISKS, group.smallest)
    count, top = len(groups), tops.get(_DISKS, ())
    for layer, below in levels(stack, disks):
        if isinstance(layer, On):
            tops[layer.keep] = top
            top = tuple(number for name in layer.names for number in tops[name])
            continue
        uses = ((number, key) for name, key in layer.parts.items() for number in tops[name])
        above = layer.above(below)
        used = (*((number, "") for number in top), *uses)
        yield StackBox(layer.title, above.count, above.noun, above.smallest, used)
        count, top = count + 1, (count,)
