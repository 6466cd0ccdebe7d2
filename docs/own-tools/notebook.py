"""A notebook over a store or a journal: `marimo edit docs/own-tools/notebook.py -- --store results/store.db`."""

import marimo

app = marimo.App(width="medium", app_title="Results of matrix")


@app.cell
def _():
    import json
    import sqlite3

    import altair
    import marimo as mo
    import pandas

    return altair, json, mo, pandas, sqlite3


@app.cell
def _(json, mo, pandas, sqlite3):
    store = mo.cli_args().get("store") or "results/store.db"
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    rows = pandas.read_sql("SELECT * FROM v_trials WHERE outcome = 'measured' AND unsettled = ''", connection)
    connection.close()
    axes = pandas.json_normalize(list(rows.pop("axes").map(json.loads))).drop(columns=["layout", "workload"])
    trials = rows.join(axes)
    return axes, store, trials


@app.cell
def _(axes, mo, trials):
    several = ["layout", "workload", *(name for name in axes if trials[name].nunique() > 1)]
    figures = [name for name in trials.filter(regex="_(bw|iops|lat_p|lat_mean|seconds)") if trials[name].notna().any()]
    figure = mo.ui.dropdown(figures, value=figures[0], label="figure")
    down = mo.ui.dropdown(several, value=several[0], label="rows")
    across = mo.ui.dropdown(several, value=several[-1], label="columns")
    mo.hstack([figure, down, across], justify="start")
    return across, down, figure


@app.cell
def _(down, across, figure, mo, store, trials):
    keys = list(dict.fromkeys([down.value, across.value]))
    table = trials.groupby(keys)[figure.value].agg(["mean", "std", "count"]).reset_index()
    synthetic = " Some of them are synthetic: not measured." if trials["synthetic"].any() else ""
    mo.vstack([mo.md(f"`{figure.value}` of {len(trials)} trials in `{store}`.{synthetic}"), table])
    return


@app.cell
def _(across, altair, down, figure, trials):
    chosen = trials[[*dict.fromkeys(["name", down.value, across.value]), figure.value]]
    plain = chosen.rename(columns=lambda name: name.replace(".", "_"))  # Vega reads a dot as a path
    y, x, colour = (name.replace(".", "_") for name in (figure.value, across.value, down.value))
    chart = (
        altair.Chart(plain)
        .mark_point()
        .encode(
            x=altair.X(f"{x}:N", title=across.value),
            xOffset=f"{colour}:N",
            y=altair.Y(f"{y}:Q", title=figure.value),
            color=altair.Color(f"{colour}:N", title=down.value),
            tooltip="name:N",
        )
        .properties(width=500)
    )
    chart  # noqa: B018 - what a cell shows
    return


if __name__ == "__main__":
    app.run()
