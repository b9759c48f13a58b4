"""Cue-conflict pictures, edges and silhouettes of 16 classes, as they were released.

`dataset` is one of

  cue_conflict   PATH/<shape>/<shape><n>-<texture><m>.png, 1280 pictures of a class's shape with the
                 texture of another class or of the same
  edge           PATH/<class>/<class><n>.png, 160 pictures
  silhouette     PATH/<class>/<class><n>.png, 160 pictures

The label is the shape, and the column `texture` the class of the texture. Rows are ordered by class
and file name.

Reference: Geirhos et al., ImageNet-trained CNNs are biased towards texture, ICLR 2019, and the
layout of the release of model-vs-human (Geirhos et al. 2021).
"""

import dataclasses
import re
from collections import Counter

import numpy as np

from input_pipeline.image_files import count_outside_classes, file_images, folders_in, images_in
from input_pipeline.images import Images
from input_pipeline.settings import DataSettings, Source
from robustness.core.errors import InputError
from robustness.core.registry import word
from robustness.models import label_space

NAME, TEXTURE = 'cue_conflict', 'texture'
"""The data set with conflicting cues, and its column of the texture's class."""
PUBLISHED = {NAME: 1280, 'edge': 160, 'silhouette': 160}
"""{data set: number of its published pictures}."""
_PICTURE = re.compile(r'([a-z]+)\d+(?:-([a-z]+)\d+)?\.png')
"""Name of a picture; its groups are the classes of shape and, for cue conflicts, of texture."""


@dataclasses.dataclass(frozen=True)
class CueConflict(Source):
  """Images with conflicting shape and texture, edges, or silhouettes.

  All have 16 classes.

  Attributes:
    path: folder with a folder for each class.
    dataset: 'cue_conflict', 'edge' or 'silhouette'.
    allow_missing: whether images may be missing.
  """

  splits = ('test',)

  path: str = ''
  dataset: str = word(NAME, PUBLISHED)
  allow_missing: bool = False

  def open(self, settings: DataSettings) -> Images:
    """Returns the images, in RGB, labelled by shape.

    For the data set 'cue_conflict' there is a column `texture`, the class of the texture.

    Raises:
      InputError: a file does not belong to the data set, or images are missing.
    """
    root = self.folder('give the folder that holds airplane, bear, ..., truck.')
    names = label_space.get(NAME).class_names
    left_out = Counter[str]()
    count_outside_classes(root, left_out)
    needs_texture = self.dataset == NAME
    valid_textures = names if needs_texture else (None,)
    paths, labels, textures = [], [], []
    for folder in folders_in(root).values():
      for path in images_in(folder, left_out=left_out):
        # cat7-elephant1.png has shape 'cat' and texture 'elephant', cat7.png has texture None
        match = _PICTURE.fullmatch(path.name)
        shape, texture = match.groups() if match else ('', None)
        if shape != folder.name or shape not in names or texture not in valid_textures:
          example = 'cat7-elephant1.png' if needs_texture else 'cat7.png'
          form = f'<class>/<picture>, such as cat/{example}, of the classes {", ".join(names)}'
          raise InputError(f'{path} is no picture of {self.dataset}: expected {form}.')
        paths.append(str(path))
        labels.append(names.index(shape))
        textures.append(texture)
    if not paths or (len(paths) != PUBLISHED[self.dataset] and not self.allow_missing):
      raise InputError(
        f'{root} has {len(paths)} pictures; {self.dataset} has {PUBLISHED[self.dataset]}: complete '
        f'it, or set {self.key("allow_missing")}=True for a part of it.'
      )
    return file_images(
      paths,
      np.array(labels, np.int32),
      names,
      title=f'{self.dataset} in {self.path}',
      description={'name': self.dataset, 'path': self.path},
      channels=3,
      columns={TEXTURE: np.array(textures)} if needs_texture else {},
      left_out=left_out,
    )
