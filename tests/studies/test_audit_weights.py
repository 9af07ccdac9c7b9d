"""What an audit says of the weights, on matrices whose update is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import burnish
from burnish.studies.audits import Finding
from burnish.studies.audits.spectra import spectrum
from tests.studies.audited import matrices, write_run, write_weights


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("weights") / "run", steps=1)


def updated(run: Path, folder: Path, after: dict[str, np.ndarray], **options: int) -> Finding:
    base = write_weights(folder / "base", matrices())
    write_weights(run / "final", after)
    return burnish.audit(run, "update", base=base, **options)["update"]  # pyright: ignore[reportArgumentType]


def test_a_small_update_is_ok_and_its_sparsity_is_counted(run: Path, tmp_path: Path) -> None:
    after = matrices()
    random = np.random.default_rng(3)
    changed = 0
    for i in range(6):
        name = f"layers.{i}.proj.weight"
        mask = random.random(after[name].shape) < 0.2
        after[name] = np.where(mask, after[name] * 1.05, after[name]).astype(np.float32)
        changed += int(mask.sum())
    found = updated(run, tmp_path, after)
    total = sum(values.size for values in after.values())
    assert found.level == "ok" and found["unchanged"].value == pytest.approx(1 - changed / total)
    assert found["unchanged_in_bfloat16"].value == found["unchanged"].value  # 5 % is seen in 8 bits
    assert found["overlap"].value > 0.95 and 0.01 < found["relative_norm"].value < 0.05
    assert found["relative_norm"].over == "mean of 6 matrices" and found["relative_norm"].low is not None


def test_other_weights_and_the_same_weights_are_faults(run: Path, tmp_path: Path) -> None:
    other, same = updated(run, tmp_path / "a", matrices(9)), updated(run, tmp_path / "b", matrices())
    assert other.level == "fault" and other["relative_norm"].value > 1 and other["overlap"].value < 0.5
    assert same.level == "fault" and same["unchanged"].value == 1.0
    broken = matrices()
    broken["norm.weight"][3] = np.nan
    spoilt = updated(run, tmp_path / "c", broken)
    assert spoilt.level == "fault" and spoilt["not_finite"].value == 1


def test_an_update_that_bfloat16_swallows_is_looked_at(run: Path, tmp_path: Path) -> None:
    after = {name: values * np.float32(1 + 2**-13) for name, values in matrices().items()}
    found = updated(run, tmp_path, after)
    # an entry moves by a 32nd of its last place, so about one in 32 crosses a border; 0.999 is for what is truly lost
    assert 0.9 < found["unchanged_in_bfloat16"].value < 0.999 and found["unchanged"].value < 0.01
    grid = {name: _bfloat16(values) for name, values in matrices().items()}
    base = write_weights(tmp_path / "grid", grid)
    write_weights(run / "final", {name: values * np.float32(1 + 2**-13) for name, values in grid.items()})
    lost = burnish.audit(run, "update", base=base)["update"]
    assert lost.level == "look" and lost["unchanged_in_bfloat16"].value == 1.0 and lost["unchanged"].value < 0.01


def _bfloat16(values: np.ndarray) -> np.ndarray:
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def test_measures_of_an_update_of_known_rank() -> None:
    random = np.random.default_rng(5)
    u, _ = np.linalg.qr(random.normal(size=(40, 40)))
    v, _ = np.linalg.qr(random.normal(size=(40, 40)))
    base = u @ np.diag(np.linspace(10, 1, 40)) @ v.T
    inside = spectrum(base, 0.1 * u[:, :4] @ v[:, :4].T, k=4)  # four equal directions, the base's first
    assert inside.stable_rank == pytest.approx(4) and inside.effective_rank == pytest.approx(4)
    assert inside.energy_rank_90 == pytest.approx(4 / 40) and inside.update_overlap == pytest.approx(1)
    assert inside.principal_energy == pytest.approx(1) and inside.smallest_update_angle == pytest.approx(0, abs=1e-4)
    assert inside.overlap == pytest.approx(1) and inside.largest_angle == pytest.approx(0, abs=1e-4)
    assert inside.relative_norm == pytest.approx(0.2 / np.linalg.norm(base))
    outside = spectrum(base, 0.1 * u[:, -4:] @ v[:, -4:].T, k=4)  # and its last
    assert outside.principal_energy == pytest.approx(0, abs=1e-12)
    assert outside.smallest_update_angle == pytest.approx(90) and outside.update_overlap == pytest.approx(0, abs=1e-12)
    assert outside.principal_energy_by_chance == pytest.approx(4 * 4 / 1600)
    turned = spectrum(np.diag([2.0, 1.0]), np.array([[-2.0, 0.0], [0.0, 2.0]]), k=1)  # the first direction is another
    assert turned.largest_angle == pytest.approx(90) and turned.overlap == pytest.approx(0)
    assert turned.drift == pytest.approx(math.hypot(1, 1) / math.hypot(2, 1))
    with pytest.raises(ValueError, match="the update is zero"):
        spectrum(base, np.zeros_like(base))
    with pytest.raises(ValueError, match="one shape"):
        spectrum(base, base[:3])


def test_an_adapter_is_the_update_that_it_adds(run: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    a, b = (0.05 * random.normal(size=shape).astype(np.float32) for shape in ((4, 32), (24, 4)))
    name = "layers.2.proj"
    folder = tmp_path / "adapted" / "final"
    folder.mkdir(parents=True)
    for settings, scale in (({"r": 4, "lora_alpha": 8}, 2.0), ({"r": 4, "lora_alpha": 8, "use_rslora": True}, 4.0)):
        (folder / "adapter_config.json").write_text(json.dumps(settings))
        key = f"base_model.model.{name}"
        save_file({f"{key}.lora_A.weight": a, f"{key}.lora_B.weight": b}, folder / "adapter_model.safetensors")
        base = write_weights(tmp_path / "base", matrices())
        (folder.parent / "config.yaml").write_text("method: grpo\n")
        found = burnish.audit(folder.parent, "update", base=base)["update"]
        assert found["norm"].value == pytest.approx(scale * float(np.linalg.norm(b @ a)), rel=1e-5)
        assert found["energy_rank_90"].value <= 4 / 24 and found["relative_norm"].over == "mean of 1 matrices"


def test_matrices_are_taken_evenly_and_checkpoints_by_their_step(run: Path, tmp_path: Path) -> None:
    after = {name: values * np.float32(1.05) for name, values in matrices().items()}
    few = updated(run, tmp_path, after, matrices=2)
    assert few["overlap"].over == "mean of 2 matrices" and "2 of 6 matrices" in few.says
    for step, factor in ((4, 1.0), (8, 1.05)):
        folder = run / "checkpoints" / f"step-{step}"
        write_weights(folder, {name: values * np.float32(factor) for name, values in matrices().items()})
        (folder / "manifest.json").write_text("{}")
    torn = write_weights(run / "checkpoints" / "step-9", matrices(1))
    base = tmp_path / "base"
    found = {step: burnish.audit(run, "update", base=base, checkpoint=step)["update"] for step in (4, 8)}
    assert found[4]["unchanged"].value == 1.0 and found[8]["unchanged"].value < 0.01
    with pytest.raises(burnish.InputError, match=r"no whole checkpoint of step 9; there are: 4, 8"):
        burnish.audit(run, "update", base=base, checkpoint=9)
    assert torn.is_dir()


def test_weights_that_cannot_be_compared_are_refused(run: Path, tmp_path: Path) -> None:
    other = {**matrices(), "norm.weight": np.zeros(7, np.float32)}
    with pytest.raises(burnish.InputError, match=r"norm.weight has shape \[7\], and \[32\].*by --base"):
        updated(run, tmp_path / "a", other)
    base = write_weights(tmp_path / "b", matrices())
    file = write_weights(run / "final", matrices()) / "model.safetensors"
    whole = file.read_bytes()
    for damaged in (whole[:200], whole[:-9], b"", b"\xff" * 64):
        file.write_bytes(damaged)
        with pytest.raises(burnish.InputError, match=r"model.safetensors is damaged or cut short"):
            burnish.audit(run, "update", base=base)
    file.write_bytes(whole)
    with pytest.raises(burnish.InputError, match=r"nowhere/at/all: the weights that the run began with are not here"):
        burnish.audit(run, "update", base="nowhere/at/all")
    (tmp_path / "empty").mkdir()
    with pytest.raises(burnish.InputError, match=r"has no .safetensors file"):
        burnish.audit(run, "update", base=tmp_path / "empty")


def test_an_update_of_low_rank_is_measured_by_the_directions_that_it_has() -> None:
    base = np.diag(np.arange(64.0, 0.0, -1.0))
    first, last = np.zeros((64, 64)), np.zeros((64, 64))
    first[0, 0], last[63, 63] = 0.1, 0.1
    assert spectrum(base, first).update_overlap == pytest.approx(1.0)
    assert spectrum(base, last).update_overlap == pytest.approx(0.0, abs=1e-12)
    assert spectrum(base, last).smallest_update_angle == pytest.approx(90.0)
