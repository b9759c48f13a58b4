"""TFDS builders of this project: importing this package registers them with TFDS.

`import input_pipeline.builders` lets `tfds.load`, `tfds.builder` and `tfds.list_builders` find
them; `tfds build NAME --imports=input_pipeline.builders` prepares one. It imports TensorFlow, TFDS
and JAX; `import input_pipeline` alone imports none of them. `docs/datasets.md` has a card for each.
"""

from input_pipeline.builders.corrupted import Corrupted
from input_pipeline.builders.held_out_environments import HeldOutEnvironments
from input_pipeline.builders.si_score_scenes import SiScoreScenes
from input_pipeline.builders.video_neighbors import VideoNeighbors

__all__ = ['Corrupted', 'HeldOutEnvironments', 'SiScoreScenes', 'VideoNeighbors']
