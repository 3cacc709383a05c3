"""Objects of other libraries as what Linkwise works on, and results as the same kind of object."""
