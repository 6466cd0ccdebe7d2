"""What holds for all tests."""

from hypothesis import HealthCheck, settings

from tests.lab import lab

__all__ = ["lab"]

# A deadline is a wall-clock assertion, and so is what calls drawing slow: on a loaded host they fail for nothing.
settings.register_profile("ours", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ours")
