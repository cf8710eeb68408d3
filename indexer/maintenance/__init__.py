"""Taking care of an index that exists: what is in it, copies of it, and several made one."""
