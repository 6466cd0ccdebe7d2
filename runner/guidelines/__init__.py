"""Claims, judged from trials."""
