"""What all tests share."""

from hypothesis import settings

# A slow moment of a shared machine is no defect; pytest-timeout ends what hangs.
settings.register_profile("ssbench", deadline=None)
settings.load_profile("ssbench")
