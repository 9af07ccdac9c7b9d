"""Learning: the learner, optimizers, schedules, checkpoints."""
