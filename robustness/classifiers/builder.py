"""All classifiers of a config: weights loaded, networks trained in the workdir, probes fitted."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from absl import logging

from input_pipeline.settings import DataSettings
from robustness.attacks import balls
from robustness.augment.environment import selective
from robustness.classifiers.loading import (
  Loader,
  is_unrecorded,
  published,
  warn_assumed,
  warn_unfinished,
)
from robustness.config.experiment import Experiment
from robustness.config.recipe import CHOOSE_ROWS, ClassifierSettings
from robustness.core import random_keys
from robustness.core.errors import InputError, naming
from robustness.core.paths import expanded
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.rows import Rows, identity_of
from robustness.core.typing import Facts, Variables
from robustness.environments.balance import balanced
from robustness.environments.class_groups import from_settings
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator, check_fit
from robustness.evaluation.views import identity
from robustness.models import catalog, from_file, probes, weights
from robustness.models.classifier import Classifier
from robustness.models.inputs import Inputs
from robustness.models.position_embedding import BICUBIC, is_resampled
from robustness.models.projection import in_label_space, match_labels
from robustness.objectives.groups import GroupObjective
from robustness.parallel import Parallel, create
from robustness.parallel.processes import barrier
from robustness.training import initial_weights, schedule
from robustness.training.checkpoint import newest_step
from robustness.training.evaluation import AccuracyOnRows, columns_of, split_validation
from robustness.training.initial_weights import InitialWeights
from robustness.training.loop import train
from robustness.training.settings import BEST, TrainingSettings
from robustness.training.step import check
from robustness.training.training import Training
from robustness.training.writers import NO_WRITER, ScalarWriter


@dataclasses.dataclass(frozen=True)
class ClassifierBuilder:
  """Builds the classifiers of a run.

  Attributes:
    experiment: the checked config.
    rows: what will be evaluated; fixes the image shape.
    open_rows: returns the rows that a recipe trains on; their classes are those of its network.
    directory: trained weights go to `<directory>/<label>`.
    writer: returns the metric writer of a training, given its label.
    opened: the rows of the tasks of a battery by their settings; tasks that are not in it have the
      rows to be evaluated.
    features: the folder of what probes are fitted to, `features` beside the checkpoints by default.
  """

  experiment: Experiment
  rows: Rows
  open_rows: Callable[[ClassifierSettings], Rows]
  directory: pathlib.Path
  writer: Callable[[str], ScalarWriter]
  opened: Mapping[DataSettings, Rows] = dataclasses.field(default_factory=dict)
  features: pathlib.Path | None = None

  def build(self) -> list[Classifier]:
    """Loads or trains every classifier of the config, in its order.

    All that can be refused is refused before the first training begins: see `planned`.
    """
    built, trained = dict(self.planned), self.to_train()
    for label, recipe in trained.items():
      initial = self.initial(recipe)
      variables = self.train(label, recipe, initial)
      built[label] = self.trained_network(label, recipe, initial, variables)
    for label, recipe in self.experiment.classifiers.items():
      if recipe.probe:
        network = built[label] if label in trained else self._loader.load(label, recipe)
        built[label] = self._as_measured(self._fitted(label, recipe, network), recipe)
    return list(built.values())

  def to_train(self) -> dict[str, ClassifierSettings]:
    """Returns the recipes that are trained here, by label."""
    return {
      label: recipe
      for label, recipe in self.experiment.classifiers.items()
      if not (recipe.weights or from_file.is_classifier(recipe.name) or published(recipe))
    }

  def training_rows(self) -> dict[str, Rows]:
    """Returns the rows of the trainings here, by label."""
    return {label: self.open_rows(recipe) for label, recipe in self.to_train().items()}

  @property
  def begins(self) -> bool:
    """Whether a training will begin, of which there is no checkpoint yet."""
    return not all(map(self._is_begun, self.to_train()))

  @functools.cached_property
  def planned(self) -> dict[str, Classifier]:
    """Every classifier, checked: loaded, or, of one to be trained here, with shapes for weights.

    Raises:
      InputError: neither weights nor permission to train, weights that do not fit, classes of rows
        that a network does not have, a layer that the study asks for and a network does not have,
        or a training that would be refused when it begins.
    """
    planned, trained = {}, self.to_train()
    for label, recipe in self.experiment.classifiers.items():
      with self._section(label):
        planned[label] = self._planned(label, recipe, label in trained)
    for label, recipe in trained.items():
      with self._section(label):
        for task in self.experiment.measurements.values():
          chosen = {name: getattr(task.data, name) for name in CHOOSE_ROWS}
          if dataclasses.replace(recipe.data, **chosen) == task.data:
            logging.warning('%s is measured on the images that it is trained on', label)
        if not recipe.training.validation:
          match_labels(self.rows, planned[label])  # as the training measures it
        if not self._is_begun(label):  # one that has begun was not refused
          training = self.training(recipe, self.initial(recipe))
          training.check_layout(self.parallel(recipe.training))
          check(training, next(self.open_rows(recipe).batches(1, [0], stored=True)))
    return planned

  def _section(self, label: str) -> contextlib.AbstractContextManager[None]:
    """Names the section of a classifier in errors."""
    return naming('config.classifier.', f'{self.experiment.section_of_classifier(label)}.')

  def _planned(self, label: str, recipe: ClassifierSettings, trained: bool) -> Classifier:
    """Returns a classifier with what is known before a training, checked on all rows."""
    _check_input_filter(label, recipe, self.rows.image_shape)
    _check_attack(recipe, self._training_precision(recipe), self.rows.image_shape)
    _check_normalisation(recipe)
    _check_positions(recipe)
    network = (self._with_shapes if trained else self._loader.load)(label, recipe)
    if recipe.probe:
      network = self._with_empty_probe(label, recipe, network)
    classifier = self._as_measured(network, recipe)
    for task in self.experiment.measurements.values():
      rows = self.opened.get(task.data, self.rows)
      if task.study.needs_classifier:
        check_fit(classifier, match_labels(rows, classifier), task.study.views(rows.image_shape))
        classifier.select_layers(task.study.layers)
    if recipe.probe:
      with naming('config.data', self.experiment.section_of(recipe.data)):
        check_fit(network, self.open_rows(recipe), identity())
    return classifier

  def class_names(self, recipe: ClassifierSettings) -> tuple[str, ...]:
    """Returns the classes of a recipe's training rows, which its network will have."""
    return tuple(self.open_rows(recipe).class_names)

  def shown_in_training(self, recipe: ClassifierSettings) -> Facts:
    """Returns what a training here shows, as in `study.Recipes`: of rows with class groups the
    names of the classes of each as well, and their environments where they are stored in some."""
    shown = dict(recipe.shown_in_training)
    if recipe.data.class_groups or recipe.data.random_class_groups:
      groups = from_settings(recipe.data, self.class_names(recipe))
      shown['class_groups'] = groups.describe()
      description = self.open_rows(recipe).description
      if 'environments' in description:
        shown['training_environments'] = description['environments']
    return shown

  # Networks that are trained here.

  def initial(self, recipe: ClassifierSettings) -> InitialWeights | None:
    """Returns the weights that a training begins with; None where they are drawn."""
    initial = initial_weights.load(
      recipe.initial_weights, recipe.name, self.rows.image_shape, recipe.positions
    )
    if initial and recipe.mean:
      return dataclasses.replace(initial, mean=recipe.mean, std=recipe.std, assumed=False)
    return initial

  def train(
    self, label: str, recipe: ClassifierSettings, initial: InitialWeights | None
  ) -> Variables:
    """Returns the weights of the finished training of a network, begun or gone on with here.

    Several processes read a share of every batch each, and end with the same weights.
    """
    training = self.training(recipe, initial)
    finished = newest_step(self.directory / label) == training.total_steps
    return train(
      training,
      directory=self.directory / label,
      parallel=self.parallel(recipe.training),
      writer=NO_WRITER if finished else self.writer(label),
      evaluate=self.accuracy(label, recipe),
      facts={
        'architecture': recipe.name,
        **catalog.file_facts(recipe.name),
        'class_names': list(self.class_names(recipe)),
        'begun_with': weights.digest(initial.variables) if initial else '',
        'precision': self._training_precision(recipe),
      },
      label=f'{label}: training, seed {recipe.seed}',
    )

  def training(self, recipe: ClassifierSettings, initial: InitialWeights | None) -> Training:
    """Returns the training of a recipe, on the rows that are not held out."""
    rows = self.open_rows(recipe)
    kept, held = split_validation(rows, recipe.training.validation)
    rows = rows.at(kept) if len(held) else rows
    if tuple(rows.image_shape) != tuple(self.rows.image_shape):
      section = self.experiment.section_of(recipe.data)
      raise InputError(
        f'training images have shape {rows.image_shape}, the evaluated ones '
        f'{self.rows.image_shape}; set {section}.resize and {section}.crop.'
      )
    architecture = catalog.get(recipe.name)
    normalisation = initial or architecture
    parallel = self.parallel(recipe.training)
    environment = selective(recipe.augment.augmentations)
    transforms = environment.transforms if environment else ()
    order = balanced(recipe.training.balanced, rows, transforms, recipe.seed)
    training = Training(
      model=architecture.build(
        len(rows.class_names), jnp.dtype(self._training_precision(recipe)), parallel.axis_name
      ),
      rows=rows,
      sampler=order,
      inputs=Inputs(normalisation.mean, normalisation.std, recipe.input_filter),
      fit=architecture.fit,
      fit_rows=architecture.fit_rows,
      settings=recipe.training,
      pipeline=recipe.pipeline,
      seed=recipe.seed,
      initial=initial.for_classes(rows.class_names) if initial else {},
    )
    known, objective = ('label', *recipe.augment.added), recipe.objective
    if isinstance(objective, GroupObjective) and objective.column not in known:
      training.check_groups(columns_of(rows))
    return training

  def accuracy(self, label: str, recipe: ClassifierSettings) -> AccuracyOnRows:
    """Returns what evaluates the weights of a training: on held-out training rows the network with
    all its classes, else on the rows of the study the classifier of the run, which adapts to no
    batch here."""
    rows, settings = self.open_rows(recipe), recipe.training
    _, held = split_validation(rows, settings.validation)
    classifier = self._with_shapes(label, recipe)
    if len(held):
      shown = rows.at(held)
    else:
      classifier = self._as_measured(classifier, recipe)
      shown = match_labels(self.rows, classifier)
    parallel, seed = self.parallel(settings, False), self.experiment.execution.seed
    return AccuracyOnRows(classifier, shown, seed, parallel, settings.resident_bytes)

  def parallel(self, training: TrainingSettings, all_processes: bool = True) -> Parallel:
    """Returns how steps run: on as many devices as share a micro-batch evenly."""
    kind, micro = self.experiment.execution.parallel, training.batch_size // training.accumulate
    processes = jax.process_count() if all_processes else 1
    if processes > 1 and training.batch_size % (processes * training.accumulate):
      raise InputError(
        f'config.training.batch_size is {training.batch_size}; it must be a multiple of '
        f'{processes} processes × {training.accumulate} micro-batches '
        f'= {processes * training.accumulate}, and of that × {jax.local_device_count()} devices of '
        'each process where all of them are to be used.'
      )
    return create(kind, micro, all_processes)

  def trained_network(
    self, label: str, recipe: ClassifierSettings, initial: InitialWeights | None, weights: Variables
  ) -> Classifier:
    """Returns the weights of a training as the classifier of the run."""
    settings = recipe.training
    kept, _ = split_validation(self.open_rows(recipe), settings.validation)
    total = schedule.total_steps(settings, len(kept))
    provenance = {
      'weights': 'trained here',
      **(initial.facts if initial else {}),
      'step': total,
      'total_steps': total,
      'seed': recipe.seed,
      **self.shown_in_training(recipe),
      **({'ema_decay': settings.ema_decay} if settings.ema_decay else {}),
      **({'balanced': settings.balanced} if settings.balanced else {}),
      **({'kept': 'best by validation accuracy'} if settings.keep == BEST else {}),
    }
    shapes = self._with_shapes(label, recipe)
    network = self._loader.with_weights(shapes, recipe, weights, provenance, initial)
    return network if recipe.probe else self._as_measured(network, recipe)

  # Probes on the features of a network.

  def _with_empty_probe(
    self, label: str, recipe: ClassifierSettings, network: Classifier
  ) -> Classifier:
    """Returns a network with a probe that is not fitted yet; refuses what the fit would."""
    probe, rows = recipe.probe, self.open_rows(recipe)
    assert probe is not None
    names, labels = self.class_names(recipe), rows.without_images()['label']
    if not names:
      raise InputError(f'the training rows of {label} have no class names, which its probe needs.')
    size = probes.num_features(network, probe.layer)
    kept, _ = probes.drawn(probe, labels, names, recipe.seed)
    empty = probe.empty(len(kept), size, len(names))
    return probes.probed(network, probe, empty, names, {})

  def _fitted(self, label: str, recipe: ClassifierSettings, network: Classifier) -> Classifier:
    """Returns a network with its probe, fitted to features that are recorded unless they are."""
    probe, rows, names = recipe.probe, self.open_rows(recipe), self.class_names(recipe)
    assert probe is not None
    shown = probes.features_of(network, probe.layer, names)
    key, way = random_keys.stream(0, probes.FEATURES), create(self.experiment.execution.parallel)
    outputs = (probes.FEATURES,)
    evaluator = Evaluator(shown, identity(), key, way, outputs=outputs, phase='features')
    facts: Facts = {
      'network': dict(network.provenance),
      'layer': probe.layer,
      'data': identity_of(rows),
      'classes': list(names),
    }
    plain = json.dumps(facts, sort_keys=True, default=str)
    folder = self.features or self.directory.parent / 'features'
    place = folder / hashlib.sha256(plain.encode()).hexdigest()[:8]  # shared by a network's probes
    records = Records(place, evaluator.layout(rows.num_examples), facts)
    evaluator.evaluate(rows, records, jax.process_index(), jax.process_count())
    barrier(f'the features of {label}')
    features, labels = (records.column(name) for name in (f'output/{probes.FEATURES}', 'label'))
    arrays, chosen = probes.fit(probe, features, labels, names, recipe.seed)
    data = {'training_split': recipe.data.split, 'training_rows': len(labels)}
    chosen = {**chosen, **data, 'sha256': weights.digest(arrays)}
    logging.info('%s: %s probe of %d features, %s', label, probe.name, features.shape[1], chosen)
    return probes.probed(network, probe, arrays, names, chosen)

  def _is_begun(self, label: str) -> bool:
    return newest_step(self.directory / label) is not None

  def _with_shapes(self, label: str, settings: ClassifierSettings) -> Classifier:
    """Returns the classifier that a training will give, with shapes for weights."""
    if not settings.train:
      known_weights = [entry.name for entry in catalog.get(settings.name).weights]
      known = f' or a name ({", ".join(known_weights)})' if known_weights else ''
      raise InputError(
        f'{label} has no weights: give --config.classifier.weights=FILE{known}, or '
        'train it in this workdir with --config.classifier.train=True.'
      )
    if label not in self._traced:
      initial = self.initial(settings)
      warn_unfinished(label, initial)
      if initial and initial.assumed:
        warn_assumed(label, settings.initial_weights, catalog.get(settings.name))
      names = self.class_names(settings)
      shapes = catalog.get(settings.name).variables(len(names), self.rows.image_shape)
      self._traced[label] = self._loader.with_shapes(label, settings, shapes, names, initial)
    return self._traced[label]

  @functools.cached_property
  def _traced(self) -> dict[str, Classifier]:
    """What `_with_shapes` gave, by label: to trace a deep network takes a second."""
    return {}

  def _as_measured(self, classifier: Classifier, recipe: ClassifierSettings) -> Classifier:
    names = self.rows.class_names
    projected = in_label_space(classifier, recipe.label_space, recipe.merge, names)
    return projected.with_adaptation(recipe.adaptation)

  @property
  def _loader(self) -> Loader:
    return Loader(self.experiment, self.rows)

  def _training_precision(self, recipe: ClassifierSettings) -> str:
    return recipe.training.precision or self.experiment.execution.precision


def _check_input_filter(
  label: str, recipe: ClassifierSettings, image_shape: tuple[int, int, int]
) -> None:
  """Refuses an input filter that does not fit the images, or a classifier that takes none."""
  if not recipe.input_filter:
    return
  if from_file.is_classifier(recipe.name):
    raise InputError(
      f'{label} is a classifier of a file, which brings its own input filter: set '
      "config.classifier.input_filter.name=''."
    )
  images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
  jax.eval_shape(Inputs(input_filter=recipe.input_filter), images)


def _check_normalisation(recipe: ClassifierSettings) -> None:
  """Refuses a normalisation beside weights that bring theirs."""
  if recipe.mean and not is_unrecorded(recipe.weights or recipe.initial_weights, recipe.name):
    raise InputError(
      f'config.classifier.mean is {recipe.mean}, which is for a weights file without a record: '
      'published weights, records, checkpoints and classifiers of a library or file say their own, '
      "and other networks have their architecture's. Set config.classifier.mean and std to ()."
    )


def _check_positions(recipe: ClassifierSettings) -> None:
  """Refuses a way of resampling positions where none are."""
  if recipe.positions == BICUBIC:
    return
  name, given = recipe.name, recipe.weights
  elsewhere = name.startswith(catalog.TORCH_LIBRARIES) or from_file.is_classifier(name)
  folder = given and expanded(given).is_dir() and not published(recipe)  # of its training's size
  drawn = given == catalog.RANDOM or (recipe.is_trained_here and not recipe.initial_weights)
  if elsewhere or folder or drawn or not is_resampled(catalog.get(name).shapes(1)):
    raise InputError(
      f'config.classifier.positions is {recipe.positions!r}, which changes nothing here: it is for '
      'weights, loaded or begun with, of a network of this project whose positions are resampled '
      f"for images of another size (docs/networks.md). Set it to '{BICUBIC}'."
    )


def _check_attack(recipe: ClassifierSettings, precision: str, image_shape: tuple[int, ...]) -> None:
  """Refuses a training on adversarial examples whose changes bfloat16 rounds away."""
  if recipe.attack is None or not recipe.is_trained_here or precision != 'bfloat16':
    return
  epsilon, unit = recipe.attack.epsilon, balls.mean_change(recipe.attack.norm, 1.0, image_shape)
  if epsilon * unit < BFLOAT16_STEP:
    raise InputError(
      f'the training is in bfloat16, in which numbers have 8 bits, and an attack of {epsilon:g} '
      f'would be rounded away: give config.classifier.attack.{recipe.attack.name}.epsilon of at '
      f'least {BFLOAT16_STEP / unit:.6f} (2**-8 a value), or set '
      '--config.training.precision=float32.'
    )
