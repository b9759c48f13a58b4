"""Source `array_record`: a TFDS data set in ArrayRecord files, which are read at any index.

`path` is the folder with `dataset_info.json` and `features.json`. The package array-record reads
the files. An example has the features `image` and `label`; further features that are numbers or
strings become columns of the rows. `example_id` is the index in the files of the split.
"""

import dataclasses
from collections import Counter
from typing import Any

import pandas as pd

from input_pipeline import image_files, shards
from input_pipeline.images import Images, PartsStore
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import KEYS, InputError
from robustness.core.paths import expanded


@dataclasses.dataclass(frozen=True)
class ArrayRecord(Source):
  """A prepared TFDS data set in ArrayRecord files.

  Attributes:
    path: folder of a version of the data set, such as NAME/CONFIG/1.0.0.
  """

  name = 'array_record'

  path: str = ''

  def splits_overlap(self, split: str, other_split: str) -> bool:
    """Returns whether two splits have an image in common.

    Both may be slices, such as 'train[:10%]'.
    """
    from input_pipeline import tfds_sets

    builder = tfds_sets.builder_in(expanded(self.path))
    return tfds_sets.share_examples(builder, split, other_split)

  def open(self, settings: DataSettings) -> Images:
    """Opens a TFDS data set of ArrayRecord files, with images that are decoded on demand.

    Labels and all further columns are read into memory at once.

    Args:
      settings: settings of the data, of which the split is used here.

    Raises:
      InputError: the folder is no data set of this format, or a package is missing.
    """
    import tensorflow_datasets as tfds

    from input_pipeline import tfds_sets

    folder = self.folder('give the folder with dataset_info.json and features.json.')
    if not (folder / 'dataset_info.json').is_file():
      problem = f'{folder} holds no dataset_info.json{image_files.looks_like(folder)}'
      raise InputError(f'{problem}; give the folder of a version, such as NAME/CONFIG/1.0.0.')
    builder = tfds_sets.builder_in(folder)
    _, names = tfds_sets.check_features(builder)
    num_examples = tfds_sets.Split(builder, settings.split).num_examples
    decoders = {'image': tfds.decode.SkipDecoding()}
    try:
      examples = builder.as_data_source(settings.split, decoders=decoders)
      table = pd.DataFrame([_without_image(examples[i]) for i in range(num_examples)])
    except NotImplementedError as error:
      raise InputError(
        f'{folder} holds {builder.info.file_format.value} files, which are read with '
        f'{KEYS.data.source}="tfds" and {KEYS.data.tfds.dataset}={builder.info.name!r}.'
      ) from error
    except ImportError as error:
      problem = f'{KEYS.data.source}="array_record" needs array-record'
      raise InputError(f'{problem}: pip install array-record.') from error
    left_out = Counter[str]()
    title = f'array_record {self.path!r}, split {settings.split!r}'
    labels, _ = shards.labels_of(table, 'label', names, title)
    return shards.encoded_images(
      PartsStore(lambda part, index: examples[index]['image'], labels),
      names,
      title,
      {'path': self.path, 'split': settings.split, 'name': builder.info.full_name},
      columns=shards.columns_of(table, (), left_out),
      left_out=left_out,
    )


def _without_image(example: dict[str, Any]) -> dict[str, Any]:
  """Returns the features of an example except `image`, with bytes decoded to str."""
  return {
    name: value.decode() if isinstance(value, bytes) else value
    for name, value in example.items()
    if name != 'image'
  }
