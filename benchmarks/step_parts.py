"""The time that each part of an evaluation step takes alone."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from robustness.core.pixels import with_scaled_image
from robustness.core.rows import ArrayRows, numeric_columns
from robustness.evaluation.measurements import summarise
from robustness.evaluation.runner import Evaluator
from robustness.parallel.mesh import BATCH, REPLICATED


def microseconds(evaluator: Evaluator, rows: ArrayRows, rounds: int) -> dict[str, float]:
  """Returns the time of each part of a step, alone, and of the whole step, µs a pass (median).

  The step is the first of a run: its first rows and its first chunk of views. If the parts add up
  to less than the step, the rest is dispatch and waiting. They add up to more where XLA fuses them.
  """
  candidates = parts(evaluator, rows)
  timings = timing.alternate(candidates, rounds)
  return {name: 1e6 / timings.rate(name) for name in candidates}


def parts(evaluator: Evaluator, rows: ArrayRows) -> dict[str, subject.Candidate]:
  """Returns {part of a step: (function that runs it alone, number of forward passes it serves)}."""
  layout, devices = evaluator.layout(rows.num_examples), evaluator.parallel
  size = evaluator.step_rows(layout)  # rows of a step
  batch = numeric_columns(next(rows.batches(size, [0], stored=True)))
  # on the devices: the batch of the first rows, the first chunk of views
  placed = evaluator.prepared(devices.put_batch(batch))
  views = devices.replicate(evaluator._chunk_of_views(layout, 0))
  network = evaluator.classifier
  assert network is not None
  weights = devices.replicate(network.variables)
  passes = size * layout.chunk_views
  show = devices.compile(
    lambda *args: _of_views(evaluator, *args), (REPLICATED, BATCH, REPLICATED), BATCH
  )
  images = devices.put_batch(np.asarray(with_scaled_image(batch)['image']))
  drawn = np.random.default_rng(0).normal(size=(size, layout.chunk_views, network.num_classes))
  logits = devices.put_batch(drawn.astype(np.float32))
  predict = devices.compile(
    lambda variables, x: network.forward(variables, x, ())[0], (REPLICATED, BATCH), BATCH
  )
  rank = devices.compile(_ranked, (BATCH, BATCH), BATCH)
  records = evaluator.run(weights, placed, views)
  # copies on the devices, because an array that is on the host already is not transferred again
  copied = devices.compile(lambda tree: jax.tree.map(jnp.copy, tree), (BATCH,), BATCH)
  ready = jax.block_until_ready
  return {
    'perturbation': (lambda: ready(show(weights, placed, views)), passes),
    'network': (lambda: ready(predict(weights, images)), size),
    'ranking': (lambda: ready(rank(logits, placed['label'])), passes),
    'rows to the device': (lambda: ready(devices.put_batch(batch)), size * layout.num_views),
    'records to the host': (lambda: devices.gather(copied(records)), passes),
    'whole step': (lambda: ready(evaluator.run(weights, placed, views)), passes),
  }


def _of_views(evaluator: Evaluator, variables: Any, batch: Any, views: Any) -> jax.Array:
  """Computes the images of all rows in all views and returns the mean of each, [rows, views].

  Only means are returned, so that no image is stored, which would take time.
  """
  return jax.lax.map(
    lambda view: evaluator.show(variables, batch, view)[0].mean((1, 2, 3)), views
  ).T


def _ranked(logits: jax.Array, labels: jax.Array) -> Mapping[str, jax.Array]:
  """Returns the recorded values of logits [rows, views, classes], such as 'rank' [rows, views]."""
  ranked = jax.lax.map(lambda one_view: summarise(one_view, labels), jnp.moveaxis(logits, 1, 0))
  return jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1), ranked)
