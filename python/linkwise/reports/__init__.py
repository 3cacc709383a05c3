"""Reports and profiles for people: terminal, HTML, drawings, traces."""
