"""Run by test_distributed_train in networks of its own: `seponet` with little patience for silence."""

import sys
from typing import Any

from seponet.cli import main
from seponet.distributed.star import Star

if __name__ == "__main__":
    defaults: Any = Star.__init__.__kwdefaults__
    defaults["silence"] = 3.0
    raise SystemExit(main(sys.argv[1:]))
