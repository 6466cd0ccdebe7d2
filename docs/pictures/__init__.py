"""Pictures of the documentation, and the programs that draw them."""
