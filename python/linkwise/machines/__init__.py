"""What a machine is in Python: descriptions, profiles, the catalogue of described machines, and this one."""
