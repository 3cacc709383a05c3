"""The applications of proactive transfers (proact21 §IV-C): their data, references and runs."""
