"""The only door to the outside world: time, tasks, files, sockets, configuration, metrics."""
