"""Trials, cells and attempts of every shape, for property tests."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from matrix_runner.records.record import CellRow, Outcome, Reading, Trial, TrialFacts
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures, Sync

#: Anything a console may have said, NUL and other control characters included; never lone surrogates.
texts = st.text(max_size=20)
numbers = st.just(0.0) | st.floats(min_value=1e-30, max_value=1e18, allow_nan=False)
seconds = st.just(0.0) | st.floats(min_value=1e-30, max_value=1e9)  # thirty years
latencies = st.none() | numbers
counts = st.integers(min_value=0, max_value=2**62)

histograms = st.dictionaries(st.integers(0, 10**12), st.integers(1, 10**6), min_size=1, max_size=5).map(Histogram.of)

directions = st.builds(
    Direction,
    bw=numbers,
    iops=numbers,
    bytes=counts,
    ios=counts,
    lat_mean=latencies,
    lat_p50=latencies,
    lat_p90=latencies,
    lat_p95=latencies,
    lat_p99=latencies,
    lat_p999=latencies,
    lat_p9999=latencies,
    lat_max=latencies,
    latencies=st.none() | histograms,
)
of_a_job = st.builds(
    Figures,
    read=st.none() | directions,
    write=st.none() | directions,
    trim=st.none() | directions,
    sync=st.none() | directions.map(lambda one: replace(one, bw=0.0, bytes=0)),
    runtime=numbers,
    cpu_usr=numbers,
    cpu_sys=numbers,
    errors=st.integers(0, 2**31 - 1),
)
figures = st.builds(
    replace,
    of_a_job,
    jobs=st.just({}) | st.dictionaries(texts, of_a_job, min_size=2, max_size=2),
    rebuild=st.none() | st.builds(Sync, seconds=numbers, bw=numbers),
)
readings = st.lists(st.builds(Reading, setting=texts, wanted=st.none() | texts, got=texts), max_size=3).map(tuple)


shares = st.none() | st.just(0.0) | st.floats(min_value=1e-4, max_value=1)
facts = st.builds(
    TrialFacts,
    kernel=texts,
    slow=st.integers(1, 1000),
    settled=st.booleans(),
    saturated=st.booleans(),
    host=texts,
    spread=st.booleans(),
    iowait=shares,
    evenness=shares,
    host_limited_share=shares,
    steady=st.none() | st.booleans(),
    written_in_rounds=st.none() | counts,
    lost=shares,
    lost_late=shares,
    lost_idle=shares,
    lost_transit=shares,
    lost_crowded=shares,
    lost_programs=shares,
    lost_machines=shares,
    cpu_per_io=st.none() | st.integers(0, 10**9).map(float),
    switches_per_io=shares,
    ipis_per_io=shares,
    host_cpu_per_io=st.none() | st.integers(0, 10**9).map(float),
)


def trials(cell: st.SearchStrategy[str], round_number: st.SearchStrategy[int]) -> st.SearchStrategy[Trial]:
    return st.builds(
        Trial,
        cell=cell,
        round=round_number,
        outcome=st.sampled_from(Outcome),
        reason=texts,
        started=texts,
        seconds=seconds,
        attempts=st.integers(1, 9),
        figures=st.none() | figures,
        readings=readings,
        notes=st.dictionaries(texts, texts, max_size=3),
        facts=facts,
        folder=texts,
    )


cell_rows = st.builds(CellRow, id=texts, name=texts, axes=st.dictionaries(texts, texts, max_size=4))
