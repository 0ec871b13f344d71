"""Hypothesis without a deadline per example: a shared machine is slow at times, the codec is not."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
