"""What fio is told, and what it answers."""
