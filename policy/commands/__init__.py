"""The commands of `policy`: one module a command, with `add(parser)` for its options and `run(options)` for its work."""
