"""The sandbox: where code that a model wrote is run. docs/sandbox.md says what it keeps and what it does not."""

from burnish.environments.sandbox.namespace import NamespaceProvider, NamespaceSandbox
from burnish.environments.sandbox.provider import Provider, Sandbox
from burnish.environments.sandbox.python import default_provider, run_python
from burnish.environments.sandbox.results import (
    Cause,
    Ended,
    ExecResult,
    Failure,
    Output,
    SandboxError,
    SandboxStatus,
)
from burnish.environments.sandbox.spec import DEMANDS, Demand, SandboxSpec

__all__ = [
    "DEMANDS", "Cause", "Demand", "Ended", "ExecResult", "Failure", "NamespaceProvider", "NamespaceSandbox", "Output",
    "Provider", "Sandbox", "SandboxError", "SandboxSpec", "SandboxStatus", "default_provider", "run_python",
]  # fmt: skip
