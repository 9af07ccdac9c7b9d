"""Tests inside a sandbox: the same test asserts the refusal where the machine has no namespaces."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import subprocess
from collections.abc import Awaitable, Callable
from textwrap import dedent
from typing import Any

import psutil
import pytest

from burnish.environments.sandbox import (
    Cause,
    ExecResult,
    NamespaceProvider,
    NamespaceSandbox,
    SandboxError,
    SandboxSpec,
)


def _namespaces() -> bool:
    """Whether this machine lets us make them: asked of util-linux, not of the code under test."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "--net", "--ipc", "--uts", "--pid", "--fork"]
    return not subprocess.run([*command, "--mount-proc", "true"], capture_output=True, check=False).returncode


NAMESPACES = _namespaces()

SMALL = {"memory": "64MiB", "disk": "4MiB", "files": 64, "processes": 16, "cpu_seconds": 1.0, "wall_seconds": 20.0}
"""Limits that keep the machine unharmed if a sandbox does not hold."""

Body = Callable[[NamespaceSandbox], Awaitable[None]]


def in_sandbox(**limits: Any) -> Callable[[Body], Callable[[], None]]:
    """Make a test of a coroutine that wants a sandbox with SMALL limits and these."""

    def wrap(body: Body) -> Callable[[], None]:
        async def go() -> None:
            async with NamespaceProvider() as provider:
                spec = SandboxSpec.model_validate({**SMALL, **limits})
                if not NAMESPACES:
                    await refused(provider, spec)
                    return
                async with await provider.create(spec) as sandbox:
                    await body(sandbox)

        def test() -> None:
            asyncio.run(go())

        functools.update_wrapper(test, body)
        del test.__wrapped__  # pytest would look for fixtures named as the body's argument
        return test

    return wrap


async def refused(provider: NamespaceProvider, spec: SandboxSpec | None = None) -> None:
    """What has to happen where there are no namespaces."""
    with pytest.raises(SandboxError, match="no sandbox can be made here") as caught:
        await provider.create(spec or SandboxSpec())
    assert caught.value.cause is Cause.MACHINERY


def processes(helper: int | None) -> list[psutil.Process]:
    """A helper and what descends from it; nothing once it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        first = psutil.Process(helper)
        return [first, *first.children(recursive=True)] if first.status() != psutil.STATUS_ZOMBIE else []
    return []


async def python(sandbox: NamespaceSandbox, code: str, *arguments: str, **options: Any) -> ExecResult:
    """Run code as a candidate would have written it."""
    return await sandbox.exec(["python3", "-c", dedent(code), *arguments], **options)


async def managed(sandbox: NamespaceSandbox, code: str, *arguments: str, **options: Any) -> list[str]:
    """What a program managed to do: it adds names to the list `done`, under `attempt(name, function)`.

    An attempt that raises OSError has failed. The program itself must come to its end.
    """
    result = await python(sandbox, _PRELUDE + dedent(code) + "\nprint(json.dumps(done))", *arguments, **options)
    assert result.ok, result.stderr.text
    return json.loads(result.stdout.text)


_PRELUDE = """
import ctypes, json, mmap, os, resource, signal, socket, stat, subprocess, sys, time
done, libc = [], ctypes.CDLL(None, use_errno=True)
def attempt(name, act):
    try:
        act()
        done.append(name)
    except OSError:
        pass
def call(name, *arguments):
    def act():
        if getattr(libc, name)(*arguments) < 0:
            raise OSError(ctypes.get_errno(), name)
    attempt(name, act)
def read(path):
    attempt('reading ' + path, lambda: open(path, 'rb').read(16))
def write(path):
    attempt('writing ' + path, lambda: open(path, 'ab').close())
def say(path, text):
    def act():
        with open(path, 'w') as file:
            file.write(text)
    attempt('writing ' + path, act)
"""
