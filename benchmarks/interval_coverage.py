"""How often intervals cover the true value, for few and many images, in simulations.

The population follows a latent normal model of 15 corruptions at 5 severities: an image is easy or
hard for all views, and two classifiers err on similar images. Samples of n images are drawn from
it, and the functions of the studies compute every interval that a study reports. Coverage is the
fraction of samples with an interval that contains the population's value. Samples in which the
value is undefined are left out; brackets contain their fraction. Further tables have the mean
fraction of false discoveries of Benjamini and Hochberg's procedure over 75 tests of the same
images, how often calibration errors are called different, and the coverage of lines through few
classifiers, of means over few seeds, and of ratios and κ of images that come in sites.
docs/intervals.md holds the output.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.special import betaincinv

from benchmarks import timing
from robustness.combined import mean_over_seeds
from robustness.estimates import calibration, consistency
from robustness.estimates.calibration import Draws, Predictions, Scores
from robustness.estimates.comparison import benjamini_hochberg, mcnemar
from robustness.estimates.consistency import error_consistency
from robustness.estimates.corruption_error import MCE, RELATIVE_MCE
from robustness.estimates.means import arrays, means
from robustness.estimates.of_means import Units, function_of_means
from robustness.estimates.outcomes import Outcomes as Answers
from robustness.estimates.published import BASELINES
from robustness.estimates.quantity import ACCURACY, ERROR, Quantity
from robustness.estimates.relative_error import relative_errors
from robustness.estimates.simultaneous import RATE
from robustness.estimates.tradeoff import linear_fit
from robustness.results import Results
from robustness.video.neighbor_estimates import SetOutcomes, right_within

CORRUPTIONS, SEVERITIES = 15, 5
CHANGE, ONE_VIEW = Quantity('change', 'change', 'amount'), pd.DataFrame(index=range(1))
POPULATION, SAMPLES, SIZES = 20_000, 1000, (5, 7, 20, 100, 1000)
LEVELS = {'.6': 0.0, '.2': -1.6, '.06': -2.7}
"""Mean error of the second classifier, about, by the level of the latent variable."""
SITES, SITE_SAMPLES = (7, 15, 30, 60), 2000
GROUPS, CORRELATIONS = (0.25, 0.5, 0.75, 0.9, 0.97), (0.05, 0.3)
MEANS = (0.28, 0.5, 0.9)
"""Means of the values that seeds have."""

RHO = Quantity('rho', 'ρ')
ALEXNET = BASELINES['alexnet']
VIEWS = pd.DataFrame(
  [(None, None), *((name, s) for name in ALEXNET.corrupted for s in range(1, SEVERITIES + 1))],
  columns=['corruption', 'severity'],
)
CORRUPTED = np.arange(len(VIEWS)) > 0


class Coverage(NamedTuple):
  """How often intervals hold the true value.

  Attributes:
    held: share of the intervals that contain the true value.
    one_side: share that are above it, or share that are below it, whichever is larger.
    width: median width of the intervals.
    undefined: share of the simulated data sets that have no interval.
  """

  held: float
  one_side: float
  width: float
  undefined: float


class Sample(NamedTuple):
  """The simulated answers of two classifiers to N images and their 15 · 5 corrupted views.

  Attributes:
    first, second: whether each classifier is wrong, bool [N, 1 + 75], with the clean view first.
    change: a positive number without an upper bound for each image, [N].
    scenes: bool [N, 75], the views that count where an image stands for an object and each view for
      a scene with it.
  """

  first: np.ndarray
  second: np.ndarray
  change: np.ndarray
  scenes: np.ndarray

  def subset(self, indices: np.ndarray) -> Self:
    """Returns the images at these indices."""
    return type(self)(*(array[indices] for array in self))

  @property
  def wrong(self) -> Answers:
    """The errors of both classifiers as studies store them."""
    return Answers({'first': self.first, 'second': self.second}, VIEWS)


def population(level: float, seed: int = 0, size: int = POPULATION, shift: float = 0.3) -> Sample:
  """Returns simulated answers of two classifiers: wrong where a normal variable is above 0.

  The variable is a sum of the difficulties of the image (mostly shared by the classifiers), of the
  corruption, of the severity, and of the view.

  Args:
    level: mean of the variable; at −1.6 the error is about .2.
    seed: seed of all random numbers.
    size: number of images.
    shift: how much worse the second classifier is under the last five corruptions, and half of it
      when clean.
  """
  generator = np.random.default_rng(seed)
  shared = generator.normal(size=(size, 1, 1))
  # from −.6 for the easiest to .6 for the hardest, of corruptions [15, 1] and severities [5]
  harder = np.linspace(-0.6, 0.6, CORRUPTIONS)[:, None] + np.linspace(-0.6, 0.6, SEVERITIES)
  worse = shift * (np.arange(CORRUPTIONS) >= 10)[:, None]
  errors = []
  for is_second in (0.0, 1.0):
    image = 0.85 * shared + 0.53 * generator.normal(size=(size, 1, 1))
    view = 0.5 * generator.normal(size=(size, CORRUPTIONS, 1))
    view = view + 0.6 * generator.normal(size=(size, CORRUPTIONS, SEVERITIES))
    clean = image[:, 0, 0] + 0.6 * generator.normal(size=size) + is_second * shift / 2
    corrupted = level + harder + is_second * worse + image + view > 0  # [size, 15, 5]
    # clean images are easier by 1
    errors.append(np.column_stack([level - 1 + clean > 0, corrupted.reshape(size, -1)]))
  change = np.exp(0.5 * shared[:, 0, 0] + 0.3 * generator.normal(size=size))
  # each image has a share of the views between .1 and 1 as its scenes
  scenes = generator.random((size, CORRUPTIONS * SEVERITIES)) < generator.uniform(
    0.1, 1, size=(size, 1)
  )
  return Sample(*errors, change, scenes)


def pm_k_drop(sample: Sample) -> Any:
  """Returns pm-k's drop of the second classifier, with views in place of the frames of videos.

  The clean image is the anchor and its views under the first corruption, at severities 1 to 5, are
  its neighbors. The drop is the share of images that are right when clean and wrong in a neighbor.
  """
  right = ~sample.second[:, 1 : 1 + SEVERITIES]  # under the first corruption
  group = np.repeat(np.arange(len(right)), SEVERITIES)
  offset = np.tile(np.arange(1, SEVERITIES + 1), len(right))
  outcomes = SetOutcomes(~sample.second[:, 0], right.ravel(), group, offset)
  fallen = outcomes.is_anchor_right & ~right_within(outcomes, SEVERITIES)[:, SEVERITIES]
  return mean(ACCURACY, fallen)


def over_objects(sample: Sample) -> Any:
  """Returns the second classifier's accuracy where an image is an object with 7 to 75 scenes.

  Its views are the scenes; `sample.scenes` [N, 75] is True for those that the object has.
  """
  right = ~sample.second[:, CORRUPTED]
  views, objects = pd.DataFrame(index=range(right.shape[1])), np.arange(len(right))
  scenes = Answers({'second': right}, views, {'second': sample.scenes}, objects)
  return second(means(ACCURACY, scenes))


def mean(quantity: Quantity, values: np.ndarray) -> Any:
  """Returns the estimate of a quantity of the second classifier from one value for each image."""
  return second(means(quantity, Answers({'second': values[:, None]}, ONE_VIEW)))


def second(table: pd.DataFrame, versus: str = '') -> Any:
  """Returns the estimate of the second classifier, or its difference from the first."""
  return table[(table.classifier == 'second') & (table.versus == versus)].iloc[0]


QUANTITIES: Mapping[str, Callable[[Sample], Any]] = {
  'accuracy': lambda s: mean(ACCURACY, ~s.second[:, 0]),
  'mean error': lambda s: second(means(ERROR, s.wrong, where=CORRUPTED, paired=False)),
  'mean error, second - first': lambda s: second(means(ERROR, s.wrong, where=CORRUPTED), 'first'),
  'mCE against AlexNet': lambda s: second(function_of_means(MCE, s.wrong, baseline=ALEXNET.means)),
  'the same, second - first': lambda s: second(
    function_of_means(MCE, s.wrong, baseline=ALEXNET.means), 'first'
  ),
  'mCE against the first': lambda s: second(function_of_means(MCE, s.wrong)),
  'relative mCE against AlexNet': lambda s: second(
    function_of_means(RELATIVE_MCE, s.wrong, baseline=ALEXNET.means)
  ),
  'relative mCE against the first': lambda s: second(function_of_means(RELATIVE_MCE, s.wrong)),
  'drop to pm-k': pm_k_drop,
  'accuracy over objects': over_objects,
  'mean of a skewed quantity': lambda s: mean(CHANGE, s.change),
}
SLOW, WITHOUT_LEVEL = 'relative mCE against the first', 'mean of a skewed quantity'


def coverage(
  quantity: Callable[[Sample], Any], images: Sample, n: int, samples: int, seed: int = 1
) -> Coverage:
  """Returns how often the interval of a quantity holds the true value.

  Args:
    quantity: function from a sample of images to an estimate with its interval.
    images: the population of images; its value is the true one.
    n: number of images in a sample.
    samples: number of samples that are drawn.
    seed: seed of the draws.
  """
  truth = quantity(images).value
  generator = np.random.default_rng(seed)
  drawn = [
    quantity(images.subset(generator.integers(0, len(images.change), n))) for _ in range(samples)
  ]
  return _held(drawn, truth)


def false_discoveries(images: Sample, n: int, samples: int) -> tuple[float, float]:
  """Returns the mean fraction of false discoveries, and the mean number of discoveries.

  McNemar's test compares two classifiers in each of 15 · 5 views. The first ten corruptions are
  equally hard for both, so that each discovery among their 50 tests is false. The procedure
  controls the rate of studies without another one, `RATE`.

  Args:
    images: the population of images.
    n: number of images in a sample.
    samples: number of samples.
  """
  generator = np.random.default_rng(2)
  false, count = [], []
  for _ in range(samples):
    sample = images.subset(generator.integers(0, len(images.change), n))
    first, second = sample.first[:, CORRUPTED], sample.second[:, CORRUPTED]
    p_value = mcnemar((~first & second).sum(0), (first & ~second).sum(0))  # [75]
    significant = benjamini_hochberg(p_value, RATE)
    false.append(significant[: 10 * SEVERITIES].sum() / max(significant.sum(), 1))
    count.append(significant.sum())
  return float(np.mean(false)), float(np.mean(count))


def called_different(
  n: int, views: int, exponent: float, samples: int, seed: int = 3
) -> dict[str, float]:
  """Returns how often calibration errors of two classifiers are called different, by quantity.

  The first is calibrated, with a mean confidence of .95. The second has a mean confidence of .57
  and is right with the probability p^exponent where its confidence is p. Views are independent.

  Args:
    n: number of images.
    views: number of views over which the errors are averaged.
    exponent: 1 for two calibrated classifiers; their errors should not be called different.
    samples: number of simulated data sets.
    seed: seed of the draws.
  """
  generator = np.random.default_rng(seed)
  draws = Draws.generate(n, 200, 0)  # 200 bootstrap samples, with seed 0
  different = dict.fromkeys(calibration.BIASED, 0)
  for _ in range(samples):
    first, second = (  # confidences p of the predictions have beta distributions
      [
        calibration.scores(Predictions.sort(p, generator.random(n) < p**power), draws)
        for p in generator.beta(a, b, (views, n))
      ]
      for a, b, power in ((19, 1, 1.0), (5.7, 4.3, exponent))
    )
    means = Scores.mean(first), Scores.mean(second)
    for name in different:
      difference = means[1].minus(means[0], name)
      different[name] += not difference.low <= 0 <= difference.high
  return {name: count / samples for name, count in different.items()}


def line_coverage(models: int, samples: int, seed: int = 4) -> tuple[float, float]:
  """Returns the coverage of the intervals of a line's slope and intercept, for a number of models.

  The line is fitted to simulated accuracies of the models. Accuracies on anchors are normal with
  mean .7 and deviation .09. Accuracies on the worst frames are 1.1 times as large minus .2, with a
  normal deviation of .02. The published models are similar.
  """
  generator, inside = np.random.default_rng(seed), np.zeros(2)
  for _ in range(samples):
    x = generator.normal(0.7, 0.09, models)
    # the last argument is where the line's band is computed, which is not used here
    fit = linear_fit(x, 1.1 * x - 0.2 + generator.normal(0, 0.02, models), [0.0])
    estimates = ((fit.slope, 1.1), (fit.intercept, -0.2))
    inside += [estimate.low <= truth <= estimate.high for estimate, truth in estimates]
  return float(inside[0] / samples), float(inside[1] / samples)


def seed_coverage(seeds: int, mean: float, samples: int, seed: int = 5) -> tuple[float, float]:
  """Returns how often the interval of a mean over seeds holds the true mean, and its median width.

  The value of a seed is a share drawn from a beta distribution with this mean and 10 for the sum of
  its parameters (a deviation of .14 at .28).
  """
  values = np.random.default_rng(seed).beta(10 * mean, 10 * (1 - mean), (samples, seeds))
  facets = pd.DataFrame({'sample': range(samples)})
  # results of each seed with a table of `samples` values, for a classifier without a label
  by_seed = {
    k: Results(
      study='',
      classifiers=[{'label': ''}],
      data={},
      settings={},
      table=arrays(RHO, '', facets, column, n=9, confidence=0.95),
      quantities=(RHO,),
    )
    for k, column in enumerate(values.T)
  }
  means = mean_over_seeds(by_seed).over_seeds.table
  held = (means.low <= mean) & (mean <= means.high)
  return float(held.mean()), float((means.high - means.low).median())


def _sites(clusters: int, rows: np.ndarray) -> Units:
  """Returns the sums over the images of each site.

  `rows` are [N, 1 + 2 G]: a number in [0, clusters) for the site of each of N images, then G
  columns of values, then their G weights.
  """
  site = rows[:, 0].astype(int)
  sums = np.stack([np.bincount(site, column, clusters) for column in rows.T[1:]], 1)
  # [sites, G] each
  total, weight = np.split(sums, 2, 1)
  return Units(total, weight, len(rows), images=len(rows) / clusters)


def site_coverage(
  clusters: int, correlation: float, share: float | None, samples: int, seed: int = 6
) -> Coverage:
  """Returns how often intervals hold the true value where images come from sites.

  The value is the error ratio of a group of images (their error ÷ the error of all images) or, if
  `share` is None, κ of two classifiers. A site has about 20 images, log-normal with deviation 1.
  Its error rates are drawn from beta distributions.

  Args:
    clusters: number of sites.
    correlation: correlation of errors within a site.
    share: fraction of images in the group; membership has a correlation of .3 within a site. Images
      of the group are wrong twice as often as other images; .3 of all images are wrong. None is for
      κ of two classifiers with accuracies .8 and .7: their error rates at a site have the same
      quantile, and they use the same random number for a fifth of the images.
    samples: number of simulated data sets.
    seed: seed of all random numbers.
  """
  # a beta distribution with parameters p · scale and (1 − p) · scale has this correlation
  generator, scale = np.random.default_rng(seed), 1 / correlation - 1
  quantiles = np.linspace(0, 1, 1001)[1:-1]
  # mean error rates of two classifiers, or of images outside and in the group
  chances = (0.2, 0.3) if share is None else 0.3 * np.array([1, 2]) / (1 + share)
  levels = np.stack([betaincinv(p * scale, (1 - p) * scale, quantiles) for p in chances], 1)
  # levels [999, 2] are the two error rates at each quantile
  if share is None:
    both_wrong = 0.2 * levels.min(1) + 0.8 * levels.prod(1)
    p, q = 1 - levels.mean(0)
    truth = float(error_consistency(p, q, 1 - levels.sum(1).mean() + 2 * both_wrong.mean()))
  else:
    truth = 2 / (1 + share)
  drawn = []
  for _ in range(samples):
    sizes = np.maximum(np.round(20 * generator.lognormal(-0.5, 1, clusters)), 1).astype(int)
    site = np.repeat(np.arange(clusters), sizes)
    # the two error rates at the site of every image, [N, 2]
    level = levels[generator.integers(0, len(levels), clusters)][site]
    ones = np.ones(len(site))
    if share is None:
      first, second = generator.random((2, len(site)))
      second = np.where(generator.random(len(site)) < 0.2, first, second)
      a, b = first >= level[:, 0], second >= level[:, 1]  # whether each classifier is right
      cells = [a & b, a & ~b, ~a & b, ~a & ~b]
      counts = np.stack([np.bincount(site, cell, clusters) for cell in cells])[..., None]
      drawn += consistency.estimates(counts, np.eye(1), [len(site)])
    else:
      # each site's fraction of images in the group, with correlation 1 / (1 + 7 / 3) = .3
      shares = generator.beta(share * 7 / 3, (1 - share) * 7 / 3, clusters)
      group = generator.random(len(site)) < shares[site]
      wrong = generator.random(len(site)) < np.where(group, level[:, 1], level[:, 0])
      columns = [wrong & group, wrong, group, ones]
      drawn += relative_errors([_sites(clusters, np.column_stack([site, *columns]))])
  return _held(drawn, truth)


def _held(estimates: Sequence[Any], truth: float) -> Coverage:
  """Returns how often the intervals of estimates hold the true value.

  Estimates have bounds `low` and `high`, which are NaN where an interval is undefined.
  """
  intervals = np.array([(e.low, e.high) for e in estimates if np.isfinite(e.low)])
  if not len(intervals):
    return Coverage(held=np.nan, one_side=np.nan, width=np.nan, undefined=1.0)
  low, high = intervals.T
  above, below = (truth < low).mean(), (high < truth).mean()  # shares of the intervals that miss it
  undefined, width = 1 - len(intervals) / len(estimates), float(np.median(high - low))
  return Coverage(1 - above - below, max(above, below), width, undefined)


def describe(result: Coverage, sides: bool = False) -> str:
  """Writes coverage and width as `.953 (.21)`, and what is undefined as `[.05]`.

  With `sides`, the share that is missed on one side follows the coverage: `.953, .031 (.21)`; where
  fewer than 5 % of the samples have an interval, it is `none`.
  """
  if sides and result.undefined > 0.95:
    return 'none'
  if not np.isfinite(result.held):
    return 'undefined'
  undefined = f' [{result.undefined:.2f}]' if result.undefined >= 0.005 else ''
  one_side = f', {result.one_side:.3f}' if sides else ''
  return f'{result.held:.3f}{one_side} ({result.width:.2g}){undefined}'


def print_next_table(rows: Iterable[Mapping[str, object]]) -> None:
  """Prints a table after an empty line; see `timing.print_table`."""
  print()
  timing.print_table(rows)


def main(arguments: Sequence[str] | None = None) -> None:
  """Prints the coverage of each kind of interval on simulated images with known true values."""
  timing.options(__doc__).parse_args(arguments)
  rows = []  # 1. the quantities of a study, for each mean error of the classifier
  for name, level in LEVELS.items():
    images = population(level)
    for quantity, function in QUANTITIES.items():
      # a quantity that does not depend on the level is measured once
      if quantity == WITHOUT_LEVEL and name != next(iter(LEVELS)):
        continue
      count = max(2, SAMPLES // 4) if quantity == SLOW else SAMPLES
      cells = {f'n = {n}': describe(coverage(function, images, n, count)) for n in SIZES}
      rows.append({'quantity': quantity, 'mean error': name, **cells})
  timing.print_table(rows)
  images = population(LEVELS['.2'])  # 2. tests of many views at once
  tests = [(n, *false_discoveries(images, n, SAMPLES)) for n in SIZES]
  print_next_table(
    {'images': n, 'false-discovery rate': f'{false:.3f}', 'discoveries': f'{count:.1f}'}
    for n, false, count in tests
  )
  # 3. how often two equally accurate classifiers are called different: (images, views, power p)
  cases = [(n, 1, power) for power in (1.0, 1.3) for n in (200, 1000, 5000)] + [(200, 15, 1.0)]
  rates = [called_different(*case, max(2, SAMPLES // 5)) for case in cases]
  print_next_table(
    {
      'images': n,
      'views': views,
      'second right with': f'p^{power:g}',
      **{name: f'{rate:.3f}' for name, rate in case_rates.items()},
    }
    for (n, views, power), case_rates in zip(cases, rates, strict=True)
  )
  # 4. slope and intercept of a line through classifiers
  lines = [(models, *line_coverage(models, SAMPLES)) for models in (3, 4, 5, 10, 45)]
  print_next_table(
    {'classifiers': models, 'slope': f'{slope:.3f}', 'intercept': f'{intercept:.3f}'}
    for models, slope, intercept in lines
  )
  # 5. means over k training seeds
  rows = []
  for k in (2, 3, 5):
    coverages = {mean: seed_coverage(k, mean, SAMPLES) for mean in MEANS}
    cells = {f'mean {mean:g}': f'{held:.3f} ({w:.2g})' for mean, (held, w) in coverages.items()}
    rows.append({'seeds': k, **cells})
  print_next_table(rows)
  # 6. images that come from sites: the error ratio of a group with this share, or κ (None)
  rows = []
  for share, sites in itertools.product((*GROUPS, None), SITES):
    row = {'': f'ratio, {share:.0%}' if share else 'κ', 'sites': sites}
    for correlation in CORRELATIONS:
      held = site_coverage(sites, correlation, share, SITE_SAMPLES)
      row[f'ICC {correlation:g}'] = describe(held, sides=True)
    rows.append(row)
  print_next_table(rows)


if __name__ == '__main__':
  main()
