"""Attacks: perturbations that are found with the network's gradient, one module each, pure JAX.

A module has `Settings` and `attack(keys, logits, images, labels, settings, scale=1.0) -> images`:
keys [B], `logits(images [B, H, W, C]) -> [B, classes]` a pure function, images float32 [B, H, W, C]
in [0, 1], labels int32 [B]; `scale` multiplies ε and the step size and may be traced, so that
several ε share one compilation. The result is in [0, 1] and carries no gradient, and each row
depends on its own key, image and label only (given `logits` of which the same holds). The same
function serves adversarial training and the views of a study.

`Settings.draws` says whether an attack has a random start, so that restarts differ.
`Settings.statistics` says which statistics batch normalisation uses while a training's examples are
made: 'running' averages, or those of the 'batch'; the averages are not moved by an attack.

`RESEMBLES` names the transforms that a training would show by an attack, for
`robustness.environments.leaks`: small changes of every pixel are like noise.
"""
