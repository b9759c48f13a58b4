"""What a training minimises: one module each, pure JAX.

A module has `Settings`; `objective(outputs, batch, state, settings, total) -> (losses [B], weights
[B], state, metrics)`; and, where it needs them, `columns(settings)`, names of columns that the rows
must have, and `initial_state(settings, num_classes)`, arrays that it carries from step to step
(they are part of the checkpoint).

The step minimises Σ weights · losses / Σ weights over the whole batch, whatever the number of
devices and micro-batches; weights carry no gradient. `outputs` has `logits` float32 [B, classes],
or [B, V, classes] where an augmentation gives V images a row; `batch` is what the policy left, with
`target` [B, classes] and the columns. `total(x)` sums an array over the devices that share the
batch; what depends on more than single rows, such as means of groups, takes it. `metrics` are
scalars, logged as means. With micro-batches an objective sees one of them at a time.

A module that counts the values of `settings.column` in groups names the setting that says how many
there are: `COUNT`; 0 of these are as many as the classes. A training whose rows have more is
refused, for those beyond would have no weight.

A module with `NEEDS = ('features',)` also finds `features` in `outputs`: what the network's last
linear map is given, [B, F] or [B, V, F] (`robustness.models.layers.FEATURES`).
"""
