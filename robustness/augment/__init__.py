"""Augmentations of training examples, pure JAX: one module each, in the order of the policy.

A module has `Settings` and `augment(key, example, settings) -> example`. An example is one row as a
dict: `image` float32 [H, W, C] in [0, 1], `label` int32 [], `target` float32 [classes] (the
distribution over classes that is learnt), `example_id`, and the columns of the source. A module
with `NEEDS_PARTNER = True` also finds `partner`, another row of the batch, as it is at that point
of the policy. The key depends on (seed, the module's name, example_id, step) alone, and
on how often the batch holds the row before. `RESEMBLES`
names the transforms that its images are like, for `robustness.environments.leaks`.

A module with `SEQUENTIAL = True` makes choices that differ in cost: a CPU takes it row after row,
so that a row costs its own choice and not all of them; it has no `partner`. One whose choices are
costly also has `branches(settings)`, `draw_branch(key, settings)` and `apply_branch(branch, key,
image, settings)`, by which an accelerator computes rows of one branch together.

An augmentation may give several images of a row, [V, H, W, C]; those after it see each by itself.

A module with `adds(settings) -> {name: n}` adds columns of whole numbers in [0, n). What
`metrics(batch, settings) -> {name: scalar}` says of the batch that the policy left, means over its
rows, is logged.

Modules without `Settings` are what several augmentations share.
"""
