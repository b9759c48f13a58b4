"""Finds published weights in installed packages and downloads them from Hugging Face or PyTorch."""

import functools
import importlib.metadata
import importlib.util
import pathlib
from typing import NamedTuple

from absl import logging

from robustness.core import json_files
from robustness.core.errors import KEYS, InputError, importing, nearest
from robustness.core.paths import expanded
from robustness.models import catalog, preprocessing
from robustness.models.architecture import HF, LOCAL, PYPI, SOURCES, TIMM, Architecture, Weights
from robustness.models.preprocessing import CONFIG_FILE, WEIGHTS_FILE


class Fetched(NamedTuple):
  """A weights file on this machine, with its version.

  Attributes:
    path: the file.
    revision: version of the PyPI package, commit of the Hugging Face repository, or first digits of
      the SHA-256 in a torchvision file name. It is 'a local file' for a file of the user.
  """

  path: pathlib.Path
  revision: str


def resolve(weights: str, architecture: Architecture) -> Weights | None:
  """Finds the published weights that `config.classifier.weights` selects.

  Args:
    weights: '' for the architecture's default weights; a published name such as
      'timm:vgg16.tv_in1k'; or the path of a file. A file must have the file name of published
      weights, or state its preprocessing in its header or in a `config.json` in its folder.
    architecture: the network of the classifier.

  Returns:
    The description of the weights, or None for any other file.

  Raises:
    InputError: the published name is unknown, or the weights are for another architecture.
  """
  if not weights:
    return architecture.default_weights
  published = {**catalog.WEIGHTS, **{entry.name: entry for entry in architecture.weights}}
  source, _, identity = weights.partition(':')
  entry: Weights | None
  if weights in published:
    entry = published[weights]
  elif source == TIMM:
    entry = described_by_hub(identity)
  elif source in SOURCES:
    raise InputError(f'unknown weights {weights!r}: {nearest(weights, published)}')
  else:
    path = expanded(weights)
    same_file_name = [x for x in published.values() if pathlib.Path(x.file).name == path.name]
    # several published weights may have files of one name, which then identifies none
    entry = same_file_name[0] if len(same_file_name) == 1 else None
    if entry is None and path.exists():
      entry = preprocessing.record_of(path, architecture)
  if entry and entry.architecture != architecture.name:
    raise InputError(
      f'weights {weights!r} are of {entry.architecture!r}, and {KEYS.classifier}.'
      f'name is {architecture.name!r}: set {KEYS.classifier.name:--}={entry.architecture}'
    )
  return entry


@functools.lru_cache(maxsize=8)
def described_by_hub(name: str) -> Weights:
  """Returns the description of timm's weights `name`, read from Hugging Face.

  The description has the architecture, the file and the preprocessing of the images. The source is
  `config.json` of the repository.
  """
  fetched = from_hugging_face(f'timm/{name}', CONFIG_FILE, f'{TIMM}:{name}')
  return preprocessing.of_timm(name, json_files.read(fetched.path))


def fetch(weights: Weights) -> Fetched:
  """Returns the weights file, downloaded if necessary.

  Raises:
    InputError: a package is not installed or the hub cannot be reached; the message says what to
      download and the folder to put it in.
  """
  if weights.source == LOCAL:
    return Fetched(pathlib.Path(weights.package, weights.file), 'a local file')
  if weights.source in (TIMM, HF):
    return from_hugging_face(weights.package, weights.file, weights.name)
  return _from_package(weights) if weights.source == PYPI else _from_torch_hub(weights)


def _from_package(weights: Weights) -> Fetched:
  """Returns a weights file inside an installed Python package.

  Raises:
    InputError: the package or its file is missing.
  """
  spec = importlib.util.find_spec(weights.package.replace('-', '_'))  # found without an import
  folders = spec.submodule_search_locations if spec else None
  files = [pathlib.Path(folder, weights.file) for folder in folders or ()]
  present = next((file for file in files if file.is_file()), None)
  if present is None:
    raise InputError(
      f"{weights.name} is not installed: pip install '.[imagenet]' (or {weights.package}). "
      f'Without a network: unpack that wheel elsewhere and give its {weights.file} to each '
      f'classifier that needs it: {KEYS.classifier.weights:--}=FILE, or '
      f'{KEYS.classifier.initial_weights:--}=FILE to train it further.'
    )
  return Fetched(present, importlib.metadata.version(weights.package))


def from_hugging_face(repository: str, file: str, name: str) -> Fetched:
  """Downloads a file of a Hugging Face repository into huggingface_hub's cache.

  Args:
    repository: account and repository, such as 'timm/vgg16.tv_in1k'.
    file: path of the file in the repository.
    name: what needs the file, for messages.

  Returns:
    The file, with the commit of the repository as `revision`.

  Raises:
    InputError: huggingface_hub is not installed, or the file cannot be downloaded.
  """
  with importing(f"{name} needs huggingface_hub: pip install '.[hub]'"):
    from huggingface_hub import constants, hf_hub_download
  try:
    path = pathlib.Path(hf_hub_download(repository, file))
  except Exception as error:  # clients fail in their own ways; the cause is chained and quoted
    folder = pathlib.Path(constants.HF_HUB_CACHE, f'models--{repository.replace("/", "--")}')
    raise InputError(
      f'{name} could not be fetched ({type(error).__name__}). Where there is a network, run "hf '
      f'download {repository} {CONFIG_FILE} {WEIGHTS_FILE}", and copy the folder {folder.name} of '
      f'its cache to {folder}; or download https://huggingface.co/{repository}/resolve/main/'
      f'{WEIGHTS_FILE} and give {KEYS.classifier.weights:--}=FILE, with {KEYS.classifier.mean:--} '
      "and std unless they are its architecture's."
    ) from error
  return Fetched(path, path.parent.name)


def _from_torch_hub(weights: Weights) -> Fetched:
  """Downloads a weights file of torchvision into torch.hub's cache.

  Its SHA-256 must begin with the digits at the end of the file name.

  Raises:
    InputError: torch is not installed, or the file cannot be downloaded.
  """
  url = weights.package + weights.file  # torchvision's package is the URL of a folder
  needs = f"{weights.name} needs torch: pip install '.[torch]'"
  with importing(f'{needs}, or download {url} and convert it to .safetensors'):
    import torch
  target = pathlib.Path(torch.hub.get_dir(), 'checkpoints', weights.file)
  digest = target.stem.rpartition('-')[2]  # of a name such as resnet18-f37072fd.pth
  if not target.is_file():
    target.parent.mkdir(parents=True, exist_ok=True)
    logging.info('downloading %s from %s', weights.name, url)
    try:
      torch.hub.download_url_to_file(url, str(target), hash_prefix=digest, progress=False)
    except Exception as error:  # network and file system fail in many ways; the cause is quoted
      raise InputError(
        f'{weights.name} could not be fetched ({type(error).__name__}: {error}). '
        f'Download {url} where there is a network and put it at {target}'
      ) from error
  return Fetched(target, digest)
