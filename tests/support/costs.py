"""Costs that make sums easy to follow."""

from types import MappingProxyType

from matrix_runner.decide.costs import Costs


def free(bandwidth: float = 1e8, *, trial: float = 0.0, set_up: float = 0.0, waits: bool = True) -> Costs:
    """Only reading and writing takes time, and what is named."""
    return Costs(
        rig=0.0,
        disk=0.0,
        set_up=set_up,
        layers=MappingProxyType({}),
        trial=trial,
        first=0.0,
        files=0.0,
        lay_out=0.0,
        bandwidth=bandwidth,
        requests=1e12,
        computed=MappingProxyType({}),
        program=0.0,
        waits=waits,
    )
