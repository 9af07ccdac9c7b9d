"""What the methods of the field are for, a line each: what `rows` of a method points at."""

from __future__ import annotations

ROWS: dict[str, str] = {
    "sft": "supervised fine-tuning, full and LoRA; the policy initialisation for RL",
    "ppo": "PPO with critic and GAE",
    "grpo": "GRPO and its named variants",
    "gspo": "length-normalised sequence ratio (mean log-prob), clipped per sequence, group advantage",
    "justrl2": "JustRL II: learned critic, length-adaptive GAE, decoupled value target; and JustRL I",
    "rlvr": "verifiable rewards: code tests, checked maths and science, schemas, instruction constraints, tool flags",
    "k1.5": "mirror-descent policy optimisation, length control, curriculum and prioritised sampling, partial rollouts",
    "group-replay": "past groups reused by remaining learning value and compatibility",
    "weak-guidance": "target conditioned on partial trajectories of a smaller, weaker model; preserves diversity",
    "score-centering": "additive removal of the rollout/trainer drift term, for quantised and for stale sampling",
    "token-efficient": "objectives that shorten reasoning at equal accuracy",
    "cispo-forge": "CISPO; any agent behind a gateway, prefix-tree merging, windowed FIFO",
    "study-sft-rl": "tool calling: SFT-LoRA, GRPO, both; in-distribution and cross-dataset apart; dataset mixing",
    "study-132": "self-distillation methods and GRPO under one evaluation: setting dependence, instability, extra time",
    "hacking": "reward hacking learned in vulnerable environments: transfer to harmful behaviour elsewhere, its limits",
    "elicit-or-create": "does RLVR reweight or create: behavioural and weight-level measures",
    "muon": "momentum orthogonalised by Newton-Schulz for chosen matrix classes, AdamW for the rest",
}
"""Row -> what it is. A row is here when a method may serve it; which ones do, the methods' declarations say."""
