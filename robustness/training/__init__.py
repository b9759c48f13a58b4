"""Training a classifier: settings, schedule, state, step, checkpoints and the loop."""
