"""What people declare, parsed once into frozen values; and the errors that say where a declaration is wrong."""
