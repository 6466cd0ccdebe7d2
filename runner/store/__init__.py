"""What was measured, on disk before the next trial begins."""
