"""fio's job files: sections and options with lines, `include`, `${VAR}`; which options are refused or replaced."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from matrix_runner.base.findings import Place
from matrix_runner.work.fio.bounds import (
    Option,
    file_names,
    is_elsewhere,
    option_name,
    relative_name,
    relative_names,
)
from matrix_runner.work.fio.keys import FILE_ENGINES, NOT_ENGINES, OWNED, reason, refused

#: Keywords of `filename_format` in fio's order. A file's number and its job's cannot make another folder of a name.
_IN_NAMES = ("$jobname", "$jobnum", "$filenum", "$clientuid")
_LONGEST_NAME = 254  # fio cuts longer names of sections
_PATH_MAX = 4095  # fio's buffer for a name; each keyword uses some of it
DEEPEST = 10  # include files within include files
_LONGEST = 4000  # fio cuts longer lines, and reads the rest as the next line
MOST_SECTIONS = 1000
#: Of all job files of a matrix. A file counts each time that it is included.
MOST_LINES, MOST_TEXT = 20_000, 1 << 20
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
#: Names of variables that often hold a secret.
_SECRET = re.compile(r"^(MATRIX_|PG)|TOKEN|SECRET|PASS|CREDENTIAL|KEY")

#: fio has `bc` compute a value with a keyword. A loop in the language of `bc` would never end.
_KEYWORD = re.compile(r"\$(?:pagesize|mb_memory|ncpus)")
_COMPUTED = re.compile(rf"(?:{_KEYWORD.pattern}|[0-9][kmgtpKMGTP]?(?:i?[bB])?|[-+*/().,:% ])*")

#: Options of which each replaces the others.
_ALTERNATIVES = (
    frozenset({"bs", "bsrange", "bssplit"}),
    frozenset({"direct", "buffered"}),
    frozenset({"rwmixread", "rwmixwrite"}),
)
#: Options that the program sets itself, on devices and on files.
_COLLECTED = frozenset(
    {
        *("write_bw_log", "write_iops_log", "write_lat_log", "write_hist_log", "per_job_logs", "bandwidth_log"),
        *("lat_percentiles", "clat_percentiles", "slat_percentiles", "unified_rw_reporting", "randseed"),
        *("verify_dump", "verify_state_save", "allow_file_create", "directory", "output"),
        *("hipri", "hipri_percentage"),
    }
)
#: Options that end or shape a workload. In a workload map they have their own keys; a job file uses fio's names.
_ALLOWED = frozenset(
    {
        *("nrfiles", "filesize", "name", "filename_format", "create_only", "overwrite", "file_append", "fallocate"),
        *("rw", "rwmixwrite", "bs", "bsrange", "bssplit", "buffered", "ramp_time", "time_based", "offset", "runtime"),
        *("io_size", "loops", "fill_device", "group_reporting", "stats", "filename"),
    }
)
_NO_DISKS = ("/dev/shm/", "/dev/null", "/dev/zero", "/dev/full")  # noqa: S108
_REMOVES = frozenset({"unlink", "unlink_each_loop"})
_OF_FILES = frozenset({"filename_format", "nrfiles"})  # a device is one file; with copies of a job, fio aborts on more


def is_global(section: str) -> bool:
    """Return whether a section has options of all jobs, as fio compares its name."""
    return section.startswith("global")


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    options: tuple[Option, ...]

    @property
    def is_global(self) -> bool:
        return is_global(self.name)


Sections = tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file, with all that it includes. Two are equal if their sections are."""

    path: str = field(compare=False)
    sections: Sections

    def __str__(self) -> str:
        return self.path


@dataclass
class JobReader:
    """Reads job files and their includes, and collects their errors."""

    text_of: Callable[[str], str]  # raises OSError or UnicodeDecodeError
    environment: Mapping[str, str]
    texts: dict[str, str] = field(default_factory=dict)  # by path, with the variables filled in
    wrong: list[tuple[Place, str]] = field(default_factory=list)
    lines: int = 0
    size: int = 0  # characters

    def _is_full(self) -> bool:
        return self.lines > MOST_LINES or self.size > MOST_TEXT

    def read(self, path: str, user: Place) -> JobFile:
        sections: list[tuple[str, list[Option]]] = []
        self._read(path, user, sections, ())
        if path in self.texts and all(is_global(name) for name, _ in sections) and not self.wrong:
            self._refuse(Place(path, 1, 1), "a job file needs a section with a name, like [db]")
        if len(sections) > MOST_SECTIONS:
            self._refuse(Place(path, 1, 1), f"{len(sections):,} sections; at most {MOST_SECTIONS:,}")
        return JobFile(path, tuple(Section(name, tuple(options)) for name, options in sections))

    def _refuse(self, place: Place, message: str) -> None:
        self.wrong.append((place, message))

    def _read(
        self, path: str, user: Place, sections: list[tuple[str, list[Option]]], including: tuple[str, ...]
    ) -> None:
        if path in including:
            self._refuse(user, f"{path} includes itself")
            return
        if len(including) == DEEPEST:
            self._refuse(user, f"include files within include files: at most {DEEPEST} deep")
            return
        if path.endswith((".yaml", ".yml")):
            self._refuse(user, f"{path} is a YAML file, and not a job file of fio")
            return
        if self._is_full():  # and refused
            return
        try:
            text = self.text_of(path)
        except (OSError, ValueError) as error:
            self._refuse(user, why_unreadable(path, error))
            return
        lines = text.split("\n")
        self.lines, self.size = self.lines + len(lines), self.size + len(text)
        if self._is_full():
            limits = f"{MOST_LINES:,} lines or {MOST_TEXT >> 20} MiB"
            self._refuse(user, f"with {path}, the job files have more than {limits}; each include counts")
            return
        for number, line in enumerate(lines):
            place = Place(path, number + 1, 1)
            lines[number] = self._filled(line, place)
            self._line(lines[number], place, sections, (*including, path))
        self.texts[path] = "\n".join(lines)

    def _line(
        self, line: str, place: Place, sections: list[tuple[str, list[Option]]], including: tuple[str, ...]
    ) -> None:
        meant = _meant(line).replace("\t", " ")  # a line of our jobs has no tab
        if len(line.encode("utf-8", "surrogatepass")) > _LONGEST:
            self._refuse(place, f"fio cuts lines of more than {_LONGEST:,} characters; use several shorter options")
        elif any(ord(char) < 32 or ord(char) == 127 for char in meant):
            self._refuse(place, "control characters do not belong in a job file")
        elif meant.startswith("["):
            if len(including) > 1:
                self._refuse(place, "fio allows no new sections in included files")
            elif not meant.endswith("]") or len(meant) < 3:
                self._refuse(place, "a section is a name in brackets, like [db]")
            else:
                sections.append((meant[1:-1], []))
        elif meant and not sections:
            self._refuse(place, f"'{meant[:60]}' stands before the first section; write [global] above it")
        elif meant.startswith("include"):
            file = posixpath.join(posixpath.dirname(including[-1]), meant[len("include") :].strip())
            self._read(file, place, sections, including)
        elif meant:
            key, equals, value = meant.partition("=")
            sections[-1][1].append(Option(key.strip(), value.strip() if equals else None, place))

    def _filled(self, line: str, place: Place) -> str:
        def value_of(found: re.Match[str]) -> str:
            if _SECRET.search(found[1].upper()):
                remedy = "results keep the text of a job, so write the value or use another name"
                self._refuse(place, f"the variable {found[1]} may hold a secret; {remedy}")
                return ""
            value = self.environment.get(found[1])
            if value is None:
                self._refuse(place, f"the environment has no variable {found[1]}; set it, or write the value")
                return ""
            if re.search(r"[\x00-\x1f\x7f;#\ud800-\udfff]|\$\{", value):
                self._refuse(place, f"the variable {found[1]} has a character that a job file cannot hold")
                return ""
            return value

        meant, rest = _cut(line)
        return _VARIABLE.sub(value_of, meant) + rest


def why_unreadable(name: str, error: OSError | ValueError) -> str:
    """Return why a file beside a matrix cannot be read. A ValueError: not UTF-8, or not a possible file name."""
    if isinstance(error, FileNotFoundError):
        return f"there is no file {name}; paths are relative to the file that has them"
    return f"{name if name.isprintable() else repr(name)} cannot be read: {error}"


def _cut(line: str) -> tuple[str, str]:
    """Split a line at its comment."""
    at = min((line.find(sign) for sign in ";#" if sign in line), default=len(line))
    return line[:at], line[at:]


def _meant(line: str) -> str:
    return _cut(line)[0].strip()


def _replaced_by(name: str) -> frozenset[str]:
    return next((group for group in _ALTERNATIVES if name in group), frozenset({name}))


def split_key(key: str) -> tuple[str, str]:
    """Split `section.option` of `set`; without a section it is for all."""
    section, _, option = key.rpartition(".")
    return section, option


def with_values(sections: Sections, values: Mapping[str, str]) -> Sections:
    """Set options of all jobs, or of the jobs with one name."""
    for key, value in sorted(values.items(), key=lambda one: "." in one[0]):
        wanted, option = split_key(key)
        gone = _replaced_by(option_name(option))
        sections = tuple(_with_value(one, wanted, Option(option, value), gone) for one in sections)
    return sections


def _with_value(section: Section, wanted: str, option: Option, gone: frozenset[str]) -> Section:
    if wanted and section.name != wanted:
        return section
    kept = tuple(one for one in section.options if one.name not in gone)
    return replace(section, options=kept if section.is_global else (*kept, option))


def effective(sections: Sections) -> Iterator[tuple[str, dict[str, Option]]]:
    """Yield each job, by its option `name` or its section, with its options, those of [global] included."""
    common: dict[str, Option] = {}
    for section in sections:
        own = {} if section.is_global else dict(common)
        target = common if section.is_global else own
        for option in section.options:
            for other in _replaced_by(option.name):
                if option.name in {"direct", "buffered"} or other == option.name:
                    target.pop(other, None)
            target[option.name] = option
        if not section.is_global:
            names = [option.value or "" for option in section.options if option.name == "name"]
            yield (names or [section.name])[-1], own


def reported_names(sections: Sections) -> tuple[str, ...]:
    """Return the names of jobs in fio's JSON. A group with `group_reporting` has the name of its first job."""
    names: dict[str, None] = {}
    group, last = 0, -1
    for job, options in effective(sections):
        group += any(name in options and options[name].is_true for name in ("new_group", "stonewall"))
        if "stats" in options and not options["stats"].is_true:
            continue
        grouped = "group_reporting" in options and options["group_reporting"].is_true
        if not grouped or group != last:
            names[job] = None
        last = group
    return tuple(names)


def on_target(sections: Sections, *, in_files: bool) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return names and lines of the sections without the options that the program sets itself."""
    return tuple((one.name, tuple(_lines(one.options, in_files=in_files))) for one in sections)


def _lines(options: Iterable[Option], *, in_files: bool) -> Iterator[str]:
    for option in options:
        if is_ours(option.name):
            continue
        if option.name == "filename":
            if in_files:
                yield f"filename={relative_names(option.value or '')}"
        elif in_files or option.name not in _OF_FILES:
            yield str(option)


def devices_named(sections: Sections) -> tuple[tuple[str, ...], ...]:
    """Return the devices that each section names."""
    return tuple(
        tuple(
            name
            for option in section.options
            if option.name == "filename"
            for name in file_names(option.value or "")
            if name.startswith("/dev/") and not name.startswith(_NO_DISKS)
        )
        for section in sections
    )


def targets_of(sections: Sections) -> tuple[tuple[int, ...], ...]:
    """Return the devices of each section as numbers in the file's order; empty unless it names several devices."""
    named = devices_named(sections)
    numbers = {name: at for at, name in enumerate(dict.fromkeys(name for names in named for name in names))}
    return tuple(tuple(numbers[name] for name in names) for names in named) if len(numbers) > 1 else ()


def is_ours(name: str) -> bool:
    return name in _COLLECTED or name.startswith("log_")


def file_name(pattern: str, job: str) -> str | None:
    """Return the name of a job's first file as fio makes it; None if its buffer is too small, or it never ends."""
    left = _PATH_MAX
    for keyword, value in zip(_IN_NAMES, (job, "0", "0", ""), strict=True):
        while found := re.search(re.escape(keyword), pattern, re.IGNORECASE | re.ASCII):
            left -= len((pattern[: found.start()] + value).encode(errors="surrogatepass"))
            if left < 0:
                return None
            pattern = pattern[: found.start()] + value + pattern[found.end() :]
    return pattern if len(pattern.encode(errors="surrogatepass")) <= _PATH_MAX else None


def misnamed(sections: Sections, *, in_files: bool) -> Iterator[tuple[Section, str]]:
    """Yield the sections of which the name or its files are not possible, and why."""
    common = ""
    for section in sections:
        patterns = [option.value or "" for option in section.options if option.name == "filename_format"]
        pattern = (patterns or [common])[-1]
        if section.is_global:
            common = pattern
        elif len(section.name.encode(errors="surrogatepass")) > _LONGEST_NAME:
            yield section, f"fio cuts names of more than {_LONGEST_NAME} bytes; write a shorter one"
        elif in_files:
            name = file_name(pattern or "$jobname.$jobnum.$filenum", section.name)
            if name is None:
                yield section, "fio cannot make the name of its file from `filename_format`; write a shorter one"
            elif ".." in (*name.split("/"), *section.name.split("/")):
                yield section, f"its file would be {name[:60]}, outside of the layout; write another name"


_PLACES = "fio must not read or write beside the top of the layout"


def why_refused(option: Option, *, in_files: bool) -> str:
    """Return why a job cannot have this option; empty if it can."""
    name, value = option.name, option.value or ""
    if _KEYWORD.search(value) and not _COMPUTED.fullmatch(value):
        return f"'{value[:60]}': beside $pagesize, $mb_memory and $ncpus only numbers and + - * / ( ) are possible"
    if name == "ioengine":
        return _why_no_engine(value)
    if name in _REMOVES:
        return "" if in_files or not option.is_true else "`unlink` would remove the node of a device"
    if name == "filename" and in_files and any(relative_name(one) in {"-", ""} for one in file_names(value)):
        return f"'{value[:60]}' is not the name of a file"
    if name == "filename_format" and is_elsewhere(value):
        return f"`{name}` must stay in the directory of the layout"
    if name in {"dp_scheme", "dataplacement"}:
        return f"`{name}` is not allowed in a job file: {_PLACES}"
    if is_ours(name) or name in _ALLOWED:
        return ""
    if (why := refused(name, value)) is None:
        return ""
    return f"`{option.key}` is not allowed in a job file: {reason(name)}" if name in OWNED else why


def _why_no_engine(value: str) -> str:
    name = value.partition(":")[0]
    if value in FILE_ENGINES:
        return ""
    why = NOT_ENGINES.get(name, "is not one of fio's engines for disks and files")
    return f"ioengine={value[:60]}: this engine {why}; use one of {', '.join(FILE_ENGINES)}"
