"""Diagrams: the flow of data, a layout and its stack, rounds, and a simulated disk."""

from __future__ import annotations

from docs.pictures.svg import WIDTH, Picture

#: Steps that only compute, and steps that touch the world.
_PURE, _ACTS = "blue", "orange"


def data_flow() -> Picture:
    picture = Picture(
        "Data flow of matrix",
        "A YAML file is loaded to a matrix and expanded to cells. Cells are scheduled in batches, which are rendered "
        "to scripts and fio jobs. These are executed on a rig, which gives fio JSON, read-back and monitors. They "
        "are recorded in the journal and copied to the store. Verdicts and reports come from the journal for one run, "
        "and from the store for many. After each batch, the journal informs the scheduler.",
        482,
    )
    width, height = 164, 70
    columns, rows = (46, 278, 510), (22, 172, 322)
    boxes = (
        (("YAML file", "layouts, workloads"), ("matrix", "checked model"), ("cells", "one combination each")),
        (("batches", "a stack, its cells"), ("scripts, fio jobs", "bash and INI files"), ("raw outputs",)),
        (("journal", "every trial"), ("store", "all runs"), ("verdicts, reports", "HTML, CSV, JUnit")),
    )
    for y, row in zip(rows, boxes, strict=True):
        for x, lines in zip(columns, row, strict=True):
            more = ("fio JSON, read-back,", "monitors") if lines == ("raw outputs",) else ()
            picture.box((x, y), (width, height), *lines, *more)
    steps = (
        ((("load",), _ACTS), (("expand",), _PURE)),
        ((("render",), _PURE), (("execute", "on a rig"), _ACTS)),
        ((("copy",), _ACTS), (("analyse",), _PURE)),
    )
    for y, row_steps in zip(rows, steps, strict=True):
        for x, (words, colour) in zip(columns, row_steps, strict=False):
            start, end = x + width + 2, x + width + 66
            picture.arrow((start, y + 35), (end, y + 35), colour=colour)
            for place, word in enumerate(words):
                picture.text(((start + end) / 2 - 3, y + 27 + place * 26), word, colour=colour)
    for y, word, colour in ((rows[0], "schedule", _PURE), (rows[1], "record", _ACTS)):
        right, left, middle = columns[2] + width / 2, columns[0] + width / 2, y + 110
        picture.arrow((right, y + 73), (right, middle), (left, middle), (left, y + 147), colour=colour)
        picture.text((WIDTH / 2, middle - 8), word, colour=colour)
    picture.arrow((44, 357), (20, 357), (20, 207), (44, 207), colour="faint", dashed=True)
    picture.text((30, 272), "next batch", "small", anchor="start", colour="faint")
    picture.arrow((columns[0] + width / 2, 395), (columns[0] + width / 2, 424), (592, 424), (592, 395), colour=_PURE)
    picture.text((WIDTH / 2 + 10, 417), "evaluate and report this run", colour=_PURE)
    picture.line((46, 457), (78, 457), colour=_PURE, width=3)
    picture.text((86, 462), "only computes", "small", anchor="start")
    picture.line((216, 457), (248, 457), colour=_ACTS, width=3)
    picture.text((256, 462), "uses files, disks or processes", "small", anchor="start")
    return picture


def layout_stack() -> Picture:
    picture = Picture(
        "A layout and its stack",
        "At the left, the YAML of a layout: md with level 5 and chunk 64KiB, lvm, fs with type ext4. At the right, the "
        "stack that it declares, from four disks at the bottom: md RAID 5, LVM, and ext4 at the top, with fio over it.",
        380,
    )
    picture.text((20, 34), "The layout", "title", anchor="start")
    picture.rectangle((20, 50), (290, 162), fill="panel")
    lines = ("layouts:", "  nas:", "  - md: {level: 5, chunk: 64KiB}", "  - lvm: {}", "  - fs: {type: ext4}")
    for place, line in enumerate(lines):
        picture.text((30, 78 + place * 28), line, "mono", anchor="start")
    picture.text((20, 246), "The order is from the disks upwards.", "small", anchor="start", colour="faint")
    picture.text((430, 34), "The stack", "title", anchor="start")
    layers = (
        ("fio", "reads and writes a file", "grey"),
        ("fs: ext4", "a file system", "green"),
        ("lvm", "a logical volume", "purple"),
        ("md: RAID 5", "chunks of 64 KiB, parity in turn", "orange"),
    )
    for place, (name, meaning, colour) in enumerate(layers):
        picture.box((430, 50 + place * 64), (250, 52), name, meaning, colour=colour, dashed=name == "fio")
    for disk in range(4):
        picture.box((430 + disk * 64, 306), (58, 52), f"disk {disk}", colour="blue", small=0)
    for place, (colour, y, layer) in enumerate((("orange", 134, 268), ("purple", 162, 204), ("green", 190, 140))):
        for x, at in ((330, y - 5), (408, layer)):
            picture.dot((x, at), colour=colour, radius=10, hollow=True)
            picture.text((x, at + 5), str(place + 1), "strong", colour=colour)
    return picture


#: The order of `matrix run --on dry` for the example in cells-rounds-rigs.md: stacks, with reads and writes in turn.
_ROUNDS = (
    (("5, 64K", "wr"), ("6, 512K", "wr"), ("5, 512K", "wr"), ("6, 64K", "rw"), ("single", "rw")),
    (("6, 512K", "wr"), ("5, 512K", "wr"), ("6, 64K", "rw"), ("single", "rw"), ("5, 64K", "wr")),
    (("5, 64K", "rw"), ("5, 512K", "wr"), ("6, 512K", "wr"), ("single", "rw"), ("6, 64K", "rw")),
)
_HUES = {"single": "grey", "5, 64K": "blue", "5, 512K": "green", "6, 64K": "orange", "6, 512K": "purple"}


def rounds() -> Picture:
    picture = Picture(
        "Three rounds of a run",
        "Each of three rounds has all ten cells, as five batches of two cells. A batch has one stack. The order of the "
        "batches, and of the cells in them, differs between rounds.",
        388,
    )
    left, width, height = 94, 112, 78
    for row, batches in enumerate(_ROUNDS):
        y = 22 + row * 98
        picture.text((16, y + 45), f"Round {row + 1}", "strong", anchor="start")
        for column, (stack, order) in enumerate(batches):
            x, hue = left + column * (width + 7), _HUES[stack]
            picture.rectangle((x, y), (width, height), fill=f"{hue}-tint", line=hue)
            picture.text((x + width / 2, y + 24), stack if stack == "single" else f"RAID {stack}", "small strong")
            picture.rectangle((x + 8, y + 36), (6, 32), fill=hue)
            for place, kind in enumerate(order):
                at = x + 19 + place * 44
                picture.rectangle((at, y + 36), (40, 32), fill="ground", line=hue)
                picture.text((at + 20, y + 57), "read" if kind == "r" else "write", "small")
    picture.arrow((left, 326), (684, 326), colour="faint")
    picture.text((16, 331), "time", "small", anchor="start", colour="faint")
    for x, words in ((94, "batch: one stack"), (290, "build of the stack"), (500, "trial of a cell")):
        picture.text((x + 36, 363), words, "small", anchor="start")
    picture.rectangle((94, 345), (28, 26), fill="grey-tint", line="grey")
    picture.rectangle((306, 345), (6, 26), fill="grey")
    picture.rectangle((500, 345), (28, 26), fill="ground", line="grey")
    return picture


def simulated_disk() -> Picture:
    picture = Picture(
        "A request to a simulated disk",
        "A request goes from fio through the kernel of the virtual machine (file system, LVM, md, scheduler), its bus, "
        "QEMU and the disk server. The server reads or writes the data in a file of the host. Its physics gives the "
        "time when the answer is due: after seek, rotation and transfer. The server waits until then and answers.",
        420,
    )
    picture.rectangle((16, 16), (238, 258), fill="ground", line="rule", dashed=True)
    picture.text((135, 38), "virtual machine", "small", colour="faint")
    picture.box((36, 50), (198, 46), "fio", colour="green")
    picture.box((36, 124), (198, 62), "kernel", "ext4, LVM, md, scheduler", colour="green")
    picture.box((36, 208), (198, 58), "bus", "SATA, SCSI, NVMe", colour="green")
    picture.box((306, 208), (100, 58), "QEMU", colour="grey")
    picture.rectangle((458, 16), (226, 258), fill="ground", line="rule", dashed=True)
    picture.text((571, 38), "disk server (nbdkit)", "small", colour="faint")
    picture.box((476, 50), (190, 76), "physics", "when is the answer due?", colour="orange")
    picture.box((476, 208), (190, 58), "server", "waits, then answers", colour="orange")
    for x, start, end in ((115, 96, 124), (115, 186, 208)):
        picture.arrow((x, start), (x, end), colour="blue")
        picture.arrow((x + 40, end), (x + 40, start), colour="purple", dashed=True)
    for start, end in ((234, 306), (406, 476)):
        picture.arrow((start, 234), (end, 234), colour="blue")
        picture.arrow((end, 252), (start, 252), colour="purple", dashed=True)
    picture.arrow((551, 208), (551, 126), colour="orange")
    picture.arrow((591, 126), (591, 208), colour="orange")
    picture.text((543, 171), "request", "small", anchor="end", colour="orange")
    picture.text((600, 171), "due time", "small", anchor="start", colour="orange")
    picture.box((306, 50), (100, 58), "file", "on the host")
    picture.arrow((430, 79), (406, 79), colour="grey")
    picture.arrow((430, 79), (430, 218), (474, 218), colour="grey")
    picture.text((422, 150), "data", "small", anchor="end", colour="faint")
    _time_line(picture)
    return picture


def _time_line(picture: Picture) -> None:
    """Draw the parts of the simulated time, under the way of a request."""
    top = 322
    for start, end, words, hue in (
        (120, 300, "seek", "orange"),
        (300, 480, "rotation", "orange"),
        (480, 560, "transfer", "orange"),
    ):
        picture.box((start, top), (end - start, 34), words, colour=hue, small=0)
    picture.text((16, top + 22), "One request:", "small", anchor="start")
    picture.line((120, top - 8), (120, top + 42), colour="blue")
    picture.line((150, top + 34), (150, top + 42), colour="grey")
    picture.line((560, top - 8), (560, top + 42), colour="purple")
    picture.text((120, top - 14), "request arrives", "small", colour="blue")
    picture.text((560, top - 14), "answer is due, and leaves", "small", colour="purple")
    picture.text((150, top + 60), "data is ready", "small", colour="faint")
    picture.text((355, top + 60), "the server waits", "small", colour="faint")
    picture.arrow((420, top + 55), (554, top + 55), colour="faint")
    picture.text((684, top + 84), "solid blue: request; dashed: answer", "small", anchor="end", colour="faint")
