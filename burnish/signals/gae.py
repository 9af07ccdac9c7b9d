"""Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438), as pure functions of arrays.

Of T tokens with rewards r_t and values V_t, after the last of which nothing comes (V = 0):

    delta_t = r_t + gamma V_{t+1} - V_t          A_t = sum over j >= 0 of (gamma lambda)^j delta_{t+j}
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError

Array = npt.NDArray[np.floating]

CHUNK = 128
"""Tokens that one matrix product goes over."""


def adaptive_lambda(lengths: npt.NDArray[np.integer], k: float) -> npt.NDArray[np.float32]:
    """lambda_i = k^(1 / L_i), [N], in float32: whatever the length, k of the last reward reaches the first token.

    JustRL II. In bfloat16 it would round to 1 once L exceeds some hundreds. VAPO's 1 - 1 / (alpha L) is that of
    k = exp(-1 / alpha). Raises InputError for a k outside (0, 1].
    """
    if not 0 < k <= 1:
        raise InputError(f"a length-adaptive lambda needs a k above 0 and at most 1, not {k}")
    return np.power(np.float32(k), 1.0 / np.maximum(lengths, 1).astype(np.float32), dtype=np.float32)


def discounted(values: Array, decay: Array, chunk: int = CHUNK) -> Array:
    """S_t = sum over j >= 0 of decay^j x_{t+j} of each row of `values` [N, T], with a decay for each row [N].

    A scan in chunks: inside a chunk a product with a triangle of powers, for all chunks and rows at once; then a
    carry from each chunk to the one before it, for all rows at once. The result has the values' type.
    """
    rows, count = values.shape
    decay = np.asarray(decay, dtype=values.dtype)
    blocks = -(-count // chunk)
    padded = np.zeros((rows, blocks * chunk), dtype=values.dtype)
    padded[:, :count] = values
    padded = padded.reshape(rows, blocks, chunk)
    offset = np.arange(chunk)[:, None] - np.arange(chunk)[None, :]  # [later, earlier]
    powers = np.where(offset >= 0, decay[:, None, None] ** np.maximum(offset, 0), 0).astype(values.dtype)
    inside = padded @ powers
    reach = decay[:, None] ** (chunk - np.arange(chunk))  # of the next chunk's first sum, at each place
    carry = np.zeros(rows, dtype=values.dtype)
    for block in range(blocks - 1, -1, -1):
        inside[:, block] += reach * carry[:, None]
        carry = inside[:, block, 0].copy()
    return inside.reshape(rows, -1)[:, :count]


def gae(
    rewards: Array, values: Array, lengths: npt.NDArray[np.integer], decay: Array | float, gamma: float = 1.0
) -> Array:
    """Advantages [N, T] of N sequences padded to T, with a lambda for each [N] or one for all; 0 beyond a length.

    `rewards` and `values` are [N, T]; what they hold beyond a sequence's length does not matter.
    """
    inside = np.arange(rewards.shape[1])[None, :] < np.asarray(lengths)[:, None]
    rewards, values = np.where(inside, rewards, 0), np.where(inside, values, 0)
    after = np.concatenate([values[:, 1:], np.zeros((len(values), 1), dtype=values.dtype)], axis=1)
    delta = rewards + gamma * after - values
    rates = gamma * np.broadcast_to(np.asarray(decay), (len(rewards),))
    return np.where(inside, discounted(delta, rates), 0)
