"""dm-crypt: one encrypted mapping on each device below."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema

from matrix_runner.base.model import Size
from matrix_runner.base.quantities import format_size
from matrix_runner.layers.base import BuildContext, DmView, Layer, Problem, View, mappings_of
from matrix_runner.layers.geometry import Below, Shape

MIB = 2**20
HEADERS = {"plain": 0, "luks1": 2 * MIB, "luks2": 16 * MIB}  # size of the header at the start of a device, by format
SECTORS = (512, 1024, 2048, 4096)
#: Flags in the names of dm-crypt, in the order of its table.
FLAGS = ("allow_discards", "same_cpu_crypt", "submit_from_crypt_cpus", "no_read_workqueue", "no_write_workqueue")


def _sector(value: int) -> int:
    if value not in SECTORS:
        raise ValueError("write 512B, 1KiB, 2KiB or 4KiB")
    return value


Sector = Annotated[Size, AfterValidator(_sector), WithJsonSchema({"enum": ["512B", "1KiB", "2KiB", "4KiB"]})]


class Crypt(Layer):
    """dm-crypt on every device below, with a fixed test key that is public."""

    kind: ClassVar[str] = "crypt"
    for_each: ClassVar[bool] = True
    noun: ClassVar[str] = "encrypted devices"
    also_called: ClassVar[Mapping[str, str]] = dict.fromkeys(("luks", "dmcrypt", "dm-crypt", "cryptsetup"), "crypt")
    maps: ClassVar[bool] = True
    programs: ClassVar[tuple[str, ...]] = ("cryptsetup", "dmsetup")
    modules: ClassVar[tuple[str, ...]] = ("dm_mod", "dm_crypt")  # the kernel loads ciphers on demand
    keeps_zeros: ClassVar[bool] = False  # zeros below read as noise above
    format: Literal["luks2", "luks1", "plain"] = Field(
        "luks2", description="header on the disk: luks2 has one of 16MiB, luks1 of 2MiB; plain has no header"
    )
    cipher: str = Field(
        "aes-xts-plain64",
        pattern=r"^[a-z0-9_]+(,[a-z0-9_]+)?(-[a-z0-9_:]+)+$",
        description="a cipher in the notation of cryptsetup",
    )
    key_size: Literal[128, 192, 256, 384, 512] | None = Field(
        None, description="bits of the key; if not given: 512 for xts, which uses two keys of 256, else 256"
    )
    sector_size: Sector = Field(512, description="unit of encryption; luks1 has only 512B")
    allow_discards: bool = Field(False, description="pass discards on to the devices below")
    same_cpu_crypt: bool = Field(False, description="encrypt on the CPU that sent the request")
    submit_from_crypt_cpus: bool = Field(
        False, description="submit writes directly, without a separate thread that sorts them"
    )
    no_read_workqueue: bool = Field(False, description="decrypt where the request ended")
    no_write_workqueue: bool = Field(False, description="encrypt where the request came from")

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        return {"sector_size": "luks1 has only sectors of 512B"} if values["format"] == "luks1" else {}

    @property
    def why_no_trims(self) -> str:
        return "" if self.allow_discards else "dm-crypt passes no trims on; write `allow_discards: true`"

    def resolve(self, below: Below) -> Self:  # noqa: ARG002
        return self.model_copy(update={"key_size": self.key_size or (512 if self._is_xts else 256)})

    @property
    def _is_xts(self) -> bool:
        return "-xts-" in self.cipher

    def problems(self, below: Below) -> Iterator[Problem]:
        if self._is_xts and self.key_size == 128:
            yield Problem("key_size", "xts halves the key: write 256 or 512")
        if not self._is_xts and self.key_size is not None and self.key_size > 256:
            yield Problem("key_size", "only xts, which halves the key, takes more than 256 bits")
        if self._header_size(below.devices[0]) + MIB > below.smallest:
            header = f"the header of {self.format} takes {format_size(HEADERS[self.format])}"
            yield Problem("format", f"{header}, but the smallest device has {format_size(below.smallest)}")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return tuple(
            replace(
                device,
                size=max(0, device.size - self._header_size(device)) // 4096 * 4096,
                sector=max(device.sector, self.sector_size),
            )
            for device in below.devices
        )

    def _header_size(self, device: Shape) -> int:
        # An upper bound: data begins at a full stripe as the kernel sees it; over nested arrays that is several.
        header = HEADERS[self.format]
        return header + 8 * (device.full_stripe or 0) if header else 0

    def views(self, context: BuildContext) -> tuple[View, ...]:
        mappings = mappings_of(self, context, self.format.upper())
        key_size = self.key_size or 0
        cipher = (f"--cipher={self.cipher}", f"--key-size={key_size}")
        sector = () if self.format == "luks1" else (f"--sector-size={self.sector_size}",)
        flags = {flag: getattr(self, flag) for flag in FLAGS}
        options = ("--allow-discards", *(f"--perf-{flag}" for flag in FLAGS[1:]))
        # 1000 iterations: the default strength would take an emulated processor minutes.
        derivation = (*(("--pbkdf=pbkdf2",) if self.format == "luks2" else ()), "--pbkdf-force-iterations=1000")
        view = CryptView(
            members=context.devices,
            tops=tuple(mapping.path for mapping in mappings),
            mappings=mappings,
            key=TEST_KEY[: key_size // 8] if self.format == "plain" else TEST_KEY,
            format=self.format,
            format_options=(f"--type={self.format}", *cipher, *sector, *derivation),
            open_options=(
                f"--type={self.format}",
                *((*cipher, *sector) if self.format == "plain" else ()),
                *(option for option, wanted in zip(options, flags.values(), strict=True) if wanted),
            ),
            cipher=self.cipher,
            key_size=key_size,
            sector_size=self.sector_size,
            flags=tuple((flag, "on" if wanted else "off") for flag, wanted in flags.items()),
        )
        return (view,)


#: The test key. It protects no data: it is the same everywhere, and every script shows it.
TEST_KEY = "matrix test key, not a secret.  " + "the second half of it, for xts. "


@dataclass(frozen=True, slots=True, kw_only=True)
class CryptView(DmView):
    kind: str = "crypt"
    key: str
    format: str
    format_options: tuple[str, ...]
    cipher: str
    key_size: int
    sector_size: int
    flags: tuple[tuple[str, str], ...]
