"""Builds all classifiers of a config: loads weights, trains networks and fits probes."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from input_pipeline.settings import DataSettings
from robustness.augment.environment import find_environment
from robustness.building.along_training import FOLDER, AlongTraining, join_steps
from robustness.classifiers import ClassifierKind, Images
from robustness.classifiers.network import Network, NetworkWeights
from robustness.classifiers.published_weights import PublishedWeights
from robustness.classifiers.trained_here import TrainedHere
from robustness.config.experiment import Experiment, Measurement
from robustness.core import random_keys
from robustness.core.errors import KEYS, InputError, SettingError, renaming_section
from robustness.core.rows import Rows, identity_of
from robustness.core.typing import Facts, Variables
from robustness.environments.balance import balanced_sampler
from robustness.evaluation.fit import check_fit
from robustness.evaluation.records import Records
from robustness.evaluation.runner import Evaluator
from robustness.evaluation.study import Study
from robustness.evaluation.views import stored_view
from robustness.models import label_space, probes, weights
from robustness.models.classifier import Classifier
from robustness.models.inputs import Inputs
from robustness.models.projection import in_label_space, match_labels
from robustness.objectives.groups import GroupObjective
from robustness.parallel import Parallel, create
from robustness.parallel.processes import barrier
from robustness.results import SINGLE, Results
from robustness.training import loop, schedule
from robustness.training.checkpoint import newest_step
from robustness.training.evaluation import AccuracyOnRows, columns_of, split_validation
from robustness.training.optimizer import is_in_head
from robustness.training.settings import BEST, TrainingSettings
from robustness.training.step import check
from robustness.training.training import Training
from robustness.training.writers import NO_WRITER, ScalarWriter


@dataclasses.dataclass(frozen=True)
class ClassifierBuilder:
  """Builds the classifiers of a run: loads weights, trains networks and fits probes.

  Each classifier has a recipe, which is its section of the config, and a label, which is the name
  of the section.

  Attributes:
    experiment: the checked config.
    rows: the images to measure on, with labels. They determine the image shape.
    open_rows: function from a recipe to its training images. Their classes are the network's
      outputs.
    directory: folder for trained weights, which are saved in `<directory>/<label>`.
    writer: function from a label to the writer of the training's metrics.
    opened: {settings of data: images} for studies that are measured on other images than `rows`.
    features: folder for the features that probes are fitted to. None takes `features` next to
      `directory`.
  """

  experiment: Experiment
  rows: Rows
  open_rows: Callable[[ClassifierKind], Rows]
  directory: pathlib.Path
  writer: Callable[[str], ScalarWriter]
  opened: Mapping[DataSettings, Rows] = dataclasses.field(default_factory=dict)
  features: pathlib.Path | None = None

  def build(self) -> list[Classifier]:
    """Loads or trains every classifier, and returns them in the order of the config.

    Errors that can be found without training are raised before the first training begins.
    """
    built = dict(self.checked_classifiers)
    for label, trained in self.to_train().items():
      with self._naming_section(label):
        initial = trained.read_initial_weights(self.rows.image_shape)
        variables = self.train(label, trained, initial)
      built[label] = self._with_trained_weights(label, trained, initial, variables)
    # a probe is fitted to the features of a network that was trained above or has stored weights
    for label, recipe in self.experiment.classifiers.items():
      if recipe.probe:
        with self._naming_section(label):
          network = built[label] if recipe.is_trained_here else self._load(label)
          probed = self._with_fitted_probe(label, recipe, network)
          built[label] = self._prepare_for_measurement(probed, recipe)
    return list(built.values())

  def to_train(self) -> dict[str, TrainedHere]:
    """Returns {label: recipe} for the networks that this run trains."""
    recipes = self.experiment.classifiers.items()
    return {label: recipe for label, recipe in recipes if isinstance(recipe, TrainedHere)}

  def training_rows(self) -> dict[str, Rows]:
    """Returns {label: training images with labels} for the networks that this run trains."""
    return {label: self.open_rows(recipe) for label, recipe in self.to_train().items()}

  @property
  def needs_training(self) -> bool:
    """Whether any classifier has no checkpoint yet and must be trained."""
    return not all(map(self._is_begun, self.to_train()))

  @functools.cached_property
  def checked_classifiers(self) -> dict[str, Classifier]:
    """All classifiers by label, after every check that is possible before training.

    A classifier that is still to be trained has `jax.ShapeDtypeStruct` in place of weights.

    Raises:
      InputError: a classifier has no weights and `train` is False, weights do not fit, a network
        lacks classes of the data or layers of a study, or a training could not begin.
    """
    planned = {}
    for label, recipe in self.experiment.classifiers.items():
      with self._naming_section(label):
        planned[label] = self._checked_classifier(label, recipe)
    for label, recipe in self.to_train().items():
      with self._naming_section(label):
        self._check_training(label, recipe, planned[label])
    return planned

  def _check_training(self, label: str, recipe: TrainedHere, classifier: Classifier) -> None:
    """Raises InputError if a training cannot begin.

    Warns if a study is measured on the training images.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.
      classifier: the untrained network, with shapes in place of weights.
    """
    for task in self.experiment.measurements.values():
      trained_on, measured = recipe.data, task.data
      if trained_on.source.shares_images(trained_on.split, measured.source, measured.split):
        logging.warning('%s is measured on the images that it is trained on', label)
    if not recipe.training.validation:
      # The training will measure accuracy on these rows. Raises if the network lacks their classes.
      match_labels(self.rows, classifier)
    if not self._is_begun(label):  # a training that has begun passed these checks
      training = self.training(recipe, recipe.read_initial_weights(self.rows.image_shape))
      training.check_layout(self.parallel(recipe.training))
      check(training, next(self.open_rows(recipe).batches(1, [0], stored=True)))

  @contextlib.contextmanager
  def _naming_section(self, label: str) -> Iterator[None]:
    """Returns a context in which error messages name the config keys of one classifier.

    For example, 'config.classifier.mean' becomes 'config.classifiers.a.mean' for the classifier
    'a'.
    """
    with contextlib.ExitStack() as stack:
      section = self.experiment.section_of_classifier(label)
      stack.enter_context(renaming_section('config.classifier', section))
      for key in vars(self.experiment.training):
        name = self.experiment.training_key(label, key)
        stack.enter_context(renaming_section(f'config.training.{key}', name))
      yield

  def _checked_classifier(self, label: str, recipe: ClassifierKind) -> Classifier:
    """Builds a classifier, and checks that every study of the run can measure it.

    It is called before any training, so a classifier that is still to be trained has shapes in
    place of weights. A probe is a classifier that is fitted to the features of a network; it has
    zeros as weights here.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.

    Returns:
      The classifier as studies will call it, with its input filters, if any.

    Raises:
      InputError: the recipe is not valid, or images, classes or layers of a study do not fit.
    """
    precision = self.experiment.execution.precision
    recipe.check(label, self.rows.image_shape, precision)
    if precision != 'float32' and not isinstance(recipe, Network):
      logging.warning('%s computes as it does elsewhere, not in %s.', label, precision)
    tasks = self.experiment.measurements.values()
    has_published_classes = not (recipe.label_space or recipe.probe)
    if isinstance(recipe, PublishedWeights) and has_published_classes:
      # `align` matches ImageNet's classes with those of the images. It is called for its errors
      # only, before the network is built, which takes longer.
      imagenet = label_space.get(label_space.IMAGENET)
      for task in tasks:
        label_space.align(self._rows_of(task), imagenet.class_names, label)
    network = self._load(label)
    if recipe.probe:
      network = self._with_zero_probe(label, recipe, network)
    classifier = self._prepare_for_measurement(network, recipe)
    for task in tasks:
      if task.study.needs_classifier:
        rows = match_labels(self._rows_of(task), classifier)
        # raises unless the classifier takes the study's perturbed images and has its classes
        check_fit(classifier, rows, task.study.views(rows.image_shape))
        classifier.select_layers(task.study.layers)  # raises if a layer is unknown
    if recipe.probe:  # the network must take the training rows, which the probe is fitted to
      with renaming_section('config.data', self.experiment.section_of(recipe.data)):
        check_fit(network, self.open_rows(recipe), stored_view())
    return classifier

  def _rows_of(self, task: Measurement) -> Rows:
    """Returns the images that a study of the run is measured on."""
    return self.opened.get(task.data, self.rows)

  def shown_in_training(self, recipe: ClassifierKind) -> Facts:
    """Returns what a classifier sees in its training, as JSON values.

    The entries are the split of the data, augmentations, attack and objective. If the data have
    class groups, the classes of each group are added, and the names of the environments if images
    are stored by environment.

    Args:
      recipe: the classifier's section of the config.
    """
    facts, description = dict(recipe.shown_in_training), self.open_rows(recipe).description
    if 'class_groups' in description:
      facts['class_groups'] = description['class_groups']
      if 'environments' in description:
        facts['training_environments'] = description['environments']
    return facts

  # Networks that are trained here.

  @functools.cached_property
  def _split(self) -> Callable[[TrainedHere], tuple[np.ndarray, np.ndarray]]:
    """The function from a recipe to the row indices (to train on, held out for validation).

    It computes the indices of a recipe once, because they may need a pass over all training images.
    """
    return functools.cache(
      lambda recipe: split_validation(self.open_rows(recipe), recipe.training.validation)
    )

  @functools.cached_property
  def _load(self) -> Callable[[str], Classifier]:
    """The function that loads a classifier by its label, each only once.

    A classifier that this run trains has shapes in place of weights.
    """

    def load(label: str) -> Classifier:
      """Loads the classifier that a section of the config, the recipe, describes."""
      recipe = self.experiment.classifiers[label]
      return recipe.load(label, self._expected_images(recipe), self.experiment.execution.precision)

    return functools.cache(load)

  def _expected_images(self, recipe: ClassifierKind) -> Images:
    """Returns shape and classes of the images that a classifier must accept.

    The classes are from the training images if this run trains the classifier, else from the images
    to measure on.
    """
    rows = self.open_rows(recipe) if recipe.is_trained_here else self.rows
    has_set_size = bool(self.experiment.data.crop)  # else each classifier chooses its image size
    return Images(self.rows.image_shape, tuple(rows.class_names), has_set_size)

  def train(self, label: str, recipe: TrainedHere, initial: NetworkWeights | None) -> Variables:
    """Trains a network, or resumes its training, and returns the final variables.

    A finished training is not repeated: the final variables are read from the checkpoint.
    Checkpoints are in `<directory>/<label>`. With several processes, each reads its share of a
    batch, and all return the same variables.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.
      initial: weights to begin with; None draws random weights.
    """
    training, data = self.training(recipe, initial), recipe.data
    # the description of the images is of the evaluated ones, which are not cropped at random
    random_crop = (data.random_crop_area, data.interpolation, data.resized_by)
    is_finished = newest_step(self.directory / label) == training.total_steps
    return loop.train(
      training,
      directory=self.directory / label,
      parallel=self.parallel(recipe.training),
      writer=NO_WRITER if is_finished else self.writer(label),
      evaluate=self.accuracy(label, recipe),
      measure=self._tasks_along_training(label, recipe, initial),
      facts={
        **recipe.architecture_facts,
        'class_names': list(training.rows.class_names),
        'begun_with': weights.digest(initial.variables) if initial else '',
        'precision': self._training_precision(recipe),
        'random_crop': random_crop if data.random_crop_area else None,
      },
      label=f'{label}: training, seed {recipe.seed}',
    )

  def training(self, recipe: TrainedHere, initial: NetworkWeights | None) -> Training:
    """Returns the network, data and settings of a training, the argument of `loop.train`.

    Images that are held out for validation are left out.

    Args:
      recipe: the classifier's section of the config.
      initial: weights to begin with; None draws random weights.

    Raises:
      InputError: training images have another shape than the measured ones, the data have more
        groups than the objective, or the initial weights are for other classes and the network has
        no known last layer.
    """
    rows = self.open_rows(recipe)
    fitted, held_out = self._split(recipe)
    rows = rows.at(fitted) if len(held_out) else rows
    if tuple(rows.image_shape) != tuple(self.rows.image_shape):
      section = self.experiment.section_of(recipe.data)
      raise InputError(
        f'training images have shape {rows.image_shape}, the evaluated ones '
        f'{self.rows.image_shape}; set {section}.resize and {section}.crop.'
      )
    architecture = recipe.architecture
    normalisation = initial or architecture  # each has the mean and std that its weights expect
    parallel = self.parallel(recipe.training)
    # The sampler draws all values of a column, `training.balanced`, such as 'label', equally often.
    # It is None without this setting. The augmentation `environment` adds a column of transforms.
    environment = find_environment(recipe.augment.augmentations)
    transforms = environment.transforms if environment else ()
    sampler = balanced_sampler(recipe.training.balanced, rows, transforms, recipe.seed)
    training = Training(
      model=architecture.build(
        len(rows.class_names), jnp.dtype(self._training_precision(recipe)), parallel.axis_name
      ),
      rows=rows,
      sampler=sampler,
      inputs=Inputs(normalisation.mean, normalisation.std, recipe.input_filter),
      fit=architecture.fit,  # computes initial variables from images; None for most networks
      fit_rows=architecture.fit_rows,
      settings=recipe.training,
      pipeline=recipe.pipeline,
      seed=recipe.seed,
      initial=initial.for_classes(rows.class_names) if initial else {},
    )
    if initial and initial.has_other_classes(rows.class_names):
      self._check_last_layer(recipe, training)
    # Groups can be counted now if their column is stored with the rows. `Training` checks columns
    # that are computed for each batch.
    if isinstance(recipe.objective, GroupObjective):
      computed_columns = ('label', *recipe.augment.added_columns)
      if recipe.objective.column not in computed_columns:
        training.check_groups(columns_of(rows))
    return training

  def _check_last_layer(self, recipe: TrainedHere, training: Training) -> None:
    """Raises SettingError unless the network has a last layer called 'head'.

    Called if the initial weights are for other classes than the training. Only a layer with this
    name can then be replaced by a random one.
    """
    if not any(jax.tree.leaves(is_in_head(training.state_shapes().params))):
      raise SettingError(
        KEYS.classifier.initial_weights,
        recipe.initial_weights,
        problem='whose classes are not those of the training, and this network has no last layer '
        'called head, which would be drawn anew',
        fix="End the network with robustness.models.layers.LinearHead(name='head') or "
        "nn.Dense(name='head'), or name the classes as the weights do.",
      )

  def _tasks_along_training(
    self, label: str, recipe: TrainedHere, initial: NetworkWeights | None
  ) -> AlongTraining | None:
    """Returns the function that measures studies during a training, for the training loop to call.

    The setting `training.measure` names the studies; the result is None if it is empty.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.
      initial: weights that the training begins with; None for random weights.
    """
    if not recipe.training.measure:
      return None
    classifier_at = functools.partial(self._with_trained_weights, label, recipe, initial)
    folder, execution = self.directory.parent / FOLDER, self.experiment.execution
    return AlongTraining(classifier_at, self.along_tasks(recipe), execution, folder)

  def along_tasks(self, recipe: ClassifierKind) -> dict[str, tuple[Study, Rows]]:
    """Returns the studies that the setting `training.measure` names, as {name: (study, images)}."""
    tasks = {}
    for name in recipe.training.measure:
      # `SINGLE`, '', is the key of the only study of a config without a battery
      task = self.experiment.measurements[SINGLE if self.experiment.is_single else name]
      tasks[name] = task.study, self._rows_of(task)
    return tasks

  def along_training(self) -> dict[str, Results]:
    """Returns the results of studies measured during trainings, as {name of the study: results}.

    Each training can measure studies (`training.measure`) at some of its steps, and saves the
    results of each step. Those of all steps and classifiers are joined.
    """
    steps_by_task: dict[str, dict[str, list[int]]] = {}  # {task: {label: measured steps}}
    for label, recipe in self.to_train().items():
      fitted, _ = self._split(recipe)
      for task in recipe.training.measure:
        steps = schedule.measured_steps(recipe.training, len(fitted))
        steps_by_task.setdefault(task, {})[label] = steps
    folder = self.directory.parent / FOLDER
    return {task: join_steps(folder / task, steps) for task, steps in steps_by_task.items()}

  def accuracy(self, label: str, recipe: TrainedHere) -> AccuracyOnRows | None:
    """Returns a function that measures the accuracy during a training.

    The accuracy is on the training images that are held out, with all classes of the network. If
    none are held out, it is on the images to measure on, in the classifier's label space. None if
    there are no such images either. Test-time adaptation is never used.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.
    """
    _, held_out = self._split(recipe)
    if len(held_out):
      classifier, rows = self._load(label), self.open_rows(recipe).at(held_out)
    elif self.experiment.measurements:
      classifier = self._prepare_for_measurement(self._load(label), recipe)
      rows = match_labels(self.rows, classifier)
    else:  # without a study there are no images to measure on
      return None
    settings, seed = recipe.training, self.experiment.execution.seed
    parallel = self.parallel(settings, all_processes=False)
    return AccuracyOnRows(classifier, rows, seed, parallel, settings.resident_bytes)

  def parallel(self, training: TrainingSettings, all_processes: bool = True) -> Parallel:
    """Returns how a training is spread over devices.

    It uses the largest number of devices that divides a micro-batch.

    Args:
      training: settings of the training.
      all_processes: whether the devices of all processes share a batch, or only the devices of this
        process.

    Raises:
      SettingError: the number of processes does not divide the batch.
    """
    processes = jax.process_count() if all_processes else 1
    divisor = processes * training.accumulate
    if processes > 1 and training.batch_size % divisor:
      raise SettingError(
        KEYS.training.batch_size,
        training.batch_size,
        valid=f'a multiple of {processes} processes × {training.accumulate} micro-batches = '
        f'{divisor}, and of that × {jax.local_device_count()} devices '
        'of each process where all of them are to be used',
      )
    micro_batch = training.batch_size // training.accumulate
    return create(self.experiment.execution.parallel, micro_batch, all_processes)

  def _with_trained_weights(
    self,
    label: str,
    recipe: TrainedHere,
    initial: NetworkWeights | None,
    variables: Variables,
    step: int | None = None,
  ) -> Classifier:
    """Returns a trained classifier, with a description of its training as provenance.

    If the recipe has a probe, the classifier still predicts by the network's last layer, without
    label space or test-time adaptation. `build` fits the probe afterwards.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.
      initial: weights that the training began with; None if they were random.
      variables: the trained variables.
      step: the step after which the network had these variables; None for the end of the training.
    """
    settings = recipe.training
    fitted, _ = self._split(recipe)
    total = schedule.total_steps(settings, len(fitted))
    numbers = {'step': total if step is None else step, 'total_steps': total, 'seed': recipe.seed}
    facts = {**numbers, **self.shown_in_training(recipe)}
    if settings.ema_decay:
      facts['ema_decay'] = settings.ema_decay
    if settings.balanced:
      facts['balanced'] = settings.balanced
    if settings.keep == BEST and step is None:
      facts['kept'] = 'best by validation accuracy'
    images, precision = self._expected_images(recipe), self.experiment.execution.precision
    trained_weights = recipe.weights_of_training(variables, images, initial, facts)
    network = recipe.with_weights(self._load(label), trained_weights, precision)
    return network if recipe.probe else self._prepare_for_measurement(network, recipe)

  # Probes on the features of a network.

  def _with_zero_probe(self, label: str, recipe: ClassifierKind, network: Classifier) -> Classifier:
    """Returns a network with a probe, a classifier of its features, with zeros as weights.

    Used to check the shapes before features are computed.

    Raises:
      InputError: the probe could not be fitted, for example because there are too few training
        images or no such layer.
    """
    probe, rows = recipe.probe, self.open_rows(recipe)
    assert probe is not None
    names, labels = rows.class_names, rows.without_images()['label']
    if not names:
      raise InputError(f'the training rows of {label} have no class names, which its probe needs.')
    num_features = probes.num_features(network, probe.layer)
    # a nearest-neighbour probe stores the rows that it is fitted to: its size depends on them
    drawn, _ = probes.drawn_rows(probe, labels, names, recipe.seed)
    zeros = probe.empty(len(drawn), num_features, len(names))
    return probes.with_probe(network, probe, zeros, names, facts={})

  def _with_fitted_probe(
    self, label: str, recipe: ClassifierKind, network: Classifier
  ) -> Classifier:
    """Returns a network with its probe, fitted to the network's features of the training images.

    The probe, a classifier of features, replaces the network's logits.

    Args:
      label: name of the classifier.
      recipe: the classifier's section of the config.
      network: the network without the probe.
    """
    probe, rows = recipe.probe, self.open_rows(recipe)
    assert probe is not None
    records = self._record_features(probe, rows, network)
    barrier(f'the features of {label}')  # waits for the processes that compute the other features
    features, labels = records.column(f'output/{probes.FEATURES}'), records.column('label')
    arrays, fit = probes.fit(probe, features, labels, rows.class_names, recipe.seed)
    data = {'training_split': recipe.data.split, 'training_rows': len(labels)}
    fit = {**fit, **data, 'sha256': weights.digest(arrays)}
    logging.info('%s: %s probe of %d features, %s', label, probe.name, features.shape[1], fit)
    return probes.with_probe(network, probe, arrays, rows.class_names, fit)

  def _record_features(self, probe: probes.Probe, rows: Rows, network: Classifier) -> Records:
    """Computes the features of all images and returns the files with them.

    Features are the output of one layer of the network. Probes with the same network, layer, images
    and classes share the files, so that features are computed once.

    Args:
      probe: the probe, which names the layer (`probe.layer`).
      rows: the images.
      network: the network.
    """
    with_features = probes.features_of(network, probe.layer, rows.class_names)
    key = random_keys.stream(0, probes.FEATURES)  # not used: images are shown as they are stored
    parallel = create(self.experiment.execution.parallel)
    runner = Evaluator(
      with_features, stored_view(), key, parallel, outputs=(probes.FEATURES,), phase='features'
    )
    facts: Facts = {
      'network': dict(network.provenance),
      'layer': probe.layer,
      'data': identity_of(rows),
      'classes': list(rows.class_names),
    }
    folder = self.features or self.directory.parent / 'features'
    encoded = json.dumps(facts, sort_keys=True, default=str).encode()
    digest = hashlib.sha256(encoded).hexdigest()[:8]
    records = Records(folder / digest, runner.layout(rows.num_examples), facts)
    runner.evaluate(rows, records, jax.process_index(), jax.process_count())
    return records

  def _is_begun(self, label: str) -> bool:
    """Returns whether the training of a classifier has saved a checkpoint."""
    return newest_step(self.directory / label) is not None

  def _prepare_for_measurement(self, classifier: Classifier, recipe: ClassifierKind) -> Classifier:
    """Adds the label space and the test-time adaptation of the recipe to a classifier."""
    names = self.rows.class_names
    projected = in_label_space(classifier, recipe.label_space, recipe.merge, names)
    return projected.with_adaptation(recipe.adaptation)

  def _training_precision(self, recipe: ClassifierKind) -> str:
    """Returns the precision of a training, by default the precision of the evaluation."""
    return recipe.training.precision or self.experiment.execution.precision
