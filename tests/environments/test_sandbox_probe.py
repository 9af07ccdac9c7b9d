"""What the machine keeps is measured, and a task that asks for more is refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.environments.sandbox import DEMANDS, Demand, NamespaceProvider, SandboxSpec
from burnish.environments.sandbox.inside import cgroups
from burnish.environments.sandbox.probe import Row, probe
from burnish.errors import InputError
from tests.environments.sandboxed import NAMESPACES

ROOT = Path(__file__).parents[2]


@cache
def _rows() -> list[Row]:
    async def go() -> list[Row]:
        async with NamespaceProvider() as provider:
            return await probe(provider)

    return asyncio.run(go())


def test_everything_holds_where_there_are_namespaces_but_what_takes_a_control_group() -> None:
    rows = _rows()
    assert tuple(row.name for row in rows) == DEMANDS
    held = {row.name for row in rows if row.holds}
    if not NAMESPACES:
        assert held == set() and all("no sandbox can be made here" in row.seen for row in rows)
        return
    assert held | {"memory_kernel"} == set(DEMANDS), rows
    assert ("memory_kernel" in held) == (cgroups.home() is not None)


class _Measured(NamespaceProvider):
    """A provider on a machine that was measured to keep some things only."""

    def __init__(self, held: set[Demand]) -> None:
        super().__init__()
        self._held = held

    async def capabilities(self) -> Mapping[Demand, bool]:
        return {name: name in self._held for name in DEMANDS}


def test_a_demand_that_is_not_kept_is_refused_by_name_and_one_that_is_kept_is_not() -> None:
    async def go(*demands: Demand) -> bool:
        spec = SandboxSpec(demands=demands)
        async with _Measured({"network", "cpu"}) as provider, await provider.create(spec) as sandbox:
            return (await sandbox.exec(["/bin/true"])).ok

    with pytest.raises(
        InputError, match=r"^sandbox.demands: memory_kernel, disk: not kept on this machine.*burnish env probe"
    ):
        asyncio.run(go("network", "memory_kernel", "disk"))
    if NAMESPACES:
        assert asyncio.run(go("network", "cpu"))


def test_demands_are_measured_on_this_machine() -> None:
    async def made(provider: NamespaceProvider, name: Demand) -> bool:
        try:
            async with await provider.create(SandboxSpec(demands=(name,))):
                return True
        except InputError:
            return False

    async def go() -> dict[str, bool]:
        async with NamespaceProvider() as provider:
            return {name: await made(provider, name) for name in DEMANDS}

    assert asyncio.run(go()) == {row.name: row.holds for row in _rows()}


def test_the_command_prints_each_line_or_json() -> None:
    shown, asked = CliRunner().invoke(app, ["env", "probe"]), CliRunner().invoke(app, ["env", "probe", "--json"])
    assert shown.exit_code == asked.exit_code == (0 if NAMESPACES else 1)
    answer = json.loads(asked.stdout)
    assert [row["name"] for row in answer["holds"]] == list(DEMANDS)
    if not NAMESPACES:
        assert answer["start"] is None and "no sandbox can be made here" in shown.stderr
        return
    assert answer["start"]["count"] == 15 and 0 < answer["start"]["median"] <= answer["start"]["slowest"]
    for row in answer["holds"]:
        line = next(line for line in shown.stdout.splitlines() if line.split()[0] == row["name"])
        assert ("yes" in line.split()) == row["holds"]
    assert "ms median" in shown.stdout


@pytest.mark.parametrize("user", ["ordinary", "root of a container"])
def test_an_ordinary_user_and_the_root_of_a_container_get_the_same_sandbox_as_root(user: str) -> None:
    """The probe tries every promise. As root, this runs it as nobody; otherwise the other tests ran as such a user."""
    held = {row.name: row.holds for row in _rows()}
    prefix = [os.path.realpath(sys.base_prefix), sys.base_prefix, sys.prefix, sysconfig.get_path("purelib"), str(ROOT)]
    command = [sys.executable, "-m", "burnish.cli", "env", "probe", "--json"]
    if user != "ordinary" and NAMESPACES:
        command = ["unshare", "--user", "--map-root-user", *command]  # called root, without the ids that root can give
    if os.geteuid() == 0 and NAMESPACES:
        paths = ":".join(dict.fromkeys(prefix))
        command = [sys.executable, str(Path(__file__).with_name("ordinary.py")), paths, *command]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)
    answer = json.loads(done.stdout)
    assert (answer["user"] == 0) == (user != "ordinary") or not NAMESPACES
    assert {row["name"]: row["holds"] for row in answer["holds"]} == held, answer
