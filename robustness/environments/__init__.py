"""Environments E_k = T_k × C_k of systematic robustness: transforms, and the classes that see them.

`class_groups` says which classes belong to C_k, `transforms` what T_k does to an image, `rows`
gives every row the number of its class's group as the column `class_group`, `balance` an order in
which environments come equally often. The training shows T_k
to C_k alone (`robustness.augment.environment`), the study `systematic` shows it to all classes.

Reference:
  Omran & Schiele (2022), Towards Systematic Robustness for Scalable Visual Recognition, section 2.
"""
