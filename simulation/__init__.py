"""A cluster in one process, from one seed: time, network, disks and metadata are simulated."""
