"""What happened beside fio while it worked: pure functions over what the kernel counted."""
