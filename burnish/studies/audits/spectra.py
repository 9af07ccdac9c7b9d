"""What an update does to one matrix: rank, size, and how far it turns the matrix's own directions. numpy only.

For W of shape [m, n], update D, W' = W + D, singular values s of D, and the first k left and right singular vectors:

* stable rank: |D|_F^2 / |D|_2^2; effective rank: exp of the entropy of s / sum s (Roy and Vetterli 2007); energy rank:
  fewest directions that hold a share of |D|_F^2.
* overlap of two k-dimensional spaces: mean squared cosine of their principal angles, |U^T U'|_F^2 / k; 1: the same
  space, k / m on average for unrelated ones (Bjoerck and Golub 1973).
* principal energy: |U_k^T D V_k|_F^2 / |D|_F^2, k^2 / (m n) on average for an unrelated D.
* drift: |s(W') - s(W)| / |s(W)|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Spectrum:
    """The measures of one matrix's update. Angles in degrees; shares between 0 and 1."""

    relative_norm: float
    """|D|_F / |W|_F."""
    stable_rank: float
    effective_rank: float
    energy_rank_90: float
    """As a share of min(m, n)."""
    drift: float
    overlap: float
    """Of the first k left and right directions of W and W', the mean of the two."""
    largest_angle: float
    """The largest principal angle between them, the larger of left and right."""
    update_overlap: float
    """Of the first k directions of D and those of W."""
    update_overlap_by_chance: float
    smallest_update_angle: float
    principal_energy: float
    principal_energy_by_chance: float


def spectrum(base: Matrix, update: Matrix, k: int | None = None) -> Spectrum:
    """Measures of the update of a matrix that is not zero. `k` is by default an eighth of the smaller side, at most 32.

    Raises ValueError when the shapes differ or the update is zero.
    """
    if base.shape != update.shape or base.ndim != 2:
        raise ValueError(f"needs two matrices of one shape, given {list(base.shape)} and {list(update.shape)}")
    if not np.any(update):
        raise ValueError("the update is zero: it has no directions")
    w, d = np.asarray(base, dtype=np.float64), np.asarray(update, dtype=np.float64)
    rows, columns = w.shape
    k = k or max(1, min(32, min(w.shape) // 8))
    u, s, v = _first(w, k)
    u_new, s_new, v_new = _first(w + d, k)
    u_d, s_d, v_d = _first(d, k)
    rank = int((s_d > s_d[0] * max(rows, columns) * np.finfo(np.float32).eps).sum())
    u_d, v_d = u_d[:, :rank], v_d[:, :rank]  # an adapter's update has few directions: the rest of k would be anything
    energy = s_d**2
    share = s_d / s_d.sum()
    entropy = -float((share[share > 0] * np.log(share[share > 0])).sum())
    held = np.cumsum(energy) / energy.sum()
    return Spectrum(
        relative_norm=math.sqrt(energy.sum()) / float(np.linalg.norm(s)) if s.any() else math.inf,
        stable_rank=float(energy.sum() / energy[0]),
        effective_rank=math.exp(entropy),
        energy_rank_90=(int(np.searchsorted(held, 0.9)) + 1) / min(rows, columns),
        drift=float(np.linalg.norm(s_new - s) / np.linalg.norm(s)) if s.any() else math.inf,
        overlap=(_overlap(u, u_new) + _overlap(v, v_new)) / 2,
        largest_angle=max(_angles(u, u_new).max(), _angles(v, v_new).max()),
        update_overlap=(_overlap(u_d, u) + _overlap(v_d, v)) / 2,
        update_overlap_by_chance=(k / rows + k / columns) / 2,
        smallest_update_angle=min(_angles(u, u_d).min(), _angles(v, v_d).min()),
        principal_energy=float(np.linalg.norm(u.T @ d @ v) ** 2 / energy.sum()),
        principal_energy_by_chance=k * k / (rows * columns),
    )


def _first(matrix: Matrix, k: int) -> tuple[Matrix, Matrix, Matrix]:
    """The first k left directions [m, k], all singular values, the first k right directions [n, k]."""
    u, s, vh = np.linalg.svd(matrix, full_matrices=False)
    return u[:, :k], s, vh[:k].T


def _overlap(a: Matrix, b: Matrix) -> float:
    return float(np.linalg.norm(a.T @ b) ** 2 / a.shape[1])


def _angles(a: Matrix, b: Matrix) -> npt.NDArray[np.float64]:
    """Principal angles between two spaces, in degrees, ascending."""
    return np.degrees(np.arccos(np.clip(np.linalg.svd(a.T @ b, compute_uv=False), 0.0, 1.0)))
