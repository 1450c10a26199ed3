"""supervisord over XML-RPC, with a deadline on every call. May talk to supervisord; may not decide, poll or retry.

Whatever goes wrong is a `Fault`, a value with a kind of our own. Each call has its own connection, so threads may call at once.
"""

from watchdog.supervisor.client import ProgramSettings, Supervisor, SupervisorIdentity
from watchdog.supervisor.fault import Fault, FaultKind
from watchdog.supervisor.places import SOCKETS, discover, find, lock_key
from watchdog.supervisor.rpc import parse_url

__all__ = [
    "SOCKETS",
    "Fault",
    "FaultKind",
    "ProgramSettings",
    "Supervisor",
    "SupervisorIdentity",
    "discover",
    "find",
    "lock_key",
    "parse_url",
]
