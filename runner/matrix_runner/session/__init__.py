"""The application: build a request, lease disks, execute, finish."""
