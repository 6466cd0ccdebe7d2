"""What many runs say together: chosen from the shared store, summed up, compared, followed through time."""
