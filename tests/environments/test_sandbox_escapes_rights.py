"""Attempts to see or touch other processes and the kernel, and to gain rights. Each is a program that really tries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from burnish.environments.sandbox import Cause, NamespaceSandbox, SandboxError
from tests.environments.sandboxed import in_sandbox, managed, python

PACKAGE = Path(__file__).parents[2] / "burnish"

# Other processes, and the kernel


@in_sandbox()
async def test_no_other_process_can_be_seen_and_the_first_one_says_nothing(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        done += [name for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]
        names = 'environ cmdline mem maps root cwd exe fd fd/3 auxv stack io status'.split()
        for pid in (1, os.getppid(), int(sys.argv[1])):
            for path in (f'/proc/{pid}/{name}' for name in names):
                read(path)
                write(path)
                attempt('listing ' + path, lambda: os.listdir(path))
                attempt('following ' + path, lambda: os.readlink(path))
        """,
        str(os.getpid()),
    )


@in_sandbox()
async def test_the_kernel_cannot_be_read_or_steered_through_proc(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        names = ('sysrq-trigger', 'kcore', 'kallsyms', 'kmsg', 'keys', 'sched_debug', 'timer_list', 'config.gz')
        kernel = ('core_pattern', 'modprobe', 'hostname', 'random/boot_id')
        others = ('sys/vm/drop_caches', 'sys/user/max_user_namespaces', 'sys/fs/file-max', 'irq/0', 'net/tcp')
        for name in (*names, *('sys/kernel/' + name for name in kernel), *others):
            read('/proc/' + name)
            write('/proc/' + name)
        say('/proc/self/oom_score_adj', '-900')
        say('/proc/self/uid_map', '0 0 1')
        """,
    )


@in_sandbox()
async def test_no_process_can_be_traced(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        child = os.fork()
        if not child:
            time.sleep(9)
            os._exit(0)
        attach, seize = 16, 0x4206
        buffer = ctypes.create_string_buffer(8)
        pieces = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
        for pid in (1, os.getppid(), child):
            call('ptrace', attach, pid, None, None)
            call('ptrace', seize, pid, None, None)
            call('process_vm_readv', pid, pieces, 1, pieces, 1, 0)
            call('process_vm_writev', pid, pieces, 1, pieces, 1, 0)
        call('ptrace', 0, 0, None, None)
        os.kill(child, 9)
        """,
    )


# Rights


@in_sandbox()
async def test_no_right_can_be_had_back(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        status = dict(line.split(':', 1) for line in open('/proc/self/status'))
        done += [name for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb') if int(status[name], 16)]
        done += [] if int(status['NoNewPrivs']) else ['new privileges']
        done += [] if int(status['Seccomp']) == 2 else ['no filter']
        attempt('user', lambda: os.setuid(0))
        attempt('users', lambda: os.setresuid(0, 0, 0))
        attempt('another user', lambda: os.seteuid(65534))
        attempt('group', lambda: os.setgid(0))
        attempt('groups', lambda: os.setgroups([0]))
        call('prctl', 38, 0, 0, 0, 0)  # no_new_privs off
        call('prctl', 28, 0, 0, 0, 0)  # securebits
        """,
    )


@in_sandbox()
async def test_setuid_programs_give_nothing(sandbox: NamespaceSandbox) -> None:
    script = (
        "cp /usr/bin/id own && chmod 6755 own && ./own -u; su -c 'id -u' root </dev/null 2>/dev/null || echo refused"
    )
    result = await sandbox.exec(["/bin/sh", "-c", script])
    assert result.stdout.text.split() == ["1000", "refused"], result
    assert not await managed(
        sandbox,
        "done += [place for place in ('/', '/work', '/tmp', '/usr') if not os.statvfs(place).f_flag & os.ST_NOSUID]",
    )


@in_sandbox()
async def test_no_namespace_can_be_made_or_entered_inside(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        user = 0x10000000
        for flag in (user, 0x20000, 0x40000000, 0x20000000, 0x8000000, 0x4000000, 0x2000000, 0x80):
            call('unshare', flag)
            call('unshare', flag | user)
        for kind in ('user', 'net', 'mnt', 'pid'):
            call('setns', os.open('/proc/self/ns/' + kind, os.O_RDONLY), 0)
        def started(pid):
            if pid == 0: os._exit(0)
            if pid < 0: raise OSError
        arguments = (ctypes.c_uint64 * 11)(user, 0, 0, 0, 17)
        clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]
        attempt('clone', lambda: started(libc.syscall(clone, user | 17, 0, 0, 0, 0)))
        attempt('clone3', lambda: started(libc.syscall(435, arguments, 88)))
        """,
    )


@in_sandbox()
async def test_calls_into_rarely_needed_parts_of_the_kernel_are_refused(sandbox: NamespaceSandbox) -> None:
    """EPERM, and not what the kernel would say to arguments that make no sense."""
    assert not await managed(
        sandbox,
        """
        names = ('bpf perf_event_open userfaultfd io_uring_setup keyctl add_key fsopen open_tree mount_setattr '
                 'pidfd_getfd kcmp init_module kexec_load reboot syslog open_by_handle_at settimeofday swapon').split()
        numbers = {
            'x86_64': (321, 298, 323, 425, 250, 248, 430, 428, 442, 438, 312, 175, 246, 169, 103, 304, 164, 167),
            'aarch64': (280, 241, 282, 425, 219, 217, 430, 428, 442, 438, 272, 105, 104, 142, 116, 265, 170, 224),
        }[os.uname().machine]
        def refused(number):
            if libc.syscall(number, 0, 0, 0, 0, 0) < 0 and ctypes.get_errno() == 1:
                raise PermissionError
        for name, number in zip(names, numbers, strict=True):
            attempt(name, lambda: refused(number))
        """,
    )


@in_sandbox(
    memory="512MiB", packages=True, cpu_seconds=20.0, open_files=256, read_only={"/source/burnish": str(PACKAGE)}
)
async def test_a_sandbox_inside_a_sandbox_is_refused_as_the_machinerys_fault(sandbox: NamespaceSandbox) -> None:
    result = await python(
        sandbox,
        """
        import asyncio
        from burnish.environments.sandbox import run_python
        result = asyncio.run(run_python({}, ['/bin/true']))
        print(result.failure.cause, result.failure.reason)
        """,
        env={"PYTHONPATH": "/source"},
    )
    assert result.stdout.text.startswith("machinery no sandbox can be made here: "), result


@in_sandbox()
async def test_a_candidate_that_closes_its_own_directory_harms_only_itself(sandbox: NamespaceSandbox) -> None:
    assert (await python(sandbox, "import os; os.chmod('/work', 0)")).ok
    result = await python(sandbox, "open('/work/a')")
    assert result.failure is not None and result.failure.cause is Cause.CANDIDATE
    with pytest.raises(SandboxError) as caught:
        await sandbox.upload("a", b"x")
    assert caught.value.cause is Cause.CANDIDATE
