"""What initial weights may have seen of held-out environments, and whether ρ compensates for it.

Weights that were trained elsewhere, for example with rotations among their augmentations, bring
robustness to all classes that the training here did not give. A baseline that is fine-tuned from
the same weights on clean images alone has it too, and ρ subtracts the baseline's accuracy b.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = 'not known'
COLUMNS = ('classifier', 'initial weights', 'trained with', 'may have seen', 'compensated by')
Facts = Mapping[str, Any]


def may_have_seen(classifier: Facts, names: Sequence[str], stored: bool) -> tuple[str, ...]:
  """Returns the environments that a classifier's initial weights may have seen.

  Args:
    classifier: its facts, with `initial_weights` if it has any, see
      `robustness.training.initial_weights`.
    names: of the environments E_1, ..., E_M.
    stored: whether they are stored images, such as renditions, of which nobody knows whether the
      weights' training images had some; else names of `robustness.environments.transforms`.

  Returns:
    Those of `names` that the weights' augmentations resemble; all if these are not known.
  """
  if 'initial_weights' not in classifier:
    return ()
  resembles = classifier.get('initial_weights_resemble')
  if stored or resembles is None:
    return tuple(names)
  return tuple(name for name in names if name in resembles)


def note(classifier: Facts, baseline: Facts | None, baseline_label: str = '') -> str:
  """Returns what a reader of ρ must know of a classifier's initial weights.

  Args:
    classifier: facts of one whose weights may have seen the environment.
    baseline: of the classifier that ρ compensates for; None for b = 0.
    baseline_label: its label.
  """
  weights = classifier['initial_weights']
  if baseline is None:
    return (
      f'the initial weights {weights} may have seen it, which nothing compensates for: set '
      'config.study.baseline'
    )
  if weights not in (baseline.get('initial_weights'), baseline.get('weights')):
    return (
      f'the initial weights {weights} may have seen it, and the baseline {baseline_label} began '
      'with others'
    )
  return f'the initial weights {weights} may have seen it; {baseline_label} compensates'


def row(label: str, classifier: Facts, seen: Sequence[str], baseline_label: str) -> list[str]:
  """Returns the entry of a classifier with initial weights in the table of `COLUMNS`."""
  trained_with = classifier.get('initial_weights_trained_with')
  listed = UNKNOWN if trained_with is None else ', '.join(trained_with) or 'flips and crops'
  return [
    *(label, classifier['initial_weights'], listed),
    *(', '.join(seen) or 'none', baseline_label or 'nothing'),
  ]
