"""The `matrix` command: from its first import on, Ctrl-C ends it without Python's traceback."""

import gc
import os
import signal

_OF_START = 200_000  # objects that the start of a command makes at most; nearly all of them stay


def _collect_later() -> None:
    """Look for unused objects only after the start, then as Python usually does: that takes a tenth of the start."""
    usual = gc.get_threshold()

    def as_usual(*_: object) -> None:
        gc.set_threshold(*usual)
        gc.callbacks.remove(as_usual)

    gc.set_threshold(_OF_START)
    gc.callbacks.append(as_usual)


def main() -> None:
    def end(*_: object) -> None:
        os.write(2, b"\ninterrupted\n")
        os._exit(130)  # an exception would run through half-imported modules

    def begin() -> None:
        import orjson  # noqa: F401 - Python crashes if an exception interrupts its import

        if signal.getsignal(signal.SIGINT) is end:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if it is ignored, as by `nohup`
        signal.signal(signal.SIGINT, end)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching for them takes long
    _collect_later()
    from matrix_runner import cli  # takes most of the time until the command begins

    cli.main(begin)


if __name__ == "__main__":
    main()
