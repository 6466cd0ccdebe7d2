"""Clusters on Dask: the only room that imports `distributed`. Other rooms import it only for a run on a cluster."""
