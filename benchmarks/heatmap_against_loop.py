"""Heat map ÷ the straightforward way: a Python loop over all H × W frequencies.

python -m benchmarks.heatmap_against_loop
python -m benchmarks.heatmap_against_loop --networks resnet20 --weights FILE --data IMAGES.npz

The loop makes each basis image by an inverse FFT in numpy, adds it to every batch on the host,
copies the batch to the device and calls one jitted forward pass, at its best of several batch
sizes. It visits all H × W cells; the heat map the distinct frequencies and the clean view.
Both get the same signs and must give the same predictions. Only some frequencies are timed: the
time of the full map is the time for each of them × their number. The goal is 2.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import subject, timing
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.evaluation.runner import Evaluator
from robustness.fourier.basis import distinct_frequencies

NETWORKS = ('small_cnn', 'resnet20')
SIZES = (64, 128, 256)
Predict = Callable[[Any, jax.Array], jax.Array]
TOLERATED = 0.002
"""Share of predictions that may differ: two ways of rounding turn a tie the other way."""


def wave(fy: int, fx: int, height: int, width: int) -> np.ndarray:
  """Returns U of one frequency in the reference phase, by inverse FFT."""
  spectrum = np.zeros((height, width), complex)
  spectrum[fy % height, fx % width] += (1 + 1j) / 2
  spectrum[-fy % height, -fx % width] += (1 - 1j) / 2
  image = np.fft.ifft2(spectrum).real
  return (image / np.linalg.norm(image)).astype(np.float32)


def draw_signs(evaluator: Evaluator, rows: ArrayRows) -> np.ndarray:
  """Returns the signs r that the heat map draws, float32 [views, rows, channels]."""
  ids = np.arange(rows.num_examples)

  def draw(view_id: jax.Array, example_id: jax.Array) -> jax.Array:
    key = random_keys.for_example(evaluator.key, example_id, view_id)
    return jax.random.rademacher(key, (rows.image_shape[2],), np.float32)

  return np.asarray(
    jax.vmap(jax.vmap(draw, (None, 0)), (0, None))(
      jnp.asarray(evaluator.views.ids), jnp.asarray(ids)
    )
  )


def loop(
  evaluator: Evaluator, rows: ArrayRows, signs: np.ndarray, predict: Predict, batch_size: int
) -> np.ndarray:
  """Returns predictions [rows, frequencies] the straightforward way."""
  parameters, variables = evaluator.views.parameters, jax.device_put(evaluator.classifier.variables)
  columns = []
  for view in range(1, len(evaluator.views)):
    basis = wave(int(parameters['fy'][view]), int(parameters['fx'][view]), *rows.image_shape[:2])
    noise = parameters['norm'][view] * basis[None, :, :, None]
    predictions = []
    for start in range(0, rows.num_examples, batch_size):
      part = slice(start, start + batch_size)
      shown = rows.images[part] + noise * signs[view, part][:, None, None, :]
      predictions.append(np.asarray(predict(variables, jax.device_put(shown))))
    columns.append(np.concatenate(predictions))
  return np.stack(columns, 1)


def heat_map(evaluator: Evaluator, rows: ArrayRows) -> np.ndarray:
  """Returns the heat map's predictions [rows, frequencies], the clean view left out."""
  layout = evaluator.layout(rows.num_examples)
  predictions = np.zeros((layout.num_rows, layout.num_views), np.int32)
  for _, _, shard in evaluator.shards(rows, layout):
    predictions[shard.rows, shard.views] = shard['prediction']
  return predictions[:, 1:]


def check(predicted: np.ndarray, expected: np.ndarray, labels: np.ndarray) -> float:
  """Returns the largest difference of an error; refuses predictions that are not the same.

  Raises:
    AssertionError: more than a share `TOLERATED` of the predictions differ.
  """
  share = float((predicted != expected).mean())
  if share > TOLERATED:
    raise AssertionError(f'{share:.2%} of the predictions differ')
  errors = [(predictions != labels[:, None]).mean(0) for predictions in (predicted, expected)]
  return float(np.abs(errors[0] - errors[1]).max())


def measure(name: str, given: argparse.Namespace) -> list[object]:
  """Returns the row of one network."""
  evaluator, rows = subject.heat_map(name, given)
  signs, timed = draw_signs(evaluator, rows), len(evaluator.views) - 1
  forward = evaluator.classifier.forward
  predict = jax.jit(lambda variables, x: forward(variables, x, ())[0].argmax(-1))
  loops = {
    str(size): (functools.partial(loop, evaluator, rows, signs, predict, size), timed)
    for size in given.sizes
  }
  best = timing.fastest(loops, 1)
  difference = check(
    heat_map(evaluator, rows), loop(evaluator, rows, signs, predict, int(best)), rows.labels
  )
  timings = timing.alternate(
    {'loop': loops[best], 'heat map': (subject.written(evaluator, rows)[0], timed + 1)},
    given.rounds,
  )
  height, width, _ = rows.image_shape
  cells, views = height * width, len(distinct_frequencies(height, width)) + 1
  whole = timing.scaled(timings.ratio('heat map', 'loop'), cells / views)
  return [
    name,
    best,
    f'{cells / timings.rate("loop"):.1f}',
    f'{views / timings.rate("heat map"):.1f}',
    timing.describe_ratio(whole),
    timing.describe_ratio(timings.ratio('heat map', 'loop')),
    f'{difference:.4f}',
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = subject.options(__doc__, networks=NETWORKS, images=1000, frequencies=16, rounds=5)
  parser.add_argument('--sizes', type=int, nargs='+', default=list(SIZES), help="loop's batches")
  given = parser.parse_args(arguments)
  timing.print_table(
    (
      'network',
      "loop's best batch",
      'loop, s a map',
      'heat map, s a map',
      'ratio, whole map',
      'ratio, each frequency',
      'largest difference of an error',
    ),
    [measure(name, given) for name in given.networks],
  )


if __name__ == '__main__':
  subject.one_device_a_core()
  main()
