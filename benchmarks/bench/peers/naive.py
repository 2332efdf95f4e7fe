"""python-swiftclient on a monkey-patched gevent: what one would write first.

python naive.py URL USERS SECONDS SIZE     GET the object, or with a SIZE above 0 PUT it
"""

# ruff: noqa: E402 - patched before anything else is imported: that is the point of it
from gevent import monkey

monkey.patch_all()

import sys
import time

import gevent
from swiftclient.client import get_object, http_connection, put_object


def main() -> None:
    """Print how many requests were answered, and in what time."""
    url, container, name = sys.argv[1].rsplit("/", 2)
    users, seconds, size = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    body = b"n" * size
    began = time.perf_counter()
    end = began + seconds

    def user() -> int:
        connection = http_connection(url)
        done = 0
        while time.perf_counter() < end:
            if size:
                put_object(url, "token", container, name, body, http_conn=connection)
            else:
                get_object(url, "token", container, name, http_conn=connection)
            done += 1
        return done

    everybody = [gevent.spawn(user) for _ in range(users)]
    gevent.joinall(everybody, raise_error=True)
    requests = sum(greenlet.value for greenlet in everybody)
    print(f"SAYS {requests} {time.perf_counter() - began:.6f}")


main()
