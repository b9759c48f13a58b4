"""Any TensorFlow Datasets name with an image and a label.

`example_id` is the position in the order of the prepared files. Small splits (CIFAR, MNIST) are
kept in memory, still encoded, and shuffled by a full permutation, the same as of rows in memory.
Larger ones are streamed, see `input_pipeline.tfds_sets`.

Corrupted images, in a single config, are images like all others here; `tfds_corrupted` reads
several configs as the parts of one stored set. Neither crops them again for a classifier.
"""

from __future__ import annotations

from input_pipeline.images import Images, Store
from input_pipeline.settings import DataSettings, Source

MAX_EXAMPLES_IN_MEMORY, MAX_BYTES_IN_MEMORY = 100_000, 2**30


class Tfds(Source):
  """Any TensorFlow Datasets name with an image and a label."""

  def open(self, settings: DataSettings) -> Images:
    """See `Source`; downloaded if need be."""
    from input_pipeline import tfds_sets

    builder = tfds_sets.prepared_builder(settings.name, settings.data_dir)
    _, names = tfds_sets.check_features(builder)
    split = tfds_sets.Split(builder, settings.split)
    store: Store = tfds_sets.SplitsStore([split])
    if (
      split.num_examples <= MAX_EXAMPLES_IN_MEMORY
      and int(builder.info.dataset_size) <= MAX_BYTES_IN_MEMORY
    ):
      store = split.in_memory()
    title = f'tfds {settings.name!r}, split {settings.split!r}'
    return Images(
      title=title,
      description={'name': builder.info.full_name, 'split': settings.split},
      num_examples=split.num_examples,
      class_names=names,
      store=store,
      where=lambda index: f'{title}, example {index}',
      cropped=tfds_sets.stored_part(builder) is not None,
      **split.image_fields,
    )
