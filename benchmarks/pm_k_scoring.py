"""Scoring saved predictions on neighbor sets ÷ a loop over frames, for 45 models on 22,180 frames.

The loop does what the scorer released with ImageNet-Vid-Robust does: set by set and frame by frame,
one model at a time, scores as lists in a dictionary. This project scores all models at once, from
scores and from recorded predictions, and gives pm-k for every k to 10 where the loop gives one.
Reading files is in neither time. The counts of all three must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks import timing
from robustness.video.metadata import NeighborSets, from_mappings
from robustness.video.neighbor_estimates import SetOutcomes, outcomes, right_within

CLASSES, K, SIDE = 30, 10, 19
Counts = list[tuple[int, int]]


def made_sets(anchors: int) -> NeighborSets:
  """Returns sets of 19 neighbors, some with two labels."""
  generator = np.random.default_rng(0)
  sets, labels = {}, {}
  for video in range(anchors):
    offsets = [o for o in range(-10, 11) if o][:SIDE]
    names = [f'video{video:05d}/{100 + offset:06d}.jpg' for offset in (0, *offsets)]
    sets[names[0]] = names[1:]
    own = generator.choice(CLASSES, 1 + int(generator.random() < 0.07), False).tolist()
    labels.update(dict.fromkeys(names, own))
  return from_mappings(sets, labels)


def made_scores(sets: NeighborSets, models: int) -> np.ndarray:
  """Returns scores float32 [models, frames, classes], right for most frames."""
  scores = np.random.default_rng(1).normal(size=(models, len(sets.frames), CLASSES))
  scores[:, np.arange(len(sets.frames)), sets.labels[:, 0]] += 4
  return scores.astype(np.float32)


def loop(
  sets: Mapping[str, Sequence[str]],
  labels: Mapping[str, Sequence[int]],
  models: Sequence[Mapping[str, Sequence[float]]],
) -> Counts:
  """Returns how many anchors, and how many whole sets, each model gets right."""
  counts = []
  for scores in models:
    right_anchors = right_sets = 0
    for anchor, neighbors in sets.items():
      wrong = [frame for frame in neighbors if np.argmax(scores[frame]) not in labels[frame]]
      if np.argmax(scores[anchor]) in labels[anchor]:
        right_anchors += 1
        right_sets += not wrong
    counts.append((right_anchors, right_sets))
  return counts


def counts_of(outcomes: SetOutcomes) -> Counts:
  """Returns the same counts, and computes those of every smaller k."""
  sets = right_within(outcomes, K)[..., K].sum(-1)
  return list(zip(outcomes.anchor.sum(-1).tolist(), sets.tolist(), strict=True))


def measure(anchors: int, models: int, rounds: int, clock: str = 'wall') -> list[list[object]]:
  """Returns a row for scoring from scores and one from recorded predictions."""
  sets = made_sets(anchors)
  scores = made_scores(sets, models)
  recorded = scores.argmax(-1).astype(np.int32)
  members = {
    sets.frames[a]: [sets.frames[i] for i in neighbors]
    for a, neighbors in zip(sets.anchors, sets.neighbors, strict=True)
  }
  labels = {
    frame: [int(v) for v in row if v >= 0]
    for frame, row in zip(sets.frames, sets.labels, strict=True)
  }
  lists = [dict(zip(sets.frames, model.tolist(), strict=True)) for model in scores]
  calls = {
    'loop': lambda: loop(members, labels, lists),
    'scores': lambda: counts_of(outcomes(sets, scores.argmax(-1))),
    'recorded predictions': lambda: counts_of(outcomes(sets, recorded)),
  }
  if not calls['loop']() == calls['scores']() == calls['recorded predictions']():
    raise AssertionError('the counts differ')
  timings = timing.alternate(
    {name: (call, models) for name, call in calls.items()}, rounds, timing.CLOCKS[clock]
  )
  return [
    [
      name,
      len(sets.frames),
      models,
      *(f'{models / timings.rate(n):.3f}' for n in ('loop', name)),
      timing.describe_ratio(timings.ratio(name, 'loop')),
    ]
    for name in ('scores', 'recorded predictions')
  ]


def main(arguments: Sequence[str] | None = None) -> None:
  parser = timing.options(__doc__, rounds=3, clock=True)
  parser.add_argument('--anchors', type=int, default=1109)
  parser.add_argument('--models', type=int, default=45)
  given = parser.parse_args(arguments)
  timing.print_table(
    ('from', 'frames', 'models', 'loop, s', 'own, s', 'ratio'),
    measure(given.anchors, given.models, given.rounds, given.clock),
  )


if __name__ == '__main__':
  main()
