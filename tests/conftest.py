"""What holds for all tests."""

from hypothesis import settings

# A deadline is a wall-clock assertion: on a loaded host it fails for nothing.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")
