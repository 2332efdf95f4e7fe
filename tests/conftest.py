"""What all tests share."""

import signal

from hypothesis import settings

# A slow moment of a shared machine is no defect; pytest-timeout ends what hangs.
settings.register_profile("ssbench", deadline=None)
settings.load_profile("ssbench")

# A shell starts what goes to its background deaf to Ctrl-C, and that is inherited.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
