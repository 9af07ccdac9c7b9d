"""Attempts to reach out of the sandbox: to the network, hidden files, the machine's files. Each really tries."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from burnish.environments.sandbox import Cause, NamespaceSandbox, SandboxError
from tests.environments.sandboxed import in_sandbox, managed, python

PACKAGE = Path(__file__).parents[2] / "burnish"

# The network


@in_sandbox()
async def test_nothing_outside_can_be_reached(sandbox: NamespaceSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0burnish-escape")
        abstract.listen()
        assert not await managed(
            sandbox,
            r"""
            def connect(family, kind, address):
                with socket.socket(family, kind) as s:
                    s.settimeout(1)
                    s.connect(address)
                    s.send(b'x')
            stream, datagram, port = socket.SOCK_STREAM, socket.SOCK_DGRAM, int(sys.argv[1])
            attempt('loopback', lambda: connect(socket.AF_INET, stream, ('127.0.0.1', port)))
            attempt('outward', lambda: connect(socket.AF_INET, stream, ('192.0.2.1', 80)))
            attempt('datagram', lambda: connect(socket.AF_INET, datagram, ('192.0.2.1', 53)))
            attempt('version 6', lambda: connect(socket.AF_INET6, datagram, ('2001:db8::1', 53)))
            attempt('abstract', lambda: connect(socket.AF_UNIX, stream, '\0burnish-escape'))
            attempt('a name', lambda: socket.getaddrinfo('example.com', 80))
            for family in (socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG, socket.AF_CAN, 44):
                for kind in (socket.SOCK_RAW, stream, datagram, socket.SOCK_SEQPACKET):
                    attempt(str(family), lambda: socket.socket(family, kind))
            attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
            done += [name for _, name in socket.if_nameindex() if name != 'lo']
            """,
            str(server.getsockname()[1]),
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


_OWN_SERVER = """
def own():
    with socket.create_server(('127.0.0.1', 0)) as server:
        socket.create_connection(server.getsockname(), 1).close()
attempt('own', own)
"""


@in_sandbox()
async def test_not_even_the_own_loopback_unless_asked(sandbox: NamespaceSandbox) -> None:
    assert not await managed(sandbox, _OWN_SERVER)


@in_sandbox(network="loopback")
async def test_the_own_loopback_when_asked_is_not_the_machines(sandbox: NamespaceSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        outside = "attempt('outside', lambda: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1))"
        assert await managed(sandbox, _OWN_SERVER + outside, port) == ["own"]


# Hidden files

_TOKEN = "q7Zr41Kfw9XuBn3c"
_LOOK_FOR = """
token = sys.argv[1][:8] + sys.argv[2][8:]  # not as it stands in our own command line
for folder, folders, files in os.walk('/'):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ('/usr', '/proc', '/dev') and 'python' not in f]
    for name in files:
        path = os.path.join(folder, name)
        def look():
            if token not in open(path, errors='replace').read(1 << 20):
                raise OSError
        attempt(path, look)
"""
_HALVES = ("q7Zr41Kfxxxxxxxx", "xxxxxxxxw9XuBn3c")


@in_sandbox()
async def test_hidden_files_are_there_for_the_verifier_only(sandbox: NamespaceSandbox) -> None:
    await sandbox.upload("tests/answer.txt", _TOKEN.encode(), hidden=True)
    verifier = ["python3", "-I", "-c", "print(open('/hidden/tests/answer.txt').read())"]
    assert not await managed(sandbox, _LOOK_FOR, *_HALVES)
    assert (await sandbox.exec(verifier, verifying=True)).stdout.text.strip() == _TOKEN
    assert not await managed(sandbox, _LOOK_FOR, *_HALVES)  # nor afterwards
    assert not (await sandbox.exec(verifier)).ok


@in_sandbox()
async def test_a_candidate_cannot_lie_in_wait_for_hidden_files(sandbox: NamespaceSandbox) -> None:
    await sandbox.upload("answer.txt", _TOKEN.encode(), hidden=True)
    spy = """
    import os, time
    os.symlink('/hidden/answer.txt', '/work/link')
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
    folder = os.open('/hidden', os.O_RDONLY)
    while True:
        for path in ('/hidden/answer.txt', f'/proc/self/fd/{folder}/answer.txt', '/proc/1/root/hidden/answer.txt'):
            try:
                found = open(path).read()  # first, or an empty file would look like a success
                open('/work/stolen', 'w').write(found)
            except OSError:
                pass
        time.sleep(0.005)
    """
    await python(sandbox, spy)
    await sandbox.exec(["/bin/sleep", "0.3"], verifying=True)
    assert not await managed(sandbox, "read('/work/stolen'); read('/work/link')")


@in_sandbox()
async def test_hidden_files_cannot_be_changed_by_the_code_under_test(sandbox: NamespaceSandbox) -> None:
    await sandbox.upload("test.py", b"assert False", hidden=True)
    change = """
    attempt('chmod', lambda: os.chmod('/hidden/test.py', 0o777))
    attempt('unlink', lambda: os.unlink('/hidden/test.py'))
    write('/hidden/test.py')
    write('/hidden/new')
    done += [] if os.statvfs('/hidden').f_flag & os.ST_RDONLY else ['not read-only']
    """
    assert not await managed(sandbox, change, verifying=True)


# Files of the machine


@in_sandbox()
async def test_files_of_the_machine_cannot_be_read(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        devices = ['/dev/' + name for name in ('kmsg', 'mem', 'kvm', 'vda', 'sda', 'tty', 'ptmx', 'fuse', 'loop0')]
        places = ['/etc/shadow', '/root/.ssh', '/home', '/var/log', '/run', '/sys/kernel', '/old', '/data']
        for path in sys.argv[1:] + devices + places:
            attempt(path, lambda: os.stat(path))
        """,
        __file__,
        str(PACKAGE),
    )


@in_sandbox()
async def test_nothing_but_the_own_directories_can_be_written(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        places = ['/', '/usr', '/usr/bin', '/etc', '/dev', '/hidden', '/empty', '/proc', '/proc/1', sys.base_prefix]
        for place in places + [path for path in sys.path if path]:
            write(place + '/burnish-escape')
            attempt('mkdir in ' + place, lambda: os.mkdir(place + '/burnish-escape'))
        for path in ('/etc/passwd', '/usr/bin/env', os.__file__, sys.executable):
            write(path)
            attempt('chmod ' + path, lambda: os.chmod(path, 0o777))
            attempt('chown ' + path, lambda: os.chown(path, os.getuid(), -1))
            attempt('unlink ' + path, lambda: os.unlink(path))
            attempt('rename ' + path, lambda: os.rename(path, '/work/moved'))
            attempt('link ' + path, lambda: os.link(path, '/work/linked'))
        for place in ('/', '/usr', sys.base_prefix, '/empty', '/hidden', '/etc'):
            if not os.statvfs(place).f_flag & os.ST_RDONLY:
                done.append(place + ' is not read-only')
        """,
    )
    assert not Path("/usr/burnish-escape").exists() and not Path(sys.base_prefix, "burnish-escape").exists()


@in_sandbox()
async def test_mounts_and_devices_cannot_be_made_or_changed(sandbox: NamespaceSandbox) -> None:
    assert not await managed(
        sandbox,
        """
        bind, again, move = 0x1000, 0x20, 0x2000
        for flags in (again | bind, bind | 0x4000, move, again):
            call('mount', b'none', b'/usr', None, flags, None)
            call('mount', b'/work', b'/usr', None, flags, None)
        call('mount', b'tmpfs', b'/tmp', b'tmpfs', 0, None)
        call('umount2', b'/usr', 2)
        call('umount2', b'/proc', 2)
        call('chroot', b'/work')
        attempt('mknod', lambda: os.mknod('/work/disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0)))
        """,
    )


@in_sandbox()
async def test_nothing_is_inherited_from_the_process_that_trains(sandbox: NamespaceSandbox) -> None:
    os.environ["BURNISH_ESCAPE_SECRET"] = _TOKEN
    try:
        result = await python(
            sandbox,
            """
            import json, os
            print(json.dumps([sorted(os.environ), sorted(os.listdir('/proc/self/fd')), os.uname()[1]]))
            """,
        )
    finally:
        del os.environ["BURNISH_ESCAPE_SECRET"]
    assert result.ok and "BURNISH" not in result.stdout.text and '"PATH"' in result.stdout.text
    assert result.stdout.text.strip().endswith('["0", "1", "2", "3"], "sandbox"]')  # 3 is the directory being listed


# Links


@in_sandbox()
async def test_links_lead_uploads_and_downloads_nowhere(sandbox: NamespaceSandbox) -> None:
    links = """
    import os
    os.symlink('/etc/passwd', 'answer')
    os.symlink('/usr/bin', 'folder')
    os.symlink('/work/real', 'loop')
    open('real', 'w').write('mine')
    os.mkfifo('pipe')
    """
    assert (await python(sandbox, links)).ok
    for path in ("answer", "loop", "pipe", "missing", "/proc/1/environ", "/dev/zero", "."):
        with pytest.raises(SandboxError) as caught:
            await sandbox.download(path)
        assert caught.value.cause is Cause.CANDIDATE
    for path in ("folder/evil", "../etc/passwd", "/hidden/test.py"):
        with pytest.raises(SandboxError):
            await sandbox.upload(path, b"x")
    for path in ("loop", "pipe"):  # takes the place of what is there, and leaves alone what it led to
        await sandbox.upload(path, b"theirs")
        assert await sandbox.download(path) == b"theirs"
    assert await sandbox.download("real") == b"mine"


@in_sandbox(files=200)
async def test_a_download_is_bounded(sandbox: NamespaceSandbox) -> None:
    large = """
    import os
    open('large', 'wb').write(bytes(1_000_000))
    os.truncate(os.open('hole', os.O_CREAT | os.O_WRONLY), 4 << 20)
    """
    assert (await python(sandbox, large)).ok
    for path in ("large", "hole"):
        with pytest.raises(SandboxError, match="of which at most 1000"):
            await sandbox.download(path, most=1000)
    assert await sandbox.download("large") == bytes(1_000_000)
