"""Phrases for reports: the images of a run, its classifiers and how they were trained."""

import pathlib
from collections.abc import Mapping

from robustness.core.typing import Facts

_MAX_DATA = 3  # data sets of a battery that are written out
DATA_SETS = {
  'cifar10': 'CIFAR-10',
  'cifar100': 'CIFAR-100',
  'imagenet2012': 'ImageNet',
  'mnist': 'MNIST',
}
"""Names of data sets in papers, by their TFDS name."""


def words(name: str) -> str:
  """Returns a name with spaces: 'gaussian noise' for 'gaussian_noise'."""
  return name.replace('_', ' ')


def plural(count: int, noun: str) -> str:
  """Returns '1 figure' or '3 figures'."""
  return f'{count:,} {noun}{"" if count == 1 else "s"}'


def data_words(data: Facts) -> str:
  """Describes the images of a run, such as '100 images of digits, split test'.

  Different numbers of the same images are joined: '100 (clean) and 20 (attack) images of digits'.
  Scenes are counted as pairs: '20 pairs of an object and a background, composed to scenes of 512 ×
  512 pixels'.

  Args:
    data: facts about the images. For a battery (several studies) {task: facts about its images}.
  """
  if 'num_examples' not in data:  # of a battery
    return _battery_data_words(data)
  split = f', split {data["split"]}' if data.get('split') else ''
  shape = list(data.get('image_shape') or [])
  size = f'{shape[0]} × {shape[1]} pixels' if len(shape) > 1 else ''
  unit = 'frame' if data.get('perturbations') else 'image'  # of a sequence of perturbed images
  source = source_words(data)
  if data.get('num_backgrounds'):  # each row is a pair, and is shown as a scene at every level
    unit, source = 'pair', 'an object and a background'
    if size:
      size = f'composed to scenes of {size}'
  images = f'{plural(int(data["num_examples"]), unit)} of {source}{split}'
  return f'{images}, {size}' if size else images


def _battery_data_words(data: Facts) -> str:
  """Describes the images of a battery, such as '100 (clean) and 20 (attack) images of digits'.

  At most `_MAX_DATA` data sets are named.

  Args:
    data: {task: facts about its images}.
  """
  # {images: {count: tasks}}, such as {'images of digits': {'100': ['clean'], '20': ['attack']}}
  tasks_by_images: dict[str, dict[str, list[str]]] = {}
  for task, data_of_task in data.items():
    if isinstance(data_of_task, Mapping):
      count, _, images = data_words(data_of_task).partition(' ')  # '100', 'images of digits'
      tasks_by_images.setdefault(images, {}).setdefault(count, []).append(task)
  parts = []
  for images, tasks_by_count in tasks_by_images.items():
    counts = list(tasks_by_count)
    if len(counts) > 1:  # if all tasks have the same number of images, they need no names
      counts = [f'{count} ({", ".join(tasks)})' for count, tasks in tasks_by_count.items()]
    parts.append(f'{" and ".join(counts)} {images}'.rstrip())
  num_further = len(parts) - _MAX_DATA
  if num_further > 0:
    parts = [*parts[:_MAX_DATA], f'{num_further} further']
  return '; '.join(parts)


def source_words(data: Facts) -> str:
  """Returns the name of a set of images, such as 'CIFAR-10' or 'folder photos'.

  Args:
    data: the section `data` of results. Its key 'dataset', if present, is the name.
  """
  source, name = str(data.get('source') or ''), str(data.get('name') or '')
  data_set = name.split('/')[0]  # without version and config
  if source == 'tfds' and data_set in DATA_SETS:
    return DATA_SETS[data_set]
  if source == 'folder' and data.get('path'):
    name = pathlib.PurePath(str(data['path'])).name
  default = words(' '.join(filter(None, (source, name))))
  return str(data.get('dataset', default))


def classifier_facts(classifier: Facts) -> list[str]:
  """Describes a classifier by phrases, such as ['small cnn, trained here', '37 parameters'].

  They state its network and training, file, image size, number of parameters and SHA-256. If there
  are several seeds, the first is described, with the SHA-256 of all.
  """
  seeds = by_seed(classifier)
  first = seeds[0]
  facts = [classifier_words(first)]
  if file := first.get('file'):
    name = first.get('object')  # 'model' of 'net.py'; a file of weights has none
    facts.append(f'{name} of {file}' if name else file)
  if side := first.get('preprocessing', {}).get('input_size'):
    facts.append(f'made for {side} × {side} pixels')
  if count := first.get('parameters'):
    facts.append(f'{count:,} parameters')
  digests = [seed.get('sha256') or seed.get('file_sha256') for seed in seeds]
  if any(digests):
    short_digests = dict.fromkeys(digest[:12] for digest in digests if digest)  # equal ones once
    facts.append(f'SHA-256 {", ".join(short_digests)}')
  return facts


def classifier_words(classifier: Facts) -> str:
  """Describes a classifier in a phrase, such as 'small cnn, trained here'.

  If there are several seeds, the first is described.

  Args:
    classifier: facts about the classifier from results: its network, input filter, weights or
      training, and adaptation.
  """
  classifier = by_seed(classifier)[0]
  name = words(str(classifier.get('architecture') or classifier.get('name') or ''))
  if name and (part := classifier.get('input_filter')):
    name = f'{name} behind {_part_words(part)}'
  facts = [name] if name else []
  if classifier.get('weights') == 'trained here':
    facts.append(_training(classifier))
  elif classifier.get('weights'):
    facts.append(f'weights {classifier["weights"]}')
  if part := classifier.get('adaptation'):
    facts.append(f'adapting by {_part_words(part)}')
  if 'note' in classifier:
    facts.append(str(classifier['note']))
  return ', '.join(facts)


def by_seed(classifier: Facts) -> list[Facts]:
  """Returns the facts on each seed of a classifier, or `[classifier]` without seeds."""
  return list(classifier.get('seeds', {}).values()) or [classifier]


def _training(classifier: Facts) -> str:
  """Describes a training, such as 'trained here 100 steps on train with crop, pgd'.

  Args:
    classifier: facts about the classifier: its augmentations, attack and objective, each a section
      {'name': ..., settings}, and numbers such as its steps.
  """
  # Sections of the config that name an exchangeable part, such as {'name': 'crop', …}.
  parts = [*(classifier.get('augment') or ()), classifier.get('attack')]
  objective = classifier.get('objective')
  if objective and objective.get('name') != 'cross_entropy':
    parts.append(objective)
  texts = [_part_words(part) for part in parts if part]
  if column := classifier.get('balanced'):
    texts.append(f'batches balanced by {words(column)}')
  steps = f' {classifier["step"]:,} steps' if classifier.get('step') else ''
  split = f' on {classifier["training_split"]}' if classifier.get('training_split') else ''
  return f'trained here{steps}{split}' + (f' with {", ".join(texts)}' if texts else '')


def _part_words(part: Facts) -> str:
  """Describes a component of a training, such as 'gaussian (sigma 0.4)'.

  Its settings that are numbers other than 0 are listed. This example is for {'name': 'gaussian',
  'sigma': 0.4, 'clip': True}.
  """
  numbers = [
    f'{words(key)} {value:g}'
    for key, value in part.items()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value
  ]
  return words(str(part['name'])) + (f' ({", ".join(numbers)})' if numbers else '')
