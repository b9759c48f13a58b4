"""Tables from ImageNet's 1000 classes onto the classes of two video data sets.

A line is a class, its WordNet identifier (of the synset whose hyponyms it collects, or '') and the
positions of its members in ImageNet's order. A class without members cannot be predicted.

Reference: Shankar et al., Do Image Classifiers Generalize Across Time?, 2021 (the released
class maps: 288 ImageNet classes for ImageNet-Vid, 231 for YouTube-BB).
"""

from __future__ import annotations

Entry = tuple[str, str, str]

IMAGENET_VID: tuple[Entry, ...] = (
  ('airplane', 'n02691156', '404'),
  ('antelope', 'n02419796', '351-353'),
  ('bear', 'n02131653', '294-297'),
  ('bicycle', 'n02834778', '444 671'),
  ('bird', 'n01503061', '7-24 80-100 127-146'),
  ('bus', 'n02924116', '654 779 874'),
  ('car', 'n02958343', '407 436 468 511 609 627 656 661 751 817'),
  ('cattle', 'n02402425', '345'),
  ('dog', 'n02084071', '151-268'),
  ('domestic_cat', 'n02121808', '281-285'),
  ('elephant', 'n02503517', '385-386'),
  ('fox', 'n02118333', '277-280'),
  ('giant_panda', 'n02510455', '388'),
  ('hamster', 'n02342885', '333'),
  ('horse', 'n02374451', '339'),
  ('lion', 'n02129165', '291'),
  ('lizard', 'n01674464', '38-48'),
  ('monkey', 'n02484322', '370-382'),
  ('motorcycle', 'n03790512', '665'),
  ('rabbit', 'n02324045', '330 332'),
  ('red_panda', 'n02509815', '387'),
  ('sheep', 'n02411705', '348'),
  ('snake', 'n01726692', '52-68'),
  ('squirrel', 'n02355227', '335'),
  ('tiger', 'n02129604', '292'),
  ('train', 'n04468005', '466'),
  ('turtle', 'n01662784', '33-37'),
  ('watercraft', 'n04530566', '403 472 484 510 554 576 625 628 724 780 814 833 871 913-914'),
  ('whale', 'n02062744', '147-148'),
  ('zebra', 'n02391049', '340'),
)

YOUTUBE_BB: tuple[Entry, ...] = (
  ('person', 'n00007846', '981-983'),
  ('bird', 'n01503061', '7-24 80-100 127-146'),
  ('bicycle', 'n02834778', '444 671'),
  ('boat', 'n02858304', '472 554 576 625 814 914'),
  ('bus', 'n02924116', '654 779 874'),
  ('bear', 'n02131653', '294-297'),
  ('cow', '', ''),
  ('cat', 'n02121620', '281-287'),
  ('giraffe', 'n02439033', ''),
  ('potted plant', 'n11669921', '985-986'),
  ('horse', 'n02374451', '339'),
  ('motorcycle', 'n03790512', '665'),
  ('knife', 'n03623556', '499 623'),
  ('airplane', 'n02691156', '404'),
  ('skateboard', 'n04225987', ''),
  ('train', 'n04468005', '466'),
  ('truck', 'n04490091', '555 569 675 717 734 864 867'),
  ('zebra', 'n02391049', '340'),
  ('toilet', '', ''),
  ('dog', 'n02084071', '151-268'),
  ('elephant', 'n02503517', '385-386'),
  ('umbrella', 'n04507155', '879'),
  ('none', '', ''),
  ('car', 'n02958343', '407 436 468 511 609 627 656 661 751 817'),
)
