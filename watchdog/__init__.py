"""worker-watchdog: notices that a supervisord program no longer works, proves it, and restarts that one program."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("worker-watchdog")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"
