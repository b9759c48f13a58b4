"""The object classes of SI-Score and their indices in ImageNet's order.

Objects come from OpenImages, with other names than ImageNet's: a pig is ImageNet's hog. Check the
pictures of one class: ImageNet's kite (21) is the bird, and OpenImages' may be the toy.

Reference: Yung et al., SI-Score, 2021, section 2; the class map of the released generator and
the class names of the TFDS data set `siscore`.
"""

from collections.abc import Mapping

from robustness.core.errors import InputError, nearest
from robustness.models import imagenet_names

_TABLE = """
ambulance 407; artichoke 944; backpack 414; bagel 931; banana 954; beaker 438; binoculars 447;
broccoli 937; burrito 965; candle 470; canoe 472; cello 486; cucumber 943; dumbbell 543;
envelope 549; flowerpot 738; flute 558; goose 99; guacamole 924; hamster 333; hedgehog 334;
hippopotamus 344; ipod 605; jeans 608; kite 21; koala 105; lemon 951; lighthouse 437;
limousine 627; lipstick 629; magpie 18; miniskirt 655; missile 657; mushroom 947; orange 950;
ostrich 9; otter 360; pig 341; pillow 721; pizza 963; pomegranate 957; pretzel 932; printer 742;
racket 752; ruler 769; saxophone 776; screwdriver 784; skunk 361; snowmobile 802; sock 806;
sombrero 808; starfish 327; strawberry 949; taxi 468; teapot 849; toaster 859; torch 862;
vase 883; wok 909; zebra 340; zucchini 939;
armadillo 363; balance beam 416; band-aid 419; bell pepper 945; billiard table 736;
brown bear 294; cheetah 293; cocktail shaker 503; common fig 952; computer mouse 673;
cowboy hat 515; diaper 529; digital clock 530; eraser 767; filing cabinet 553; frying pan 567;
golf ball 574; hair dryer 589; hair spray 585; hammer 587; harmonica 593; hot dog 934; ladle 618;
laptop 620; light switch 844; lynx 287; maracas 641; measuring cup 647; microwave oven 651;
mixing bowl 659; mobile phone 487; paper towel 700; pencil case 709; pitcher (container) 725;
plastic bag 728; polar bear 296; punching bag 747; red panda 387; remote control 761;
rugby ball 768; sea lion 150; seat belt 785; soap dispenser 804; spatula 813; studio couch 831;
teddy bear 850; tennis ball 852; toilet paper 999; traffic light 920; volleyball (ball) 890;
washing machine 897
"""


# The table has lines of 'name index; name index'; the last word of an entry is the index.
_ENTRIES = (' '.join(entry.split()).rpartition(' ') for entry in _TABLE.split(';'))
IMAGENET_INDEX: Mapping[str, int] = {name: int(index) for name, _, index in _ENTRIES}
"""{class of the released generator: its index in ImageNet's order}.

There are 112 classes; the released sets have the first 61.
"""


def imagenet_index(name: str, kind: str = 'class') -> int:
  """Returns the ImageNet class index, 0 to 999, for a class name or a WordNet identifier.

  Args:
    name: one of SI-Score's class names, for instance 'Bell pepper', or a WordNet identifier of
      ImageNet, for instance 'n07720875'. Case is ignored, and underscores may replace spaces.
    kind: what error messages call `name`, for example 'folder'.

  Raises:
    InputError: `name` is unknown. The message names the closest class.
  """
  plain_name = ' '.join(name.replace('_', ' ').lower().split())
  if plain_name in IMAGENET_INDEX:
    return IMAGENET_INDEX[plain_name]
  if plain_name in imagenet_names.WNIDS:
    return imagenet_names.WNIDS.index(plain_name)
  raise InputError(
    f'{kind} {name!r} is no class of SI-Score: {nearest(plain_name, IMAGENET_INDEX)}; or '
    "a WordNet identifier of ImageNet, such as 'n07693725'. Rename the class."
  )
