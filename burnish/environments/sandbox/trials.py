"""Programs that try to break out, for the probe. Each prints what it managed, and does little harm if it does."""

from __future__ import annotations

NAMESPACES = "import os, sys; print(*(os.readlink('/proc/self/ns/' + kind) for kind in sys.argv[1:]))"

FILES = """
import json, os, sys
done = []
try:
    open(sys.argv[1]).read()
    done.append('reading a file of the machine')
except OSError:
    pass
for folder in (os.path.dirname(sys.argv[1]), '/usr', '/etc', '/', '/hidden'):
    path = os.path.join(folder, 'burnish-probe')
    try:
        open(path, 'w').close()
        os.unlink(path)
        done.append('writing ' + path)
    except OSError:
        pass
print(json.dumps(done))
"""

SEARCH = """
import json, os, sys
token, found = sys.argv[1] + sys.argv[2], []
for folder, folders, files in os.walk('/'):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ('/usr', '/root', '/proc', '/dev')]
    for name in files:
        try:
            if token in open(os.path.join(folder, name), errors='replace').read(1 << 20):
                found.append(os.path.join(folder, name))
        except OSError:
            pass
for pid in [name for name in os.listdir('/proc') if name.isdigit() and name != str(os.getpid())] + ['1']:
    for name in ('environ', 'cmdline', 'mem', 'root/hidden/probe/secret.txt'):
        try:
            open(f'/proc/{pid}/{name}', 'rb').read(1)
            found.append(f'/proc/{pid}/{name}')
        except OSError:
            pass
print(json.dumps(found))
"""

NETWORK = """
import json, socket, sys
done = []
def attempt(what, family, kind, act):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(1)
            act(s)
        done.append(what)
    except OSError:
        pass
port = int(sys.argv[1])
attempt('a port of this machine', socket.AF_INET, socket.SOCK_STREAM, lambda s: s.connect(('127.0.0.1', port)))
attempt('a packet outward', socket.AF_INET, socket.SOCK_DGRAM, lambda s: s.sendto(b'x', ('192.0.2.1', 9)))
attempt('a packet outward by IPv6', socket.AF_INET6, socket.SOCK_DGRAM, lambda s: s.sendto(b'x', ('2001:db8::1', 9)))
attempt('an abstract socket', socket.AF_UNIX, socket.SOCK_STREAM, lambda s: s.connect('\\0' + sys.argv[2]))
attempt('raw packets', socket.AF_PACKET, socket.SOCK_RAW, lambda s: None)
attempt('sockets of the hypervisor', 40, socket.SOCK_STREAM, lambda s: None)
print(json.dumps(done))
"""

PRIVILEGES = """
import json, os
done = []
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
for name in ('CapPrm', 'CapEff', 'CapBnd', 'CapInh', 'CapAmb'):
    if int(status[name], 16):
        done.append(name)
if int(status['NoNewPrivs']) != 1:
    done.append('new privileges')
for what, call in (('user 0', lambda: os.setuid(0)), ('another group', lambda: os.setgroups([0]))):
    try:
        call()
        done.append(what)
    except OSError:
        pass
print(json.dumps(done))
"""

SYSTEM_CALLS = """
import ctypes, json
done, libc = [], ctypes.CDLL(None, use_errno=True)
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
if int(status['Seccomp']) != 2:
    done.append('no filter')
if libc.unshare(0x10000000) == 0:
    done.append('a user namespace')
if libc.ptrace(0, 0, 0, 0) == 0:
    done.append('ptrace')
if libc.memfd_create(b'x', 0) >= 0:
    done.append('memory without a name')
print(json.dumps(done))
"""

MEMORY = "import sys; block = bytearray(int(sys.argv[1])); block[:: 4096] = b'x' * len(block[:: 4096])"

MEMORY_TOGETHER = """
import os, sys, time
for _ in range(5):
    if not os.fork():
        block = b'x' * int(sys.argv[1])
        time.sleep(2)
        os._exit(0)
time.sleep(2)
"""

MEMORY_UNSEEN = """
import mmap, os, sys, time
size = int(sys.argv[1])
for _ in range(4):
    block = mmap.mmap(-1, size)
    for place in range(0, size, 4096):
        block[place] = 1
    if not os.fork():
        time.sleep(1)
        os._exit(0)
    block.close()
time.sleep(0.2)
"""

PROCESSES = """
import os, sys, time
count = 1
for _ in range(int(sys.argv[1])):
    try:
        if not os.fork():
            time.sleep(5)
            os._exit(0)
    except OSError:
        break
    count += 1
print(count)
"""

BUSY = """
import os
os.fork()
while True:
    pass
"""

DISK = """
import os, sys
size = files = 0
try:
    with open('/tmp/large', 'wb', buffering=0) as file:
        while size < int(sys.argv[1]):
            size += file.write(bytes(65536))
except OSError:
    pass
os.unlink('/tmp/large')
try:
    os.mkdir('/tmp/many')
    while files < int(sys.argv[2]):
        open(f'/tmp/many/{files}', 'w').close()
        files += 1
except OSError:
    pass
for name in os.listdir('/tmp/many'):
    os.unlink('/tmp/many/' + name)
print(size, files)
"""

DAEMON = """
import os, time
if not os.fork():
    os.setsid()
    if not os.fork():
        time.sleep(60)
    os._exit(0)
os.wait()
"""

OTHERS = """
import json, os
print(json.dumps(['process ' + name for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]))
"""
