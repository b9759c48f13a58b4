"""What an evaluation will take: how long, how much memory, and how large its records are."""

from __future__ import annotations

import dataclasses

import numpy as np

from robustness.core.forecast import Forecast, memory_of, timed
from robustness.core.rows import Rows
from robustness.evaluation.measurements import TOTAL
from robustness.evaluation.records import PREDICTIONS, Layout, Shard
from robustness.evaluation.runner import Evaluator

PROBED_VIEWS = 4
_MEMBER_BYTES = 128 + 76 + 20 + 2 * 4  # of an array in an .npz file, beside its values and name


def forecast(evaluator: Evaluator, rows: Rows, layout: Layout) -> Forecast:
  """Measures one step on the first rows in a few views, spread evenly over all; writes nothing.

  Args:
    evaluator: as it would run.
    rows: all that would be shown.
    layout: of the records.
  """
  views = evaluator.views
  count = min(PROBED_VIEWS, layout.chunk_views)
  spread = np.linspace(0, len(views) - 1, count).round().astype(int)
  few = dataclasses.replace(
    views,
    ids=views.ids[spread],
    parameters={name: values[spread] for name, values in views.parameters.items()},
  )
  probe = dataclasses.replace(evaluator, views=few)
  size = min(evaluator.step_rows(layout), layout.num_rows)
  part = Layout(layout.num_rows, count, size, count)
  blocks = list(probe.placed(rows, part, [0]))
  replicate = probe.parallel.replicate
  variables = replicate(probe.classifier.variables) if probe.classifier else None
  memory = None
  if not (probe.classifier and probe.classifier.host_function):
    chunk = replicate((few.ids, dict(few.parameters)))
    memory = memory_of(probe.compiled, variables, blocks[0].parts[0], chunk)
  shards: list[Shard] = []
  compiling, seconds = timed(
    lambda: shards.extend(s for *_, s in probe.shards_of(blocks, part, {0: [0]}))
  )
  steps = sum(
    -(-(layout.rows(block).stop - layout.rows(block).start) // size)
    for block in range(layout.num_blocks)
  )
  images = layout.num_rows * layout.num_views
  return Forecast(
    f'{evaluator.name}: {evaluator.phase}',
    f'{layout.num_rows:,} rows × {layout.num_views:,} views',
    images,
    images / (steps * layout.num_views * seconds / count),
    compiling,
    record_bytes(shards[0], layout),
    memory,
  )


def record_bytes(shard: Shard, layout: Layout) -> int:
  """Returns the bytes of all shards of a table, from one shard with fewer rows and views.

  Predictions and measurements have a value for each row and view, totals for each view of a block,
  columns of the rows for each row of a chunk of views.
  """
  rows, views = (part.stop - part.start for part in (shard.rows, shard.views))
  shards = layout.num_blocks * layout.num_chunks
  total = 0.0
  for name, values in shard.arrays.items():
    if name.startswith(TOTAL):
      total += values.nbytes / views * layout.num_views * layout.num_blocks
    elif name in PREDICTIONS or '/' in name:
      total += values.nbytes / (rows * views) * layout.num_rows * layout.num_views
    else:
      total += values.nbytes / rows * layout.num_rows * layout.num_chunks
    total += shards * (_MEMBER_BYTES + 2 * len(name))
  return round(total)
