"""Images a second of training with the functions of docs/corruptions.md ÷ the same without.

  python -m benchmarks.corruptions_in_training
  python -m benchmarks.corruptions_in_training --set official

The two functions are run as the page prints them: `augmented`, which corrupts every second image
inside of a JAX step, and `corrupted`, which corrupts every image of a PyTorch DataLoader's batches.
ResNet-20 at 32 pixels; a call is a few steps with forward and backward pass and update. The set of
corruptions is the page's, or another one.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import optax

from benchmarks import subject, timing
from robustness import corruptions

PAGE = timing.ROOT / 'docs/corruptions.md'
UNTIL = '\n## Options\n'
NETWORK = 'resnet20'


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the rates of training in JAX and PyTorch, without and with corrupted images."""
  parser = timing.options(__doc__, rounds=5, clock=True)
  parser.add_argument('--set', default='extra', choices=list(corruptions.SETS))
  parser.add_argument('--batch', type=int, default=64)
  parser.add_argument('--steps', type=int, default=2)
  args = parser.parse_args(arguments)
  page = functions_of_the_page()
  page['names'] = corruptions.SETS[args.set]  # the page's functions draw from `names`
  candidates: dict[str, subject.Candidate] = {}
  for framework, steps in (('jax', jax_steps), ('torch', torch_steps)):
    plain, with_corruptions = steps(page, args.batch, args.steps)
    candidates[framework] = (plain, args.batch * args.steps)
    candidates[f'{framework}, corrupted'] = (with_corruptions, args.batch * args.steps)
  timings = timing.alternate(candidates, args.rounds, timing.CLOCKS[args.clock])
  timing.print_table(
    {
      f'{NETWORK}, batch {args.batch}': name,
      'images/s': f'{timings.rate(name):.4g}',
      # 'jax, corrupted' is compared with 'jax'
      'ratio (range)': timing.describe_ratio(timings.ratio(name, name.partition(',')[0])),
    }
    for name in candidates
  )


def functions_of_the_page() -> dict[str, Any]:
  """Runs the page's Python blocks about training; returns {name: what they define}."""
  text = PAGE.read_text(encoding='utf-8').partition(UNTIL)[0]
  space: dict[str, Any] = {}
  for block in re.findall(r'^```python\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
    exec(compile(block, str(PAGE), 'exec'), space)
  return space


def data(size: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns `size` random images [N, 32, 32, 3] in [0, 1] with labels [N] in 0..9.

  As in natural images, amplitudes of waves fall as 1 / frequency; phases are random.
  """
  generator = np.random.default_rng(0)
  cycles = np.hypot(np.fft.fftfreq(32)[:, None], np.fft.rfftfreq(32)[None]) * 32
  shape = (size, 3, *cycles.shape)
  spectra = np.exp(2j * np.pi * generator.random(shape)) / np.maximum(cycles, 1)
  images = np.fft.irfft2(spectra, (32, 32)).transpose(0, 2, 3, 1)
  images = 0.5 + 0.2 * images / images.std((1, 2, 3), keepdims=True)
  return np.clip(images, 0, 1).astype(np.float32), generator.integers(0, 10, size)


def jax_steps(page: dict[str, Any], size: int, steps: int) -> tuple[Callable, Callable]:
  """Returns functions that train a network in JAX, without and with corrupted images.

  The second calls `augmented` of the docs page within the compiled step. For the arguments see
  `torch_steps`.
  """
  classifier = subject.classifier(NETWORK)
  optimizer = optax.sgd(0.1, momentum=0.9)
  images, labels = (jax.numpy.asarray(x) for x in data(size))

  def loss(variables: Any, x: jax.Array) -> jax.Array:
    logits = classifier.forward(variables, x, ())[0]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

  def step(variables: Any, moments: Any, x: jax.Array, number: int, corrupts: bool) -> Any:
    if corrupts:
      x = page['augmented'](jax.random.fold_in(jax.random.key(0), number), x)
    updates, moments = optimizer.update(jax.grad(loss)(variables, x), moments)
    return optax.apply_updates(variables, updates), moments

  compiled = jax.jit(step, static_argnums=4)

  def run(corrupts: bool) -> None:
    variables, moments = classifier.variables, optimizer.init(classifier.variables)
    for number in range(steps):
      variables, moments = compiled(variables, moments, images, number, corrupts)
    jax.block_until_ready(variables)

  return lambda: run(False), lambda: run(True)


def torch_steps(page: dict[str, Any], size: int, steps: int) -> tuple[Callable, Callable]:
  """Returns functions that train a network in PyTorch, without and with corrupted images.

  The second calls `corrupted` of the docs page on each batch of the loader.

  Args:
    page: {name: object} that the page defines.
    size: number of images in a batch.
    steps: number of training steps.
  """
  import torch
  from torch.nn import functional
  from torch.utils.data import DataLoader, TensorDataset

  from benchmarks.torch_networks import ResNet

  network = ResNet(20).train()
  optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
  images, labels = (torch.from_numpy(x) for x in data(size * steps))
  rows = TensorDataset(images.permute(0, 3, 1, 2), labels)
  loader = DataLoader(rows, batch_size=size, shuffle=True, drop_last=True)

  def run(corrupts: bool) -> None:
    for number, (batch, label) in enumerate(loader):
      images = page['corrupted'](batch, seed=0, step=number) if corrupts else batch
      optimizer.zero_grad()
      functional.cross_entropy(network(images.contiguous()), label).backward()
      optimizer.step()

  return lambda: run(False), lambda: run(True)


if __name__ == '__main__':
  main()
