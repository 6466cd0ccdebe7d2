"""Requests of batches, and the messages of a process that executes them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson

from matrix_runner.base.version import matrix_version
from matrix_runner.carry.batch_messages import BatchRequest, Message, Order, Outbox
from matrix_runner.session.batch import Batches
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.decide.plan import Batch

ORDER = Order(digest="small", version=matrix_version(), name="sweep.yaml", text=SMALL, machine="dry")


def request_of(batch: Batch, order: Order = ORDER, **more: object) -> BatchRequest:
    cells = tuple(cell.id for cell in batch.cells)
    values = {"token": "one", "order": order, "round": batch.round, "stack": batch.stack.key, "cells": cells}
    return BatchRequest.model_validate(values | more)


def messages_of(scratch: Path, *requests: BatchRequest, hosts: Path | None = None) -> list[Message]:
    lines: list[bytes] = []
    batches = Batches(Outbox(lines.append), scratch, hosts)

    async def execute() -> None:
        for request in requests:
            await batches.execute(request.model_dump_json().encode())

    asyncio.run(execute())
    return [orjson.loads(line) for line in lines]
