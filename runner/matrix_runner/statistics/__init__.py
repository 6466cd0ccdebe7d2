"""Numbers with their doubt: pure functions over trials."""
