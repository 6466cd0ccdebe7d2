"""Where trials run. A machine is one file here and one line in `MACHINES`."""
