"""The functions of `import robustness`: a model and arrays in, results out.

The command line calls the same code, so that both compute the same numbers.
"""

import contextlib
import dataclasses
import functools
import itertools
import os
import pathlib
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from numpy.typing import ArrayLike

import input_pipeline
from input_pipeline.settings import DataSettings, Source
from robustness import launch
from robustness.attacks import ATTACKS, Attack
from robustness.augment import AUGMENTATIONS, Augmentation
from robustness.augment.policy import Policy
from robustness.building import checks
from robustness.building.builder import ClassifierBuilder
from robustness.building.trained_module import TrainedModule
from robustness.classifiers import ClassifierKind, ClassifierSettings, Images, resolve_section
from robustness.classifiers.trained_here import TrainedHere
from robustness.cli import command_line
from robustness.cli import compare as comparing
from robustness.comparison.entries import entries_of, named_workdirs, typed_labels
from robustness.config.experiment import Execution, Experiment
from robustness.core import progress as progress_bars
from robustness.core import random_keys, user_data
from robustness.core.arguments import as_array, as_images, as_key, check_integers
from robustness.core.errors import (
  InputError,
  naming_arguments,
  renaming_section,
  users_errors_refused,
)
from robustness.core.paths import expanded
from robustness.core.random_keys import without_global_draws
from robustness.core.registry import Part, Registry
from robustness.core.rows import ArrayRows, Rows, as_float32, numbered_classes
from robustness.core.settings import check_name, choice, parse, refuse_unknown, require
from robustness.core.typing import PyTree
from robustness.environments import class_groups
from robustness.evaluation import study as studies
from robustness.evaluation.study import Study
from robustness.measurement import measure as measure_study
from robustness.models.callables import check_logits
from robustness.models.classifier import Classifier, without_finite_gradient, without_gradient
from robustness.models.inputs import InputFilter
from robustness.models.model import Model
from robustness.models.projection import in_label_space
from robustness.models.weights import digest
from robustness.objectives import OBJECTIVES, Objective
from robustness.objectives.cross_entropy import CrossEntropy
from robustness.results import SINGLE, Results
from robustness.studies.attack_error import AttackError
from robustness.training.settings import TrainingSettings
from robustness.training.writers import NO_WRITER, training_writer
from robustness.video.columns import with_numbered_sets
from robustness.workdirs import finished_workdir
from robustness.workdirs.finished_workdir import FinishedStudy, studies_and_presentation
from robustness.workdirs.workdir import locked


def classifier(
  module: Any,
  *,
  variables: PyTree = None,
  mean: ArrayLike | None = None,
  std: ArrayLike | None = None,
  channels: str | None = None,
  outputs: str = 'logits',
  class_names: Sequence[str] | None = None,
  name: str = '',
  label_space: str = '',
  merge: str = 'max',
) -> Model:
  """Returns a network with the facts that a measurement needs, such as class names.

  `Model` has an attribute for each argument.

  Args:
    module: a function of images; a function of variables and images; a module of Linen, NNX,
      Equinox, PyTorch or Keras; a model of MAITE; or the name of an architecture.
    variables: the weights, for a function of two arguments or a Linen module. For the name of an
      architecture, a file or a name of weights.
    mean: subtracted from images in [0, 1]; one number, or one number per channel. None is 0.
    std: divides the images after `mean` is subtracted; one number, or one number per channel. None
      is 1.
    channels: 'first' for input [B, C, H, W], 'last' for [B, H, W, C]. None takes the order of the
      module's library.
    outputs: what the network returns, 'logits' or 'probabilities'.
    class_names: the names of the outputs, in order. None takes the class names of the data.
    name: label in tables and figures. '' takes the name of the class or function.
    label_space: the classes that predictions are mapped to, such as the 30 of 'imagenet_vid', or
      'data' for the classes of the data. '' keeps the network's classes.
    merge: how probabilities of fine classes become that of a class of `label_space`: 'max', 'sum'
      or 'mean'.

  Raises:
    InputError: `module` is no network, or an argument is not valid.
  """
  mean_and_std = user_data.as_numbers(mean), user_data.as_numbers(std)
  names = _as_names(class_names) or None
  return Model(module, variables, *mean_and_std, channels, outputs, names, name, label_space, merge)


def _as_names(class_names: Iterable[Any] | None) -> tuple[str, ...]:
  """Returns class names, a sequence or array, as a tuple of str; () for None."""
  if not isinstance(class_names, Iterable | None):
    raise InputError(f'class_names is {class_names!r}; it must be a sequence of names, or None.')
  return tuple(map(str, () if class_names is None else class_names))


def _as_dict(argument: str, value: Any) -> dict[str, Any]:
  """Returns a mapping, or a table of pandas, as a dictionary; {} for None.

  Args:
    argument: name of the argument with the mapping, for the message.
    value: the mapping.

  Raises:
    InputError: the value is no mapping.
  """
  try:
    return {} if value is None else dict(value)
  except (TypeError, ValueError) as error:
    raise InputError(f'{argument} is {value!r}; it must be a dictionary.') from error


@naming_arguments()
def measure(
  study: str | Study,
  model: Any,
  data: Any,
  labels: Any = None,
  *,
  columns: Mapping[str, Any] | None = None,
  class_names: Sequence[str] | None = None,
  seed: int = 0,
  batch_size: int | None = None,
  devices: Sequence[jax.Device] | None = None,
  workdir: str | os.PathLike[str] | None = None,
  progress: bool | None = None,
  **settings: Any,
) -> Results:
  """Runs a robustness study on one or several classifiers, and returns the results.

  Args:
    study: the name of a study, such as 'fourier_heatmap' (`robustness list studies` lists them);
      `FILE.py:NAME`; or a `Study`.
    model: one model or {label: model}. The first model of a dictionary is the baseline. A model is
      a function of images; a module of NNX, Equinox, PyTorch or Keras; a model of MAITE; the result
      of `classifier`, for instance with weights; the name of an architecture, such as 'resnet20' or
      `timm:NAME`; or a `Classifier`. None is for studies that need no classifier.
    data: images [N, H, W, C], uint8 or floats in [0, 1]; pairs (image, label) of a
      `tf.data.Dataset`, PyTorch or Grain; or a data set or loader of MAITE. All of these are read
      into memory. `Rows`, or a source or `DataSettings` of `input_pipeline`, are read batch by
      batch.
    labels: class numbers [N], or [N, L] for several labels per image, padded with -1. Only for
      arrays of images.
    columns: {name: values [N, ...]}, more facts about the images that some studies need, such as
      `group_id` and `offset` for sets of neighboring video frames. A `group_id` may be a number or
      a name.
    class_names: the names of the labels, in order. None takes the first model's names.
    seed: seed of all random numbers, in [0, 2**32).
    batch_size: images per compiled step. None chooses it by the size of the images.
    devices: JAX devices of this process. None takes all.
    workdir: folder for predictions, results and report. An interrupted call with the same folder
      resumes. None saves no files.
    progress: True shows progress bars, False shows nothing. None shows bars on a terminal and in a
      notebook, and elsewhere prints a line to stderr at most every 10 s.
    **settings: settings of the study, as listed in docs/studies. A section of settings is a
      dictionary: `attack={'pgd': {'steps': 20}}`. An attack may also be an object:
      `attacks=[PGD(steps=20)]`, with `PGD` from `robustness.attacks.pgd`.

  Returns:
    The results. The command `robustness` computes the same for the same study, classifiers, images
    and seed.

  Raises:
    InputError: an argument cannot be used; nothing is written.
  """
  if devices is not None:
    devices = [*devices] if isinstance(devices, Iterable) else [devices]
    local = jax.local_devices()
    if not devices or len({*devices}) < len(devices) or not {*devices} <= {*local}:
      raise InputError(f'devices is {devices}; it must be some of {local}, each once, or None.')
  with progress_bars.showing(progress):
    study_object = _study(study, settings)
    execution = parse(Execution, {'seed': seed, 'batch_size': batch_size or 0}, 'config')
    name, seed = study_object.name, execution.seed
    with progress_bars.phase(f'{name}: checking images, classifiers and the compiled step', 0):
      models = _named_models(model)  # checked before images are read, which may take long
      # a study of images alone takes no classifier
      is_valid, valid = not models, 'images alone: set model=None'
      if study_object.needs_classifier:
        fewest = study_object.fewest_classifiers
        is_valid, valid = len(models) >= fewest, f'at least {fewest} of them'
      if not is_valid:
        raise InputError(f'model has {len(models)} classifiers; {name} takes {valid}.')
      rows = as_rows(data, labels, _as_dict('columns', columns), _as_names(class_names), seed)
      rows, classifiers = _with_classifiers(rows, models)
      checks.check_study(study_object, rows, {c.name: c.provenance for c in classifiers}, execution)
      checks.check_classes(study_object, classifiers, rows)
      checks.check_step(study_object, execution, classifiers, rows)
    if workdir is not None:
      return launch.measure_in_workdir(study_object, execution, classifiers, rows, workdir, devices)
    # If the measurement fails, the folder is removed at once. Otherwise it is removed together with
    # the object that reads records from it.
    with contextlib.ExitStack() as stack:
      temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
      folder = pathlib.Path(stack.enter_context(temporary))
      results = measure_study(study_object, execution, classifiers, rows, folder, devices=devices)
      assert results.studies is not None
      remove_folder = stack.pop_all().close  # the end of `with` now leaves the folder
      weakref.finalize(results.studies()[SINGLE], remove_folder)
      return results


def _study(study: str | Study, settings: Mapping[str, Any]) -> Study:
  """Returns a study from its name and settings.

  A `Study` is returned unchanged. Attacks and other components in `settings` may be objects. An
  object is converted to its name and a dictionary of its settings: `{'attacks': [PGD(steps=20)]}`
  becomes `{'attacks': ('pgd',), 'attack': {'pgd': {'steps': 20, …}}}`.

  Raises:
    InputError: a `Study` comes with settings, or the name or a setting is unknown.
  """
  if isinstance(study, Study):
    if settings:
      raise InputError(f'{study.name} is an object: give {next(iter(settings))} to its class.')
    return study
  study_class = studies.STUDIES.find(study, 'study')
  values = dict(settings)  # with names in place of objects: {'attacks': ('pgd',)}
  objects: dict[str, Part] = {}  # by name: {'pgd': PGD(steps=20)}
  for key, value in settings.items():
    entries = value if isinstance(value, list | tuple) else [value]
    parts = [entry for entry in entries if isinstance(entry, Part)]
    if parts:
      objects |= {part.name: part for part in parts}
      values[key] = tuple(entry.name if isinstance(entry, Part) else entry for entry in entries)
  sections = study_class.chosen_parts(values) if objects else {}
  for section, classes in sections.items():  # such as 'attack' and {'pgd': PGD}
    if not isinstance(values.get(section, {}), Mapping):
      continue  # refused by `from_config`
    for name in classes.keys() & objects.keys():
      part, setting_names = objects[name], study_class.settings_of(classes[name])
      part_settings = {key: getattr(part, key) for key in setting_names}
      values[section] = {**values.get(section, {}), name: part_settings}
  return studies.from_config({'name': study, **values})


def _named_models(model: Any) -> list[Classifier | Model]:
  """Returns the models of `measure`, each with its name.

  Weights of a network that is given by its name are downloaded if they are missing.

  Args:
    model: one model, {label: model}, or None, as for `measure`.

  Raises:
    InputError: a model or its name is not valid, two have one name, or weights are missing.
  """
  if model is None:
    return []
  model_by_label = model if isinstance(model, Mapping) else {'': model}  # '' keeps its own name
  models = [_with_label(str(label), entry) for label, entry in model_by_label.items()]
  names = [entry.name if isinstance(entry, Classifier) else entry.label for entry in models]
  for name, entry in zip(names, models, strict=True):
    check_name('a classifier', name, is_key=False)
    if names.count(name) > 1:
      raise InputError(f'two models are called {name!r}: give each another name.')
    if isinstance(entry, Model) and isinstance(entry.module, str):
      _recipe_of(entry)  # raises if the weights are missing
  return models


def _with_label(label: str, model: Any) -> Classifier | Model:
  """Returns a model of any form as an object with the name `label`; '' keeps the model's name."""
  if isinstance(model, Classifier | Model):
    return dataclasses.replace(model, name=label or model.name)
  return Model(model, name=label)


def _with_classifiers(
  rows: Rows, models: Sequence[Classifier | Model]
) -> tuple[Rows, list[Classifier]]:
  """Returns the images, and the models as `Classifier` objects.

  Images without class names get the class names of the first classifier.

  Args:
    rows: the images with their labels.
    models: the models, each with its name.
  """
  first_image = as_float32(next(rows.batches(1, [0]))['image'])  # image 0, [1, H, W, C]
  classifiers = [as_classifier(model, first_image, rows.class_names) for model in models]
  if isinstance(rows, ArrayRows) and not rows.class_names and classifiers:
    rows = user_data.with_class_names(rows, classifiers[0].class_names)
  return rows, classifiers


def as_rows(
  data: Any, labels: Any, columns: Mapping[str, Any] | None, class_names: Sequence[str], seed: int
) -> Rows:
  """Returns images with their labels as `Rows`, from any form that `measure` takes.

  Args:
    data: images in any form that `measure` takes.
    labels: labels of the images. None if `data` has labels.
    columns: {name: values [N, ...]} for the N images, such as the clip of a video frame, or None.
    class_names: the names of the labels, in order; () for none.
    seed: seed of the random choice of images, where `data` asks for a random part of a data set.
  """
  if isinstance(data, Source):
    data = DataSettings(source=data)
  if isinstance(data, DataSettings):
    rows = input_pipeline.load(data, seed)
    groups = class_groups.from_settings(data, rows.class_names)
    data = class_groups.with_groups(rows, groups)  # with the column `class_group` if groups are set
  if not hasattr(data, 'training_batches'):  # which `Rows` have
    # names of sets of neighboring frames, in the column `group_id`, become numbers
    columns = with_numbered_sets(columns or {})
    return user_data.rows_of(data, labels, columns, class_names)
  if labels is not None or columns or class_names:
    raise InputError('these images have labels, columns and class names: leave such arguments out.')
  return data


def as_classifier(model: Any, images: np.ndarray, class_names: Sequence[str]) -> Classifier:
  """Returns a model of any form as a `Classifier`.

  Args:
    model: a `Classifier`, a `Model`, a network, a function, or a name such as 'resnet20'.
    images: example inputs, float32 [N, H, W, C] in [0, 1], which show the model's input shape.
    class_names: the names of the classes of the images; () if they have none.
  """
  model = _with_label('', model)
  if isinstance(model, Classifier):
    return model
  if isinstance(model.module, str):  # a name of the catalogue or timm:NAME
    height, width, channels = images.shape[1:]
    # the network takes images of this size; it does not choose another one
    input_images = Images((height, width, channels), tuple(class_names), has_set_size=True)
    classifier = _recipe_of(model).load(model.label, input_images, 'float32')
  else:
    classifier = model.classifier(images, class_names)
  return in_label_space(classifier, model.label_space, model.merge, class_names)


def _recipe_of(model: Model) -> ClassifierKind:
  """Returns the kind of classifier that loads a network by its name, such as 'resnet20'.

  Its weights are downloaded if they are missing.

  Raises:
    InputError: the network or its weights are unknown or missing, or an argument is not for a name.
  """
  defaults = Model(model.module)
  for key in ('channels', 'outputs', 'class_names'):
    if getattr(model, key) != getattr(defaults, key):
      raise InputError(f'{key} is for a module; {model.module!r} has its own: leave it out.')
  weights = model.variables
  if not isinstance(weights, str | os.PathLike | None):
    raise InputError(
      f'variables of {model.module!r} is a {type(weights).__name__}; give a file or a name of '
      'weights, or variables with the module itself.'
    )
  mean, std = tuple(model.mean or ()), tuple(model.std or ())
  section = ClassifierSettings(
    model.module, os.fspath(weights or ''), mean=mean, std=std, label_space=model.label_space
  )
  recipe = resolve_section(section)
  # the shape is only for input filters and attacks of trainings, which this section has not
  recipe.check(model.label, (1, 1, 1), 'float32')
  recipe.fetch()
  return recipe


@naming_arguments()
def compare(
  *results: Results | str | os.PathLike[str], baseline: str | None = None, common: bool = False
) -> Results:
  """Compares classifiers from several results of one study, paired by image.

  Args:
    *results: results of `measure` or `read`, or paths of finished workdirs. A path 'LABEL=PATH'
      renames the classifier of the workdir to LABEL. Classifiers with the same label in two
      workdirs are otherwise named after their folders.
    baseline: label of the classifier that is subtracted from the others. None takes the first.
    common: if true, results with different images are compared on the images that all share. If
      false, such results raise an error.

  Returns:
    Results with the accuracies on each perturbation, the differences from the baseline, and the
    study's estimates of all classifiers.

  Raises:
    InputError: there are fewer than two classifiers, two results have the same label, studies or
      images differ, or a folder is no finished workdir.
  """
  for entry in results:
    if not isinstance(entry, Results | str | os.PathLike):
      raise InputError(f'compare takes results and paths, each an argument, not {entry!r}.')
  if not results:
    raise InputError('compare needs at least two classifiers: give results, or paths of workdirs.')
  workdirs = [os.fspath(entry) for entry in results if not isinstance(entry, Results)]
  # {'LABEL=PATH' or 'PATH', as given: (name, path)}
  name_and_path = dict(zip(workdirs, named_workdirs(workdirs).items(), strict=True))
  result_labels: list[str] = []  # labels of classifiers in `Results`, not in workdirs
  # {name of the argument: {task: its study with records}}; a run of one study has one task
  studies_by_workdir: dict[str, Mapping[str, FinishedStudy]] = {}
  for index, entry in enumerate(results):
    if not isinstance(entry, Results):
      name, path = name_and_path[os.fspath(entry)]
      studies_by_workdir[name] = finished_workdir.read(path)
      continue
    if entry.studies is None:
      raise InputError(f'results of {entry.study} have no records: take those of measure or read.')
    result_labels += entry.classifier_labels
    # results have no folder that names them in messages, so the position among the arguments does
    studies_by_workdir[f'results[{index}]'] = entry.studies()
  # {task: its classifiers, each an entry with label and records}; labels from 'LABEL=PATH' apply
  entries_by_task = entries_of(studies_by_workdir, typed_labels(workdirs))
  for label in result_labels:
    if result_labels.count(label) > 1:
      raise InputError(f'two classifiers are called {label!r}: measure one as {{LABEL: model}}.')
  if baseline is not None:
    all_entries = itertools.chain(*entries_by_task.values())
    # raises SettingError unless the baseline is one of the labels
    choice('baseline', baseline, dict.fromkeys(entry.label for entry in all_entries))
    for entries in entries_by_task.values():
      # the baseline moves to the front, as False sorts before True; the others keep their order
      entries.sort(key=lambda entry: entry.label != baseline)
  comparison, _ = comparing.compare_tasks(entries_by_task, common)
  return comparison


def read(directory: str | os.PathLike[str]) -> Results:
  """Reads the results of a finished workdir.

  The returned object can also draw figures, write the report and read predictions.

  Args:
    directory: the folder of a run that has ended, or the folder `seed<n>` of one seed in it.

  Raises:
    InputError: the folder is no finished workdir, or a file is damaged.
  """
  path = expanded(directory).absolute()
  _, config, _ = finished_workdir.find(finished_workdir.run_folder(path))
  results = Results.read(path)
  studies_by_task, results.presentation = studies_and_presentation(path, results, config)
  if SINGLE in studies_by_task:  # files of earlier versions lack the declarations of facets
    results = results.with_facets(studies_by_task[SINGLE].described_facets)
  results.studies = functools.partial(finished_workdir.read, path)
  return results


@users_errors_refused()
def run(
  config: str,
  directory: str | os.PathLike[str],
  overrides: Mapping[str, Any] | None = None,
  *,
  progress: bool | None = None,
) -> Results:
  """Runs a config as the command `robustness` does, and returns the results.

  Args:
    config: a name with its variant ('fourier_heatmap:cifar10'), a file, or a workdir's config.json.
    directory: the workdir. A new folder, or a folder with an interrupted run of the same config,
      which resumes.
    overrides: {key: value}, such as {'study.norm': 4.0}.
    progress: whether progress bars are shown; None decides by the output, as in `measure`.

  Raises:
    InputError: the config, a key, the data or the workdir is not valid.
  """
  changes = [f'--config.{key}={value}' for key, value in _as_dict('overrides', overrides).items()]
  parsed, _ = command_line.read([f'--config={config}', *changes])
  assert parsed is not None
  with progress_bars.showing(progress):
    launch.run(parsed.to_dict(), directory, f'robustness.run({config!r}, ...)')
  return read(directory)  # with functions that draw figures and read records


@naming_arguments('images')
def train(
  network: Any,
  images: Any,
  labels: Any = None,
  *,
  policy: Sequence[Any] | Mapping[str, Any] = (),
  attack: str | Attack | None = None,
  objective: str | Objective | None = None,
  epochs: float,
  seed: int = 0,
  workdir: str | os.PathLike[str] | None = None,
  class_names: Sequence[str] | None = None,
  progress: bool | None = None,
  **settings: Any,
) -> Classifier:
  """Trains a network and returns the trained classifier.

  Args:
    network: the name of an architecture ('resnet20'), or a Linen module that is called as
      `module(images, train)`.
    images: training images, in any form that `measure` takes as `data`.
    labels: class numbers [N]. None if `images` has labels.
    policy: augmentations in order, each a name or an object; or {name: settings}, such as {'crop':
      {'padding': 2}}.
    attack: makes the adversarial examples to train on. None trains on the images themselves.
    objective: the loss. None takes the cross-entropy.
    epochs: number of passes over the images.
    seed: seed of initial weights, order and augmentation.
    workdir: folder for checkpoints. An interrupted call with the same folder resumes. None saves no
      checkpoints.
    class_names: the names of the labels, in order.
    progress: whether progress bars are shown; None decides by the output, as in `measure`.
    **settings: settings of `TrainingSettings`, such as `batch_size`, `learning_rate` and
      `validation`, except `measure` and `split`. The classifier settings `initial_weights` and
      `input_filter` can be set here too.

  Raises:
    InputError: an argument cannot be used, or the training diverged.
  """
  for key in ('measure', 'split'):
    if key in settings:
      raise InputError(
        f"train does not take {key!r}: call robustness.run(CONFIG, DIR, {{'training.{key}': ...}})."
      )
  execution = parse(Execution, {'seed': seed}, 'config')
  if isinstance(images, Source):
    images = DataSettings(source=images)
  rows = _training_rows(images, labels, _as_names(class_names), execution.seed)
  recipe = _training_recipe(
    network,
    rows.image_shape,
    {
      'augment': as_policy(policy),
      'attack': _part('attack', attack, Attack, ATTACKS),
      'objective': _part('objective', objective, Objective, OBJECTIVES) or CrossEntropy(),
      'input_filter': _part('input_filter', settings.pop('input_filter', None), InputFilter),
      # states where the images are from, if the input pipeline loads them
      'data': images if isinstance(images, DataSettings) else DataSettings(split=''),
      'seed': execution.seed,
    },
    {'epochs': epochs, **settings},
  )
  with contextlib.ExitStack() as stack:
    stack.enter_context(progress_bars.showing(progress))
    folder = expanded(workdir or stack.enter_context(tempfile.TemporaryDirectory()))
    if folder.exists() and not folder.is_dir():
      raise InputError(f'workdir is {str(folder)!r}, which is no folder: give a new or empty one.')
    # The experiment measures nothing, and has no report.
    experiment = Experiment(
      {}, '', recipe.data, recipe.training, {recipe.name: recipe}, execution, has_labels=False
    )
    builder = ClassifierBuilder(
      experiment,
      rows,
      open_rows=lambda _: rows,
      directory=folder / 'checkpoints',
      writer=lambda name: training_writer(folder, name) if workdir else NO_WRITER,
    )
    with progress_bars.phase(f'{recipe.name}: checking images and the training step', 0):
      _ = builder.checked_classifiers  # computing this property makes the checks
    stack.enter_context(locked(folder))
    return builder.build()[0]


def _training_rows(images: Any, labels: Any, class_names: Sequence[str], seed: int) -> Rows:
  """Returns the training images with their labels as `Rows`, the data set class of this package.

  Args:
    images: array [N, H, W, C], or a data set that `as_rows` takes, such as one of PyTorch.
    labels: int [N], or None if the data set has them.
    class_names: names of the classes. If empty, the classes of arrays are named '0', '1' and so on.
    seed: seed of the random numbers that depend on an image.
  """
  rows = as_rows(images, labels, None, class_names, seed)
  if not isinstance(rows, ArrayRows):
    return rows
  if not rows.class_names:
    rows = user_data.with_class_names(rows, numbered_classes(int(rows.labels.max()), 'the images'))
  # Without a digest, a workdir would resume a training on other arrays.
  arrays = {'images': rows.images, 'labels': rows.labels, **rows.columns}
  return dataclasses.replace(rows, facts={**rows.facts, 'sha256': digest(arrays)})


def _part(key: str, value: Any, kind: type, registry: Registry[Any] | None = None) -> Any:
  """Returns a part of a training, such as the attack, from an object, a name or None.

  Args:
    key: name of the argument, for messages.
    value: an object; a name in the registry, for the part with default settings; or None.
    kind: class of all valid objects, such as `Attack`.
    registry: the classes by name. None if the part cannot be given by name.

  Raises:
    InputError: the name is unknown, or the value is no such object.
  """
  if registry and isinstance(value, str):
    return registry.find(value, key)()
  if value is not None and not isinstance(value, kind):
    raise InputError(f'{key} is {value!r}; it must be an object of a class of {kind.__name__}.')
  return value


def _training_recipe(
  network: Any, image_shape: Sequence[int], fields: Mapping[str, Any], settings: dict[str, Any]
) -> TrainedHere:
  """Returns all settings of a training as the dataclass that configs use.

  Args:
    network: the name of an architecture, or a Linen module.
    image_shape: shape of the images, (H, W, C).
    fields: {name: value}, further fields of the result, such as its parts, its data and its seed.
    settings: settings of `TrainingSettings`. 'initial_weights' may be among them.

  Raises:
    InputError: the network or a setting cannot be used.
  """
  recipe_class: type[TrainedHere] = TrainedHere
  network_fields = {'name': network}
  if isinstance(network, nn.Module):
    recipe_class = TrainedModule
    network_fields = {'name': 'network', 'module': network, 'image_shape': image_shape}
    precision = settings.get('precision')
    require(not precision, 'precision', precision, "'' for a module: its layers have a dtype")
  elif not isinstance(network, str):
    raise InputError(
      f'network is a {type(network).__name__}; it must be a module of Linen or the name of an '
      'architecture.'
    )
  initial_weights = settings.pop('initial_weights', '')
  if not isinstance(initial_weights, str | os.PathLike):
    raise InputError(
      f'initial_weights is a {type(initial_weights).__name__}; give a folder of checkpoints, or of '
      'an architecture also a file or a name of weights.'
    )
  return recipe_class(
    train=True,
    initial_weights=os.fspath(initial_weights),
    training=parse(TrainingSettings, settings, 'config.training'),
    **fields,
    **network_fields,
  )


def as_policy(policy: Any) -> Policy:
  """Returns a `Policy`, a sequence of augmentations, from any form that `train` takes.

  Args:
    policy: a `Policy`; {name: settings}, such as `{'crop': {'padding': 2}}`; or an augmentation or
      a sequence of augmentations. Each augmentation is an object or a name. A name stands for the
      augmentation with default settings.

  Raises:
    InputError: an element is no augmentation.
  """
  if isinstance(policy, Mapping):
    return Policy.of(**policy)
  if isinstance(policy, Policy):
    return policy
  is_single = isinstance(policy, str) or not isinstance(policy, Iterable)
  parts: list[Augmentation] = []
  for entry in [policy] if is_single else policy:
    part = AUGMENTATIONS.find(entry, 'policy')() if isinstance(entry, str) else entry
    if not isinstance(part, Augmentation):
      raise InputError(f'policy has {part!r}; it takes names, such as "flip", and objects.')
    parts.append(part)
  return Policy(tuple(parts))


@naming_arguments()
@random_keys.pinned()
def attack(
  key: jax.Array | int,
  model: Any,
  images: jax.Array,
  labels: jax.Array,
  name: str,
  epsilon: float,
  *,
  norm: str = 'linf',
  **settings: Any,
) -> jax.Array:
  """Returns adversarial images, float32 [B, H, W, C] in [0, 1], at most ε from the images.

  `attack` works under `jax.jit`. A model that is not a JAX function is then converted at every
  compilation.

  Args:
    key: a random key or a seed. Image number b uses fold_in(key, b).
    model: a JAX function from images [B, H, W, C] in [0, 1] to logits, a `Classifier`, or another
      form of model that `measure` takes.
    images: float32 [B, H, W, C] in [0, 1].
    labels: the correct classes, int32 [B], or one class for all images. The attack moves
      predictions away from them.
    name: 'pgd', 'fgsm', 'auto_pgd', 'fab', 'fmn', 'ddn' (ℓ2), 'square', 'auto_attack', or
      `FILE.py:NAME`.
    epsilon: ε, radius of the ball around each image, for pixels in [0, 1].
    norm: 'linf', 'l2' or 'l1'. PGD and FGSM have no 'l1', and DDN has 'l2' only.
    **settings: settings of the attack, such as `steps`.

  Raises:
    InputError: the attack or a setting is unknown, the model has no gradient, images or labels are
      out of range, or a gradient is NaN. Traced values cannot be checked: under `jit`, an image
      with a NaN gradient becomes NaN.
  """
  images = as_images(images, (4,), 'attacks')
  logits = _logits_function(model, images)
  attack_class = ATTACKS.find(name, 'name')
  section = f'{attack_class.section}.{attack_class.name}'
  try:
    outputs = jax.eval_shape(logits, images)
  except jax.errors.JAXTypeError as error:  # a function of NumPy cannot be traced
    raise without_gradient(Model(model).label) from error
  shape: tuple[int, ...] = getattr(outputs, 'shape', ())
  has_classes = len(shape) > 1 and shape[1] > 0  # valid outputs are [B, classes]
  num_classes = shape[1] if has_classes else 1  # with 1, `check_logits` refuses other outputs
  check_logits('the model', outputs, len(images), num_classes)
  check_integers('labels', labels, (len(images),), range(num_classes))
  keys = jax.vmap(jax.random.fold_in, (None, 0))(as_key(key), jnp.arange(len(images)))
  with renaming_section(section, ''):  # errors name the settings as arguments, without the section
    refuse_unknown(settings, AttackError.settings_of(attack_class), section)
    parsed = parse(attack_class, {'norm': norm, 'epsilon': epsilon, **settings}, section)
    labels = jnp.broadcast_to(jnp.asarray(labels), len(images))
    attacked = without_global_draws(parsed.worst)(1, keys, logits, images, labels)  # 1 restart
  if not isinstance(attacked, jax.core.Tracer):
    invalid = np.flatnonzero(~np.isfinite(attacked).all((1, 2, 3)))
    if len(invalid):
      raise without_finite_gradient('the model', f'image {invalid[0]}')
  return attacked


def _logits_function(model: Any, images: jax.Array) -> Callable[[jax.Array], jax.Array]:
  """Returns a model as a function from images [B, H, W, C] to logits [B, classes].

  Args:
    model: a function, which is returned unchanged, or another form of model that `measure` takes.
    images: example inputs, which may be traced.
  """
  if not isinstance(model, Classifier | Model | str) and Model(model).library == 'function':
    return model
  with jax.ensure_compile_time_eval():  # a network is called to convert it, also under jit
    examples = np.random.default_rng(0).random((1, *images.shape[1:]), np.float32)
    if not isinstance(images, jax.core.Tracer):  # which has no values
      examples = np.asarray(images)
    network = as_classifier(model, examples, ())
  # `apply` returns (logits, outputs of layers)
  return lambda batch: network.apply(network.variables, batch, ())[0]


@naming_arguments('images')
@random_keys.pinned()
def apply_policy(
  key: jax.Array | int, images: jax.Array, labels: jax.Array, policy: Any
) -> tuple[jax.Array, jax.Array]:
  """Returns augmented images, and the labels or targets that belong to them.

  The images are float32 [B, H, W, C]. An augmentation such as 'augmix' returns several versions of
  each image, [B, V, H, W, C]: for AugMix, the image and two mixtures of it. `apply_policy` works
  under `jax.jit`.

  Args:
    key: a random key or a seed, from which every image gets its own key.
    images: float32 [B, H, W, C] in [0, 1].
    labels: int32 [B], or targets (class probabilities) float32 [B, classes]. Augmentations that mix
      images, such as mixup, need targets.
    policy: augmentations as in `train`, such as ['flip', 'crop'].

  Raises:
    InputError: an augmentation is unknown or needs targets instead of labels, or the images have
      another shape, are integers or are out of range. The range of traced images is not checked.
  """
  images = as_images(images, (4,), 'augmentations')
  array = as_array('labels', labels)
  is_class = array.ndim == 1 and jnp.issubdtype(array.dtype, jnp.integer)
  if not (is_class or array.ndim == 2) or len(array) != len(images):
    raise InputError(
      f'labels have the shape {array.shape} and are {array.dtype}; give an integer, or a row of '
      f'targets, for each of {len(images)} images.'
    )
  column, labels = 'label', jnp.asarray(array)
  if labels.ndim == 2:
    column, labels = 'target', labels.astype(jnp.float32)
  batch = {'image': images, column: labels, 'example_id': jnp.arange(len(images))}
  seed = jax.random.bits(as_key(key))  # a policy takes an integer seed
  try:
    augment = without_global_draws(as_policy(policy))
    augmented = augment(batch, seed, jnp.int32(0))  # training step 0
  except KeyError as error:  # an augmentation needs the column 'target', and there is 'label'
    fix = 'give targets [B, classes], such as jax.nn.one_hot(labels, classes), for labels'
    raise InputError(f'the policy needs the column {error}: {fix}.') from error
  return augmented['image'], augmented[column]
