"""Pictures of stacks: each box has a place of its own, and arrows lead to what uses it."""

from __future__ import annotations

from dataclasses import replace

from matrix_runner.pages.html import page
from matrix_runner.pages.stack_pictures import stack_pictures
from matrix_runner.records.run_folder import StackBox, StackFacts
from tests.pages.samples import RUN
from tests.support.begun_runs import manifest
from tests.support.report_files import tree

DISKS, UNUSED, SSD = (StackBox(name, 4, "disks", 10**9) for name in ("hdd", "unused", "ssd"))
RAID = StackBox("RAID 5", 1, "arrays", 3 * 10**9, ((0, ""),))
CACHE = StackBox("writecache", 1, "write-cached devices", 3 * 10**9, ((3, ""), (2, "cache")))
CACHED = StackFacts(capacity=1, boxes=(DISKS, UNUSED, SSD, RAID, CACHE))


def test_boxes_that_nothing_uses_are_left_out_and_no_two_share_a_place() -> None:
    (picture,) = stack_pictures(replace(RUN, stacks={"cached": CACHED}))
    assert [one.box.title for one in picture.boxes] == ["hdd", "ssd", "RAID 5", "writecache"]
    assert len({(one.x, one.y) for one in picture.boxes}) == 4
    heights = {one.box.title: one.y for one in picture.boxes}
    assert heights["writecache"] < heights["RAID 5"] < heights["hdd"] == heights["ssd"]


def test_an_arrow_goes_straight_up_or_past_others_into_the_side() -> None:
    (picture,) = stack_pictures(replace(RUN, stacks={"cached": CACHED}))
    arrows = {(one.lower.box.title, one.upper.box.title): one for one in picture.arrows}
    assert set(arrows) == {("hdd", "RAID 5"), ("RAID 5", "writecache"), ("ssd", "writecache")}
    assert "H" not in arrows["RAID 5", "writecache"].path
    assert "H" in arrows["ssd", "writecache"].path
    assert [one.text for one in picture.arrows] == ["", "", "cache"]


def test_stacks_that_look_the_same_share_a_picture() -> None:
    found = stack_pictures(replace(RUN, stacks={f"s{number}": CACHED for number in range(5)}))
    assert [one.title for one in found] == ["s0, s1, s2 and 2 more"]


def test_the_report_describes_each_picture_in_words() -> None:
    drawn = replace(RUN, stacks={"cached": CACHED})
    tree(drawn)
    text = page(drawn, manifest(), "run").decode()
    assert "From the bottom up: hdd, 4 disks, 1 GB each; ssd, 4 disks, 1 GB each; RAID 5, array, 3 GB;" in text
    assert (
        "Pictures of the stacks"
        not in page(replace(RUN, stacks={"old": StackFacts(capacity=1)}), manifest(), "run").decode()
    )
