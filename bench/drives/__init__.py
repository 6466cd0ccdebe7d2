"""Models of named drives: the figures of the drives, the fit, and the page that compares the two."""
