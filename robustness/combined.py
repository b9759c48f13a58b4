"""Results of several tasks, or of trainings with several seeds, as one."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from robustness.core.errors import InputError
from robustness.core.settings import Section
from robustness.estimates import table as estimates
from robustness.estimates.intervals import student_interval
from robustness.estimates.jackknife import FEWEST_SEEDS, TOO_FEW_SEEDS
from robustness.estimates.means import join_notes
from robustness.estimates.quantity import AMOUNT, Quantity
from robustness.results import NO_SPREAD, SEED, TASK, Findings, Results, Table


def join_tasks(
  tasks: Mapping[str, Results],
  settings: Section,
  study: str = 'battery',
  findings: Findings | None = None,
) -> Results:
  """Joins the results of all studies of a battery into one object.

  The table of estimates gets a column `task`, the name of the study in the battery. Other tables
  are renamed to `<task>: <name>`. Arrays are left out.

  Args:
    tasks: {name of the study in the battery: results}, at least one, of the same classifiers.
    settings: settings of the run as a whole.
    study: name of the joined results.
    findings: tables and estimates of all studies together, which come first.
  """
  findings = findings or Findings()
  listed = [[name, results.study, results.data['num_examples']] for name, results in tasks.items()]
  # A task leaves out the classifiers that it cannot measure.
  most_complete = max(tasks.values(), key=lambda results: len(results.classifiers))
  tables_with_task = (estimates.with_facet(r.table, TASK, task) for task, r in tasks.items())
  tables = {**findings.tables, 'tasks': Table(('task', 'study', 'images'), listed)}
  for task, results in tasks.items():
    tables |= {f'{task}: {name}': table for name, table in results.tables.items()}
  return Results(
    study,
    classifiers=most_complete.classifiers,
    data={name: results.data for name, results in tasks.items()},
    settings={**settings, **{name: results.settings for name, results in tasks.items()}},
    tables=tables,
    arrays=findings.arrays,
    table=estimates.assemble([*findings.estimates, *tables_with_task]),
    quantities=tuple(dict.fromkeys(q for results in tasks.values() for q in results.quantities)),
    tasks={name: results.quantities for name, results in tasks.items()},
  )


def mean_over_seeds(by_seed: Mapping[int, Results]) -> Results:
  """Returns the estimates of all seeds, together with their means over the seeds.

  The column `seed` of the table of estimates is empty for a mean. A mean has Student's interval.
  Other tables are included if they are equal in all seeds, and arrays are left out.

  Args:
    by_seed: {seed: results of the run with this seed}.

  Raises:
    InputError: there are fewer than two seeds.
  """
  if len(by_seed) < 2:
    raise InputError(f'{len(by_seed)} value has no spread: give at least two seeds.')
  first = next(iter(by_seed.values()))
  quantities = {q.name: q for results in by_seed.values() for q in results.quantities}
  tables = [estimates.with_facet(results.table, SEED, seed) for seed, results in by_seed.items()]
  table_by_seed = estimates.assemble(tables)
  means = _means_over(table_by_seed, list(by_seed), quantities)
  classifiers = []
  for index, classifier in enumerate(first.classifiers):
    facts = {str(seed): results.classifiers[index] for seed, results in by_seed.items()}
    classifiers.append({'label': classifier['label'], 'seeds': facts})
  return Results(
    first.study,
    classifiers=classifiers,
    data=first.data,
    settings={**first.settings, 'seeds': list(by_seed)},
    tables={
      name: table
      for name, table in first.tables.items()
      if all(results.tables.get(name) == table for results in by_seed.values())
    },
    table=estimates.assemble([table_by_seed, means]),
    quantities=first.quantities,
    tasks=first.tasks,
  )


def _means_over(
  table: pd.DataFrame, seeds: Sequence[int], quantities: Mapping[str, Quantity]
) -> pd.DataFrame:
  """Returns the mean over seeds of each estimate that at least two seeds have.

  The interval is Student's: mean ± t·s/√n, with the standard deviation s over n seeds and Student's
  quantile t, clipped to the range of the quantity. It covers the variation between trainings, on
  the same test images. There is no interval for fewer than `FEWEST_SEEDS` seeds or for equal
  values.

  A mean is NaN if the estimate of one seed is NaN. A number without interval that all seeds share
  is unchanged, such as a published one. Estimates with an interval for several estimates together
  (a `family` above 1) are left out.

  Args:
    table: the estimates of all seeds, with the column `seed`.
    seeds: all seeds.
    quantities: {name: quantity} for the estimates.
  """
  facets = [name for name in estimates.facets_of(table) if name != SEED]
  keys = [*estimates.SUBJECT, *facets]  # equal in the estimates that have one mean
  by_seed = table[table.family == 1].reset_index(drop=True)  # N estimates, each of one seed
  # For each estimate, the index of the one of M means that averages it, [N].
  mean_index = by_seed.groupby(keys, dropna=False, sort=False).ngroup().to_numpy()
  # All arrays from here on have a value for each mean, [M], except `values`, [N]. `bincount` counts
  # the values of each mean, or adds them up.
  values, count = by_seed['value'].to_numpy(), np.bincount(mean_index)
  mean = np.bincount(mean_index, values) / count
  sum_of_squares = np.bincount(mean_index, (values - mean[mean_index]) ** 2)
  std = np.sqrt(sum_of_squares / np.maximum(count - 1, 1))
  # M rows: the estimate of the first seed that has it; the column `seed` is empty for a mean
  first = by_seed.drop_duplicates(keys).assign(**{SEED: None})
  value_of_first_seed = first.value.to_numpy()
  is_constant = np.bincount(mean_index, values == value_of_first_seed[mean_index]) == count
  confidence = first.confidence.fillna(0.95).to_numpy()  # 0.95 for estimates without interval
  intervals = _intervals(first, quantities, mean, std, count, confidence)
  has_interval = ~is_constant & (count >= FEWEST_SEEDS)
  low, high = np.where(has_interval, intervals, np.nan)
  notes_of_means: list[dict[int, str]] = [{} for _ in count]  # {seed: note} for each mean
  for index, seed, note in zip(mean_index, by_seed[SEED], by_seed['note'], strict=True):
    notes_of_means[index][seed] = note
  pairs = zip(notes_of_means, is_constant, strict=True)
  joined_notes = [_note_of_mean(notes, seeds, is_equal) for notes, is_equal in pairs]
  numbers = {'value': mean, 'low': low, 'high': high, 'n': count, 'clusters': count}
  means = first.assign(
    **numbers, method=estimates.OVER_SEEDS, confidence=confidence, p=np.nan, note=joined_notes
  )
  # An equal number without interval and method, such as a published one, was not measured by seed:
  # its row stays as it is.
  has_no_method = first.confidence.isna().to_numpy() & (first.method == '').to_numpy()
  stays = is_constant & has_no_method
  means[stays] = first[stays]
  return means[count > 1]


def _intervals(
  first: pd.DataFrame,
  quantities: Mapping[str, Quantity],
  mean: np.ndarray,
  std: np.ndarray,
  count: np.ndarray,
  confidence: np.ndarray,
) -> np.ndarray:
  """Returns Student's intervals for M means, clipped to the ranges of their quantities, [2, M].

  Args:
    first: for each mean, the row of one seed in the table of results, M rows. `versus` is the
      baseline of a difference, '' for none.
    quantities: {name: quantity}; other quantities have no range.
    mean: the means, [M].
    std: standard deviations of the averaged values, [M].
    count: numbers of the averaged values, [M].
    confidence: confidence of each interval, [M].
  """
  intervals = np.full((2, len(mean)), np.nan)
  for level in np.unique(confidence):
    at = confidence == level  # the means at which the interval has this confidence
    intervals[:, at] = student_interval(mean[at], std[at], count[at], level)
  ranges = []
  for row in first.itertuples():
    quantity = quantities.get(row.quantity, Quantity('other', '', AMOUNT))
    ranges.append(quantity.difference_range if row.versus else quantity.range)
  least, greatest = np.array(ranges).reshape(-1, 2).T
  return np.clip(intervals, least, greatest)


def _note_of_mean(notes: Mapping[int, str], seeds: Sequence[int], is_constant: bool) -> str:
  """Returns the note of a mean over seeds, from the notes of the seeds.

  The note also names the seeds without a value.

  Args:
    notes: {seed with a value: its note}. A note that all seeds share is stated once.
    seeds: all seeds.
    is_constant: whether all seeds have equal values.
  """
  remarks = [f'seed {seed}: {note}' for seed, note in notes.items() if note]
  if len(set(notes.values())) == 1:
    remarks = [next(iter(notes.values()))]
  lacking = [str(seed) for seed in seeds if seed not in notes]
  without = f'without seed {", ".join(lacking)}, which has no such number' if lacking else ''
  why_no_interval = f'{TOO_FEW_SEEDS}, {len(notes)}' if len(notes) < FEWEST_SEEDS else ''
  if is_constant:
    why_no_interval = NO_SPREAD
  return join_notes(*remarks, without, why_no_interval)
