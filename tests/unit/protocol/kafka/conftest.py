"""Hypothesis without a deadline per example: a shared machine is slow at times, codecs are not."""

from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
