"""A package of data: a pack that is added to the main one."""
