"""A recorded /proc in a temporary directory, for edges that a real process cannot be made to show."""

from pathlib import Path


def stat_line(
    pid: int,
    *,
    comm: bytes = b"worker",
    state: str = "S",
    ppid: int = 1,
    cpu: int = 0,
    start: int = 500,
    pages: int = 10,
) -> bytes:
    """The content of /proc/PID/stat; cpu in ticks, half of it user time."""
    user, system = cpu - cpu // 2, cpu // 2
    after = f"{state} {ppid} 1 1 0 -1 4194560 9 8 7 6 {user} {system} 3 4 20 0 2 0 {start} 99999 {pages} 18446744073709551615 1 1"
    return b"%d (%s) %s 0 0\n" % (pid, comm, after.encode())


def status_text(*, rss: int, anon: int, file: int, shmem: int, tracer: int = 0) -> str:
    """The lines of /proc/PID/status that matter, in the order of the kernel; memory in kB."""
    return (
        f"Name:\tworker\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t9\nPid:\t9\nPPid:\t1\nTracerPid:\t{tracer}\n"
        f"VmSize:\t   99999 kB\nVmHWM:\t   88888 kB\nVmRSS:\t   {rss} kB\nRssAnon:\t    {anon} kB\nRssFile:\t    {file} kB\n"
        f"RssShmem:\t       {shmem} kB\nVmData:\t   77 kB\nThreads:\t2\n"
    )


def record(
    root: Path,
    pid: int,
    *,
    children: tuple[int, ...] = (),
    fds: int = 3,
    shmem: int = 4,
    soft: str = "1024",
    **stat: object,
) -> Path:
    """One process with one thread, 100 + 20 + `shmem` kB of memory; its directory."""
    directory = root / str(pid)
    (directory / "fd").mkdir(parents=True, exist_ok=True)
    (directory / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    for number in range(fds):
        (directory / "fd" / str(number)).touch()
    (directory / "stat").write_bytes(stat_line(pid, **stat))  # type: ignore[arg-type]
    (directory / "status").write_text(status_text(rss=120 + shmem, anon=100, file=20, shmem=shmem))
    limits = f"Limit  Soft Limit\nMax processes  7 8 processes\nMax open files            {soft}      4096   files\n"
    (directory / "limits").write_text(limits)
    (directory / "task" / str(pid) / "children").write_text("".join(f"{child} " for child in children))
    return directory
