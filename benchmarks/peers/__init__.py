"""Other people's engines (and ours, the same way) behind one small protocol, a process each."""
