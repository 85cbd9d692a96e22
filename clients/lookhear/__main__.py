"""The `lookhear` command, also as `python -m lookhear`."""


def main() -> int:
    """Exit status, as of `commands.main.main`. To load it takes half a second, in which Ctrl-C may
    come already."""
    try:
        from lookhear.commands.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
