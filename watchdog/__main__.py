"""`python -m watchdog` is the command `watchdog`."""

from watchdog.cli import main

if __name__ == "__main__":
    main(prog_name="watchdog")
