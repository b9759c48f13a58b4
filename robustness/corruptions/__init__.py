"""The 19 common corruptions of ImageNet-C and CIFAR-10-C as pure functions on the device."""
