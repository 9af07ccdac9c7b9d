"""Devices are named in one file; everything else makes its tensors where its model is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch

from burnish.errors import InputError
from burnish.models.devices import CPU, chunk_elements, device_title, flex_serves, on_gpu, resolve_device
from burnish.models.loading import load_model
from burnish.models.spec import ModelSpec
from tests.tiny import tiny_network, tiny_tokenizer

PACKAGE = Path(__file__).parents[2] / "burnish"
NAMES = re.compile(r"(cpu|cuda|mps|xpu)(:\d+)?")
ALLOWED = {"models/devices.py"}
PROCESSOR_TIME = "environments/sandbox/"
"""There "cpu" is a limit of processor time."""


def named_devices(tree: ast.AST) -> list[str]:
    """Every place that names a kind of device: as text, or as an attribute of torch or of a tensor."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAMES.fullmatch(node.value):
            found.append(f"{node.lineno}: {node.value!r}")
        if isinstance(node, ast.Attribute) and node.attr in ("cuda", "is_cuda", "is_cpu", "mps"):
            found.append(f"{node.lineno}: .{node.attr}")
    return found


def test_no_other_file_names_a_device() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in ALLOWED and not name.startswith(PROCESSOR_TIME):
            places = named_devices(ast.parse(path.read_text(encoding="utf-8")))
            found |= {name: places} if places else {}
    assert found == {}


@pytest.mark.parametrize(
    "text", ['x.to("cuda")', "torch.zeros(3, device='cuda:1')", "x.cuda()", "if x.is_cuda: pass", 'd.type == "cpu"']
)
def test_a_device_that_is_named_is_found(text: str) -> None:
    assert len(named_devices(ast.parse(text))) == 1
    assert named_devices(ast.parse('x.to(y.device); x.cpu(); "on the cpu"')) == []


def test_a_recipes_device_is_where_the_model_is(tmp_path: Path) -> None:
    tiny_network("llama").save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    assert load_model(ModelSpec(path=str(tmp_path), device="cpu", dtype="float32")).device == CPU
    for name, message in (
        ("gpu", "unknown device 'gpu': choose auto, cpu, cuda or cuda:N"),
        ("cuda:97", "is not there"),
    ):
        with pytest.raises(InputError, match=message):
            load_model(ModelSpec(path=str(tmp_path), device=name, dtype="float32"))


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert on_gpu(resolve_device("auto")) == there
    assert device_title(CPU) == "cpu"
    assert chunk_elements(torch.device("cuda", 1)) > chunk_elements(CPU)


def test_flex_attention_is_left_to_the_types_and_sizes_that_its_kernels_have() -> None:
    class Query:
        device, dtype = torch.device("cuda"), torch.bfloat16

        def __init__(self, size: int, **changed: object) -> None:
            self.shape = (1, 4, 300, size)
            vars(self).update(changed)

    assert flex_serves(Query(64), Query(64))  # type: ignore[arg-type]
    for query, value in (
        (Query(8), Query(64)), (Query(64), Query(8)), (Query(64, dtype=torch.float64), Query(64)),
        (Query(64, device=CPU), Query(64)),
    ):  # fmt: skip
        assert not flex_serves(query, value)  # type: ignore[arg-type]
