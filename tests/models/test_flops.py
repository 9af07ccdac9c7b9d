"""Floating point operations: against torch's own counter on the padded path, and against closed forms."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from burnish.models.adapters import attach_adapter
from burnish.models.flops import Maps, ModelFlops, visible
from burnish.models.language_model import LanguageModel
from burnish.models.spec import LoraSpec
from tests.tiny import SHAREABLE, UNSHAREABLE, WINDOW, tiny_model, tiny_network, tiny_tokenizer, token_row

T = 20
"""Tokens of the sequence, more than the sliding window."""

H, V, LAYERS, HEADS = 32, 97, 2, 4  # of the tiny llama, whose heads have 8 numbers
LLAMA_LAYER = H * 32 + 2 * H * 16 + 32 * H + 3 * H * 48  # queries; keys, values; output; gate, up, down


def eager(model: LanguageModel) -> LanguageModel:
    """The kernel that torch counts: it knows no formula for the CPU's fused attention."""
    model._own_attention = "eager"
    return model


def lora(architecture: str, **keys: object) -> LanguageModel:
    network = attach_adapter(tiny_network(architecture), LoraSpec(rank=3, **keys))  # type: ignore[arg-type]
    return LanguageModel(network, tiny_tokenizer(), compute_dtype=torch.float32, device=torch.device("cpu"))


def counted(model: LanguageModel, row: Tensor, *, backward: bool) -> int:
    """What torch counts of one sequence through the model and its head."""
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        logits = model.logits(model.hidden_rows([row])[0])
        if backward:
            logits.sum().backward()
    return counter.get_total_flops()


def masked_half(flops: ModelFlops) -> int:
    """Scores and weighted values that an eager kernel computes only to mask them: query and key not `visible`."""
    unseen = {s.window: T * T - visible(0, T, s.window) for s in flops.attention}
    return sum(2 * s.heads * (s.key_size + s.value_size) * unseen[s.window] for s in flops.attention)


@pytest.mark.parametrize("architecture", list(SHAREABLE))
def test_a_forward_pass_is_what_torch_counts_but_the_masked_part_of_attention(architecture: str) -> None:
    model = eager(tiny_model(architecture))
    flops = ModelFlops.of(model)
    assert counted(model, token_row(T), backward=False) == flops.forward([(0, T)], T) + masked_half(flops)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gpt2", "qwen3_moe"])
def test_with_fused_attention_the_products_with_weights_are_what_torch_counts(architecture: str) -> None:
    """The fused kernel itself is left out: torch has no formula for the CPU's, and another one for each GPU's."""
    model = tiny_model(architecture)
    with FlopCounterMode(display=False) as counter:
        model.logits(model.hidden_rows([token_row(T)])[0]).sum().backward()
    of = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
    weights = ModelFlops(ModelFlops.of(model).layers, ModelFlops.of(model).head, attention=())
    assert of["aten.mm"] + of.get("aten.addmm", 0) == weights.training([(0, T)], T)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma2", "gpt2", "qwen3_moe"])
def test_a_training_pass_is_what_torch_counts_but_the_masked_part_of_attention(architecture: str) -> None:
    model = eager(tiny_model(architecture))
    flops = ModelFlops.of(model)
    assert counted(model, token_row(T), backward=True) == flops.training([(0, T)], T) + 3 * masked_half(flops)


@pytest.mark.parametrize(
    ("architecture", "first"),
    [("llama", H * 32 + 2 * H * 16 + 3 * 3 * H), ("gpt2", H * 96 + 3 * H)],
)
def test_frozen_weights_cost_the_gradient_of_their_input_alone(architecture: str, first: int) -> None:
    """torch leaves out one gradient more: of the first layer's input (maps of `first` parameters), as nothing learns
    before it. The count has it, as it has that of every layer."""
    model = eager(lora(architecture))
    flops = ModelFlops.of(model)
    expected = flops.training([(0, T)], T) + 3 * masked_half(flops) - 2 * first * T
    assert counted(model, token_row(T), backward=True) == expected


def test_an_adapter_that_is_off_is_not_counted() -> None:
    model = eager(lora("llama"))
    on = ModelFlops.of(model)
    with model.without_adapter():
        off = ModelFlops.of(model)
        assert counted(model, token_row(T), backward=False) == off.forward([(0, T)], T) + masked_half(off)
    assert off.layers == Maps(trained=0, frozen=LAYERS * LLAMA_LAYER)
    pairs = 4 * (H + 32) + 2 * (H + 16) + 3 * (H + 48) - 2 * (H + 32)  # in + out of each of the seven maps
    assert on.layers == Maps(trained=LAYERS * 3 * pairs, frozen=LAYERS * LLAMA_LAYER)
    assert on.head == Maps(trained=0, frozen=H * V)


def test_of_a_mixture_of_experts_the_active_ones_count_and_of_its_adapters_theirs() -> None:
    attention, router, expert = 2 * H * 32 + 2 * H * 16, 4 * H, 3 * H * 24
    flops = ModelFlops.of(tiny_model("qwen3_moe"))
    assert flops.layers == Maps(trained=LAYERS * (attention + router + 2 * expert))
    more = ModelFlops.of(tiny_model("qwen3_moe", overrides={"num_experts": 8}))
    assert more.layers == Maps(trained=LAYERS * (attention + 2 * router + 2 * expert))
    # rank 3: attention, the router, and of both active experts gate with up (peft takes twice the rank) and down
    adapters = 3 * (2 * (H + 32) + 2 * (H + 16) + (H + 4) + 2 * 2 * (H + 48) + 2 * (24 + H))
    assert ModelFlops.of(lora("qwen3_moe")).layers == Maps(
        trained=LAYERS * adapters, frozen=LAYERS * (attention + router + 2 * expert)
    )


def test_training_a_llama_equals_the_closed_form() -> None:
    """6 operations a parameter and token; attention 12 x layers x width x context; 6 x hidden x vocabulary a logit."""
    flops = ModelFlops.of(tiny_model("llama"))
    width = HEADS * 8
    assert flops.training([(0, T)], 7) == (
        6 * LAYERS * LLAMA_LAYER * T + 12 * LAYERS * width * (T * (T + 1) // 2) + 6 * H * V * 7
    )
    assert flops.forward([(T, T + 1)], 1) == 2 * LAYERS * LLAMA_LAYER + 4 * LAYERS * width * (T + 1) + 2 * H * V
    assert flops.forward([], 0) == flops.training([], 0) == 0


def test_a_prefix_counts_once_and_its_branches_see_it() -> None:
    flops = ModelFlops.of(tiny_model("gemma2"))
    shared = flops.forward([(0, 12), (12, 15), (12, 20)], 0)
    apart = flops.forward([(0, 15), (0, 20)], 0)
    assert apart - shared == flops.forward([(0, 12)], 0)


def test_visible_keys_are_counted_as_a_mask_would_show_them() -> None:
    for window in (None, 1, 3, 50):
        for start in range(8):
            for stop in range(start, 9):
                mask = [[k <= q and (window is None or q - k < window) for k in range(9)] for q in range(start, stop)]
                assert visible(start, stop, window) == sum(map(sum, mask))


@pytest.mark.parametrize("architecture", list(SHAREABLE))
def test_attention_that_is_seen_is_the_attention_of_the_configuration(architecture: str) -> None:
    """A model that runs its own attention is read from its configuration."""
    ours, own = tiny_model(architecture), tiny_model(architecture)
    own.sharing = False
    assert ours.attention_shapes == own.attention_shapes
    windows = [s.window for s in ours.attention_shapes]
    expected = {"mistral": [WINDOW] * 2, "gemma2": [WINDOW, None] * 2, "gemma3": [WINDOW, WINDOW, None],
                "cohere2": [WINDOW] * 3 + [None]}  # fmt: skip
    assert windows == expected.get(architecture, [None] * 2)


@pytest.mark.parametrize("architecture", list(UNSHAREABLE))
def test_recurrent_layers_have_their_linear_maps_and_no_attention(architecture: str) -> None:
    """What torch counts beside: the recurrence, and the padding of the convolution before it."""
    model = tiny_model(architecture)
    flops = ModelFlops.of(model)
    assert [s.heads for s in flops.attention] == ([] if architecture == "mamba" else [4])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        eager(model).hidden_rows([token_row(T)])
    of = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
    convolutions = LAYERS * 64 * 4 if architecture == "mamba" else 64 * 4
    assert flops.layers.forward * T == of["aten.mm"] + of.get("aten.addmm", 0) + 2 * convolutions * T
