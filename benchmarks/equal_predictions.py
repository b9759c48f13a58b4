"""Whether two machines predict the same: predictions are saved on one and compared on the other.

  python -m benchmarks.equal_predictions --save FILE.npz --networks resnet20 --weights FILE.th
  python -m benchmarks.equal_predictions --compare FILE.npz --weights FILE.th

The first command writes each network's probabilities and the images' digest; the second predicts
the same images with the same weights and prints the share of equal top-1 classes and the largest
difference of a probability. Without --data and --weights images and weights are noise that NumPy
draws, the same on every machine. Equal classes then mean little, because either few images or all
are near a boundary.
"""

import argparse
import hashlib
import pathlib
from collections.abc import Sequence

import jax
import numpy as np

from benchmarks import subject, timing
from benchmarks.matrix_rate import PRECISIONS, computing_in
from robustness.core.errors import InputError
from robustness.models.weights import digest

SEPARATOR = '|'


def probabilities(name: str, precision: str, args: argparse.Namespace) -> tuple[np.ndarray, str]:
  """Returns all images' probabilities, float32 [N, classes], and a digest of weights and images."""
  with computing_in(precision) as dtype:
    network = subject.classifier(name, args.weights, precision=dtype)
    images = subject.rows(network.input_shape, args.images, args.data).images
    predict = jax.jit(lambda w, x: jax.nn.softmax(network.forward(w, x, ())[0]))
    parts = [
      np.asarray(predict(network.variables, images[first : first + args.batch]))
      for first in range(0, len(images), args.batch)
    ]
  image_digest = hashlib.sha256(np.ascontiguousarray(images)).hexdigest()
  return np.concatenate(parts), f'{digest(network.variables)} {image_digest}'


def save(args: argparse.Namespace) -> None:
  """Writes the probabilities of every network in every precision."""
  arrays = {}
  for name in args.networks:
    for precision in args.precisions:
      values, identity = probabilities(name, precision, args)
      arrays[SEPARATOR.join((name, precision))] = values
      arrays[SEPARATOR.join((name, precision, 'identity'))] = np.array(identity)
  np.savez(args.save, device=np.array(jax.devices()[0].device_kind), **arrays)
  print(f'{args.save}: {", ".join(args.networks)} on {jax.devices()[0].device_kind}')


def compare(args: argparse.Namespace) -> None:
  """Prints how far saved probabilities differ from those that this machine computes.

  Each network and precision of the file is compared with each precision of `--precisions`.

  Raises:
    InputError: weights or images differ from the file.
  """
  table = []
  with np.load(args.compare, allow_pickle=False) as file:
    stored = {key: file[key] for key in file.files}
  saved_on, device = str(stored.pop('device')), jax.devices()[0].device_kind
  # 'network|precision' has the probabilities [N, classes], 'network|precision|identity' a digest
  for key in [key for key in stored if key.count(SEPARATOR) == 1]:
    name, saved_in = key.split(SEPARATOR)
    args.images = len(stored[key])
    for precision in args.precisions:
      values, identity = probabilities(name, precision, args)
      if identity != str(stored[f'{key}{SEPARATOR}identity']):
        raise InputError(
          f'{args.compare} has predictions of {name} with other weights or images: give the '
          '--weights and --data that it was saved with.'
        )
      equal = values.argmax(1) == stored[key].argmax(1)
      difference = np.abs(values - stored[key]).max(1)
      line = {
        'network': name,
        'saved': f'{saved_in}, {saved_on}',
        'here': f'{precision}, {device}',
        'images': len(equal),
        'ratio of equal top-1': f'{equal.mean():.6f}',
        'largest difference of a probability': f'{difference.max():.2g}',
        "median of images' largest": f'{np.median(difference):.2g}',
      }
      table.append(line)
  timing.print_table(table)


def main(arguments: Sequence[str] | None = None) -> None:
  """Saves predictions to a file, or compares the predictions of a file with those made here."""
  names = ('resnet20', 'wide_resnet_28_10', 'resnet50', 'vit_b16')
  parser = subject.options(__doc__, networks=names, images=256)
  action = parser.add_mutually_exclusive_group(required=True)
  action.add_argument('--save', type=pathlib.Path, help='.npz file to write')
  action.add_argument('--compare', type=pathlib.Path, help='file that --save wrote')
  precisions = list(PRECISIONS)
  parser.add_argument('--precisions', nargs='+', default=['float32'], choices=precisions)
  parser.add_argument('--batch', type=int, default=64)
  args = parser.parse_args(arguments)
  (save if args.save else compare)(args)


if __name__ == '__main__':
  main()
