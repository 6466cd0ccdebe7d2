"""Claims on figures, and what trials say of them: values in, verdicts out."""
