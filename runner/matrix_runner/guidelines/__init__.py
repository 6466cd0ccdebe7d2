"""Guidelines: claims about figures, and verdicts from trials."""
