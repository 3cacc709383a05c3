"""Converting objects of other libraries to what Linkwise works on, and results back to the same kind of object."""
