"""The `lookhear` command, also as `python -m lookhear`."""

import gc
import sys


def main() -> int:
    """Exit status, as of `commands.main.main`. To load it takes half a second, in which Ctrl-C may
    come already."""
    try:
        from lookhear.commands.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130
    finally:
        # All goes with the process. To look for cycles in it first takes as long as a third of what
        # a short command does. Triton, which few commands have, complains of what is left.
        if "triton" not in sys.modules:
            gc.freeze()


if __name__ == "__main__":
    raise SystemExit(main())
