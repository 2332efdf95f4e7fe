"""``python -m ssbench.embedded``: an embedded Swift until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from ssbench.core.errors import SsbenchError
from ssbench.core.text import DURATION_EXAMPLES, parse_duration
from ssbench.embedded.launcher import EmbeddedSwift
from ssbench.embedded.plan import SwiftOptions

CHECK_EVERY_S = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; returns the exit status."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    swift = EmbeddedSwift(SwiftOptions(**vars(options)))
    try:
        with swift:
            print(announcement(swift), flush=True)
            while swift.is_running():
                time.sleep(CHECK_EVERY_S)
        print("ssbench.embedded: the Swift process ended", file=sys.stderr)
        return 1
    except SsbenchError as e:
        print(f"ssbench.embedded: {e}", file=sys.stderr)
        return e.exit_status
    except KeyboardInterrupt:
        return 0


def parser() -> argparse.ArgumentParser:
    """The destinations of its options are the fields of SwiftOptions."""
    made = argparse.ArgumentParser(
        prog="python -m ssbench.embedded",
        description="Run a throw-away OpenStack Swift on loopback until Ctrl-C.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    made.add_argument("--host", default="127.0.0.1", help="address to listen on; ::1 for IPv6")
    made.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    made.add_argument(
        "--token-life", dest="token_life_s", type=token_life, default=86400, metavar="S",
        help="life of a token",
    )  # fmt: skip
    made.add_argument("--in-memory", action="store_true", help="keep objects in memory")
    made.add_argument("--tls-cert", default="", metavar="FILE", help="PEM file; makes it https")
    made.add_argument("--tls-key", default="", metavar="FILE", help="PEM file of its private key")
    made.add_argument("--directory", metavar="DIR", help="parent of the data directory")
    made.add_argument(
        "--log", dest="log_path", metavar="FILE", help="write a line for each request to FILE"
    )
    return made


def token_life(text: str) -> int:
    try:
        return int(parse_duration(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: give seconds, as in {DURATION_EXAMPLES}"
        ) from None


def announcement(swift: EmbeddedSwift) -> str:
    """URLs and credentials for people, and as lines for a shell."""
    return "\n".join(
        [
            f"auth URL    {swift.auth_url}",
            f"user        {swift.user}",
            f"key         {swift.key}",
            f"storage URL {swift.storage_url}",
            "",
            f"export ST_AUTH={swift.auth_url}",
            f"export ST_USER={swift.user}",
            f"export ST_KEY={swift.key}",
            "",
            "Ctrl-C ends it and removes all its data.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
