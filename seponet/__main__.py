"""`python -m seponet` is the command `seponet`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
