"""From a model's name to a model folder: alias, folder, cache, hub, export on first use."""
