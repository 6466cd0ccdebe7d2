"""The `matrix` command: from its first import on, Ctrl-C ends it without Python's traceback."""

import os
import signal


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
    from matrix_runner import cli  # takes most of the time until the command begins

    cli.main(begin)


if __name__ == "__main__":
    main()
