"""`python -m lookhear`: the same as the `lookhear` command."""

from lookhear.commands.main import main

if __name__ == "__main__":
    raise SystemExit(main())
