"""Attempts to exhaust the machine from within the sandbox, and to outlive it. Each is a program that really tries.

Attempts to reach out are in test_sandbox_escapes_outward.py, those to gain rights in test_sandbox_escapes_rights.py.
Where the machine has no namespaces, every one of these tests asserts that a sandbox is refused.
"""

from __future__ import annotations

import os
import subprocess

from burnish.environments.sandbox import Cause, Ended, NamespaceSandbox
from tests.environments.sandboxed import in_sandbox, managed, python

# Processes


@in_sandbox(cpu_seconds=0.4)
async def test_a_fork_bomb_stays_under_its_limit_and_is_the_candidates_fault(sandbox: NamespaceSandbox) -> None:
    bomb = """
    import os, sys
    while True:
        try:
            os.fork()
        except OSError as error:
            sys.stderr.write('no more')
    """
    result = await python(sandbox, bomb)
    assert result.ended is Ended.CPU_LIMIT
    assert result.failure is not None and result.failure.cause is Cause.CANDIDATE
    assert "no more" in result.stderr.text
    assert (await sandbox.exec(["/bin/true"])).ok  # nothing of it is left


@in_sandbox(cpu_seconds=0.4)
async def test_a_shell_fork_bomb_ends_too(sandbox: NamespaceSandbox) -> None:
    result = await sandbox.exec(["/bin/sh", "-c", "bomb() { bomb | bomb & }; bomb; while :; do :; done"])
    assert result.ended is Ended.CPU_LIMIT
    assert (await sandbox.exec(["/bin/true"])).ok


@in_sandbox()
async def test_processes_and_threads_are_counted(sandbox: NamespaceSandbox) -> None:
    forks = """
    import os, time
    count = 1
    try:
        while count < 100:
            if not os.fork():
                time.sleep(9)
                os._exit(0)
            count += 1
    except OSError:
        print(count)
    """
    threads = """
    import os, threading, time
    count = 1
    threading.stack_size(1 << 16)
    try:
        while count < 100:
            threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
            count += 1
    except RuntimeError:
        print(count, flush=True)
    os._exit(0)
    """
    assert (await python(sandbox, forks)).stdout.text == "16\n"
    assert (await python(sandbox, threads)).stdout.text == "16\n"


@in_sandbox()
async def test_no_process_outlives_its_execution(sandbox: NamespaceSandbox) -> None:
    daemon = """
    import os, signal, time
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
    for number in (1, 2, 15):
        signal.signal(number, signal.SIG_IGN)
    while True:
        open('/work/beat', 'a').write('x')
        time.sleep(0.01)
    """
    look = """
    import os, time
    size = lambda: os.path.exists('/work/beat') and os.path.getsize('/work/beat')
    before = size()
    time.sleep(0.2)
    print(size() == before, [name for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()])
    """
    result = await python(sandbox, daemon)  # it holds stdout open, and is not waited for
    assert result.ended is Ended.EXITED and result.ok
    assert (await python(sandbox, look)).stdout.text == "True []\n"


@in_sandbox()
async def test_signals_reach_nobody_outside_and_not_the_first_process(sandbox: NamespaceSandbox) -> None:
    kill = """
    import os, signal, sys, time
    def kill(pid, number):
        try:
            os.kill(pid, number)
        except OSError:
            pass
    for pid in (1, int(sys.argv[1]), int(sys.argv[2])):
        for number in (9, 2, 15, 1, 19, 17, 10):
            kill(pid, number)
    for pid in range(2, 3000):
        if pid != os.getpid():
            kill(pid, 9)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    kill(-1, signal.SIGTERM)
    time.sleep(0.1)
    print('alive')
    """
    with subprocess.Popen(["sleep", "60"]) as sentinel:
        try:
            result = await python(sandbox, kill, str(sentinel.pid), str(os.getpid()))
            assert result.stdout.text == "alive\n", result
            assert sentinel.poll() is None
            assert (await sandbox.exec(["/bin/true"])).ok
        finally:
            sentinel.kill()


# Memory


@in_sandbox()
async def test_one_process_cannot_take_more_memory_than_allowed(sandbox: NamespaceSandbox) -> None:
    greedy = await python(sandbox, "block = bytearray(200_000_000); print('has it')")
    assert not greedy.ok and greedy.failure is not None and greedy.failure.cause is Cause.CANDIDATE
    assert greedy.stdout.text == "" and "MemoryError" in greedy.stderr.text
    slow = await python(sandbox, "blocks = []\nwhile True: blocks.append(bytes(range(256)) * 4096)")
    assert not slow.ok and slow.peak_memory < 80_000_000


@in_sandbox()
async def test_many_processes_cannot_take_more_memory_together(sandbox: NamespaceSandbox) -> None:
    result = await python(
        sandbox,
        """
        import os, time
        for _ in range(5):
            if not os.fork(): break
        block = b'x' * 30_000_000
        time.sleep(9)
        """,
    )
    assert result.ended is Ended.MEMORY_LIMIT
    assert result.failure is not None and result.failure.cause is Cause.CANDIDATE


@in_sandbox()
async def test_processes_that_share_memory_are_not_charged_for_it_again(sandbox: NamespaceSandbox) -> None:
    result = await python(
        sandbox,
        """
        import os, time
        block = b'x' * 30_000_000
        for _ in range(5):
            if not os.fork(): break
        time.sleep(0.2)
        """,
    )
    assert result.ok, result.failure  # 180 MB of pages seen, 30 MB of them there


@in_sandbox()
async def test_memory_cannot_hide_outside_of_processes_and_files(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        call('memfd_create', b'x', 0)
        call('shmget', 0, 1 << 20, 0o1600)
        call('msgget', 0, 0o1600)
        call('semget', 0, 4, 0o1600)
        call('mq_open', b'/x', 0o102, 0o600, None)
        call('mlock', ctypes.create_string_buffer(1 << 16), 1 << 16)
        """,
    )


# Disk


@in_sandbox()
async def test_the_disk_is_limited_in_bytes_and_in_files(sandbox: NamespaceSandbox) -> None:
    fill = """
    import os, sys
    size = 0
    with open(sys.argv[1], 'wb', buffering=0) as file:
        try:
            while size < 50_000_000:
                size += file.write(bytes(1 << 16))
        except OSError:
            pass
    print(size)
    """
    count = """
    n = 0
    try:
        while n < 1000:
            open(f'/tmp/{n}', 'w').close()
            n += 1
    except OSError:
        print(n)
    """
    for path in ("/work/a", "/tmp/a", "/dev/shm/a"):
        assert 0 < int((await python(sandbox, fill, path)).stdout.text) <= 4 << 20
        assert int((await python(sandbox, fill, "/work/b")).stdout.text) == 0  # they share one limit
        await sandbox.exec(["/bin/rm", path, "/work/b"])
    assert 0 < int((await python(sandbox, count)).stdout.text) <= 64


@in_sandbox()
async def test_a_file_cannot_be_larger_than_the_disk_not_even_with_holes(sandbox: NamespaceSandbox) -> None:
    result = await python(sandbox, "import os; os.truncate(os.open('/work/a', os.O_CREAT | os.O_RDWR), 1 << 40)")
    assert not result.ok and "File too large" in result.stderr.text


# Output and time


@in_sandbox(output_bytes=1000, cpu_seconds=0.3)
async def test_a_flood_of_output_is_cut_marked_and_counted(sandbox: NamespaceSandbox) -> None:
    both = await python(sandbox, "import sys\nsys.stdout.write('x' * 3_000_000); sys.stderr.write('\\0' * 2_000_000)")
    assert both.ok
    assert both.stdout.data == b"x" * 1000 and both.stdout.total == 3_000_000 and both.stdout.cut
    assert both.stderr.data == b"\0" * 1000 and both.stderr.total == 2_000_000
    assert both.stdout.text.endswith("[cut: 1000 of 3000000 bytes]")
    endless = await sandbox.exec(["/usr/bin/yes"])
    assert endless.ended is Ended.CPU_LIMIT and len(endless.stdout.data) == 1000 and endless.stdout.total > 1_000_000


@in_sandbox()
async def test_a_busy_or_sleeping_program_meets_its_limit_of_time(sandbox: NamespaceSandbox) -> None:
    deaf = """
    import signal, time
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    time.sleep(99)
    """
    busy = await python(sandbox, "import os; os.fork()\nwhile True: pass")
    assert busy.ended is Ended.CPU_LIMIT and 1.0 < busy.cpu_seconds < 2.0  # both together
    sleeping = await python(sandbox, "import time; time.sleep(99)", wall_seconds=0.3)
    stopped = await python(sandbox, "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", wall_seconds=0.3)
    ignoring = await python(sandbox, deaf, wall_seconds=0.5)
    for result in (sleeping, stopped, ignoring):
        assert result.ended is Ended.WALL_LIMIT
    for result in (busy, sleeping, stopped, ignoring):
        assert result.failure is not None and result.failure.cause is Cause.CANDIDATE


@in_sandbox()
async def test_limits_cannot_be_raised(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        def raise_limit(kind, value):
            try:
                resource.setrlimit(kind, (value, value))
            except ValueError as error:
                raise OSError from error
        for name in [name for name in dir(resource) if name.startswith('RLIMIT_')]:
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            if hard != resource.RLIM_INFINITY:
                attempt(name, lambda: raise_limit(kind, hard + 1))
        attempt('urgency', lambda: os.nice(-5))
        """,
    )
