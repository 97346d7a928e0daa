"""One method of one paper a module, cited in its first line."""
