"""Prefix-shared forests give what the padded reference gives: values and gradients, on every architecture."""

from __future__ import annotations

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from burnish.models.flex import flex_attend
from burnish.models.forest import Forest, Slot
from burnish.models.language_model import LanguageModel
from tests.tiny import ARCHITECTURES, UNSHAREABLE, VOCAB, tiny_network

# three trees: a deep one with an empty node, a bare root, a wide one; lengths pass the tiny models' sliding window
LENGTHS = [7, 3, 0, 4, 5, 2, 9, 6, 1, 2, 3]
PARENTS = [-1, 0, 0, 1, 1, 2, -1, -1, 7, 7, 7]


def make_forest(seed: int = 0) -> Forest:
    generator = torch.Generator().manual_seed(seed)
    runs = [torch.randint(VOCAB, (n,), generator=generator) for n in LENGTHS]
    return Forest.build(runs, PARENTS)


def leaves(forest: Forest) -> list[int]:
    parents = {slot.parent for slot in forest.slots}
    return [i for i in range(len(forest.slots)) if i not in parents]


def reference_hidden(model: LanguageModel, forest: Forest) -> torch.Tensor:
    """Each leaf path as a padded row of the unmodified model; every flat token read from one path through it."""
    paths = [torch.cat([torch.arange(forest.slots[s].start, forest.slots[s].stop) for s in forest.ancestors(leaf)])
             for leaf in leaves(forest)]  # fmt: skip
    rows = model.hidden_rows([forest.tokens[path] for path in paths])
    home = {int(token): (r, place) for r, path in enumerate(paths) for place, token in enumerate(path)}
    return torch.stack([rows[home[i][0]][home[i][1]] for i in range(len(forest))])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probs_entropy_and_gradients_equal_the_padded_reference(architecture: str) -> None:
    model = LanguageModel(tiny_network(architecture, dtype=torch.float64))
    assert model.sharing, model.path_in_use
    forest = make_forest()
    targets = torch.randint(VOCAB, (len(forest),), generator=torch.Generator().manual_seed(1))
    weights = torch.randn(len(forest), 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    results = []
    for hidden in (model.hidden(forest.tokens, forest.positions, forest), reference_hidden(model, forest)):
        logprob, entropy = model.head.token_statistics(hidden, targets, entropy=True, chunk=7)
        assert entropy is not None
        model.network.zero_grad()
        (logprob * weights[:, 0] + entropy * weights[:, 1]).sum().backward()
        gradients = {n: p.grad.clone() for n, p in model.network.named_parameters() if p.grad is not None}
        results.append((logprob.detach(), entropy.detach(), gradients))
    (logprob, entropy, gradients), (logprob_ref, entropy_ref, gradients_ref) = results
    torch.testing.assert_close(logprob, logprob_ref, rtol=0, atol=1e-10)
    torch.testing.assert_close(entropy, entropy_ref, rtol=0, atol=1e-10)
    assert gradients.keys() == gradients_ref.keys() and gradients
    for name, gradient in gradients.items():
        scale = float(gradients_ref[name].norm()) + 1e-12
        assert float((gradient - gradients_ref[name]).norm()) / scale < 1e-9, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_lean_head_equals_the_models_own_log_softmax(architecture: str) -> None:
    network = tiny_network(architecture)
    tokens = torch.arange(12)[None] * 5 % VOCAB
    with torch.no_grad():
        expected = torch.log_softmax(network(input_ids=tokens).logits[0].float(), dim=-1)
        model = LanguageModel(network)
        [hidden] = model.hidden_rows([tokens[0]])
        chosen, entropy = model.head.token_statistics(hidden, tokens[0], entropy=True, chunk=5)
        torch.testing.assert_close(torch.log_softmax(model.logits(hidden), -1), expected, rtol=0, atol=2e-5)
    assert entropy is not None
    torch.testing.assert_close(chosen, expected.gather(1, tokens.T).squeeze(1), rtol=0, atol=2e-5)
    torch.testing.assert_close(entropy, -(expected.exp() * expected).sum(-1), rtol=0, atol=5e-5)


@pytest.mark.parametrize("architecture", sorted(UNSHAREABLE))
def test_a_model_whose_attention_cannot_be_shared_takes_the_plain_path_and_says_so(architecture: str) -> None:
    model = LanguageModel(tiny_network(architecture))
    assert not model.sharing
    assert "plain padded" in model.path_in_use


def test_a_model_that_mixes_attention_and_a_state_in_each_layer_is_not_shared() -> None:
    """Falcon-H1 passes the count of attention layers; its state leaks from sibling to sibling."""
    config = CONFIG_MAPPING["falcon_h1"](
        vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8,
        pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LanguageModel(AutoModelForCausalLM.from_config(config).eval())
    assert not model.sharing and "siblings" in model.path_in_use


def test_rotary_frequencies_that_depend_on_the_batch_hold_the_model_to_its_original_length() -> None:
    factors = [1.0] * 4
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": factors, "long_factor": factors}
    overrides = {"rope_parameters": rope, "original_max_position_embeddings": 64, "max_position_embeddings": 512}
    assert LanguageModel(tiny_network("phi3", overrides=overrides)).context_length == 64
    assert LanguageModel(tiny_network("phi3")).context_length == 512


def test_a_sibling_does_not_see_its_sibling() -> None:
    model = LanguageModel(tiny_network("llama"))
    stem, tail = torch.arange(6), torch.arange(20, 24)
    outputs = []
    for other in (torch.arange(30, 35), torch.arange(60, 65)):
        forest = Forest.build([stem, other, tail], [-1, 0, 0])
        with torch.no_grad():
            outputs.append(model.hidden(forest.tokens, forest.positions, forest)[-4:])
    assert torch.equal(*outputs)


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("softcap", [None, 2.0])
def test_flex_attention_and_the_slot_calls_agree(window: int | None, softcap: float | None) -> None:
    forest = make_forest()
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(1, 4, len(forest), 16, generator=generator)
    key, value = (torch.randn(1, 2, len(forest), 16, generator=generator) for _ in range(2))
    arguments = {"scaling": 0.3, "window": window, "softcap": softcap}
    ours = forest.attend(0, query, key, value, **arguments)
    flex = flex_attend(forest, query, key, value, **arguments)
    torch.testing.assert_close(ours, flex, rtol=1e-5, atol=1e-5)


def test_long_slots_use_single_calls_and_agree_with_one_dense_mask() -> None:
    forest = Forest.build([torch.zeros(300), torch.ones(200), torch.ones(150)], [-1, 0, 0])
    assert len(forest.attention(48).calls) == 3  # padding the shorter branch would cost more than a call
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(1, 6, len(forest), 8, generator=generator)
    key, value = (torch.randn(1, 2, len(forest), 8, generator=generator) for _ in range(2))
    for window in (None, 100):
        arguments = {"scaling": 0.3, "window": window, "softcap": None}
        ours = forest.attend(0, query, key, value, **arguments)
        torch.testing.assert_close(ours, flex_attend(forest, query, key, value, **arguments), rtol=1e-5, atol=1e-5)


def test_misordered_trees_are_refused() -> None:
    run = torch.zeros(2)
    with pytest.raises(ValueError, match="does not stand before it"):
        Forest.build([run, run], [1, -1])
    with pytest.raises(ValueError, match="must stand together"):
        Forest.build([run, run, run], [-1, -1, 0])
    assert Forest.build([run, run], [-1, 0]).slots[1] == Slot(2, 4, 0, 2)
