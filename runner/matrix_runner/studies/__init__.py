"""Published studies beside measured ones."""
