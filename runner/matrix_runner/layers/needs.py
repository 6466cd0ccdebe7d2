"""A declaration of what a layer needs from the kernel, from programs and from the machine."""

from dataclasses import dataclass

from matrix_runner.base.quantities import format_size

_SIZES = 1024  # numbers from here on are sizes


@dataclass(frozen=True, slots=True)
class Need:
    """What all uses of a layer need, or those with some values of a key."""

    key: str = ""
    values: tuple[object, ...] = ()
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()  # names, each perhaps with the lowest version: `mdadm 4.6`
    linux: str = ""  # the lowest release of the kernel
    options: tuple[str, ...] = ()  # of the kernel's configuration, where no module shows them; without CONFIG_
    #: It makes devices that a part of a running system, such as a container, cannot see.
    own_kernel: bool = False
    processors: int = 0  # the kernel makes at most one queue for each
    package: str = ""  # a package that builds the modules, where the kernel does not have them

    @property
    def program_names(self) -> tuple[str, ...]:
        """Return its programs without versions."""
        return tuple(name.partition(" ")[0] for name in self.programs)

    def label(self, kind: str, value: object = None) -> str:
        """Return who needs it, as in a matrix: with one value, or with all for which it is declared."""
        if not self.key:
            return f"`{kind}`"
        values = self.values if value is None else (value,)
        texts = (format_size(one) if isinstance(one, int) and one >= _SIZES else str(one) for one in values)
        return f"`{kind}: {{{self.key}: {' or '.join(texts)}}}`"
