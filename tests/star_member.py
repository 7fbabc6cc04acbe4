"""Run by test_distributed in networks of its own: a process that talks to another until that is lost, and says so."""

import sys
import time

from seponet.distributed.group import ProcessLost
from seponet.distributed.launch import Launch
from seponet.distributed.star import Star


def main(index: str) -> None:
    star = Star(Launch("flags", 2, int(index), "10.77.0.1", 5000), silence=3.0, grace=60.0)
    star.loaded()
    sys.stdout.write("together\n")
    sys.stdout.flush()
    try:
        while True:
            star.tick()
            time.sleep(0.05)
    except ProcessLost as lost:
        sys.stdout.write(f"{lost}\n")


if __name__ == "__main__":
    main(sys.argv[1])
