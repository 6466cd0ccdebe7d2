"""The comment on a pull request: one for each artifact, written again by later jobs, and never a failure of the job."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.workflows.emulator import Job, environment
from tests.workflows.nights import contexts, obeyed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.workflows.checkouts import Recorder


TOKEN = "secret"  # noqa: S105 - of a stand-in


class GitHub:
    """The comments of one pull request."""

    def __init__(self, comments: list[str], *, refuses: bool = False, breaks: bool = False) -> None:
        self.comments, self.refuses, self.breaks = comments, refuses, breaks
        self.strangers = set[int]()  # comments of users without rights; others are of programs
        self.calls: list[str] = []

    @contextmanager
    def serve(self) -> Iterator[str]:
        with ThreadingHTTPServer(("127.0.0.1", 0), self._handler()) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()

    def answer(self, method: str, path: str, body: str, host: str) -> Any:
        self.calls.append(f"{method} {path}")
        if method == "POST":
            self.comments.append(body)
        elif method == "PATCH":
            self.comments[int(path.rpartition("/")[2])] = body
        page = int(path.rpartition("page=")[2]) if "page=" in path else 1
        listed = list(enumerate(self.comments))[100 * (page - 1) : 100 * page]
        return [
            {
                "body": one,
                "url": f"http://{host}/comments/{at}",
                "user": {"type": "User" if at in self.strangers else "Bot"},
                "author_association": "NONE",
            }
            for at, one in listed
        ]

    def _handler(github) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.headers["Authorization"] == f"Bearer {TOKEN}"
                content = self.rfile.read(int(self.headers["Content-Length"] or 0))
                body = json.loads(content)["body"] if content else ""
                self.send_response(403 if github.refuses else 200)
                if github.breaks:  # its answer is cut short
                    self.send_header("Content-Length", "1000000")
                self.end_headers()
                self.wfile.write(
                    json.dumps(github.answer(self.command, self.path, body, self.headers["Host"])).encode()
                )

            do_POST = do_PATCH = do_GET  # noqa: N815 - names of http.server

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def pull_request(recorder: Recorder, github: GitHub, token: str = TOKEN, event: str = "pull_request") -> Job:
    known = contexts(event)
    known["github"]["event"] = {**known["github"]["event"], "pull_request": {"number": 7}}
    with github.serve() as address:
        env = environment(recorder.temp, GITHUB_API_URL=address, GITHUB_REPOSITORY="lab/matrix")
        job = Job(recorder.checkout, recorder.temp, {}, env, known)
        given = {"matrix": "small.yaml", "machine": "dry", "comment-token": token}
        job.run([{"uses": "./", "with": given}])
    return job


def test_later_jobs_write_the_comment_again(recorder: Recorder) -> None:
    github = GitHub(["a review", *["x"] * 150])
    job = pull_request(recorder, github)
    assert job.status == "success", job.log
    assert github.calls[-1] == "POST /repos/lab/matrix/issues/7/comments"
    assert github.comments[-1] == "<!-- matrix matrix -->\nall figures\n"
    github.comments.append("thanks")
    pull_request(recorder, github)
    assert github.calls[-1] == "PATCH /comments/151"
    assert len(github.comments) == 153
    assert github.comments[0] == "a review"


def test_a_summary_is_not_put_into_the_comment_of_a_stranger(recorder: Recorder) -> None:
    """Its author could change the figures later."""
    github = GitHub(["<!-- matrix matrix -->\nmine"])
    github.strangers = {0}
    assert pull_request(recorder, github).status == "success"
    assert github.comments == ["<!-- matrix matrix -->\nmine", "<!-- matrix matrix -->\nall figures\n"]


@pytest.mark.parametrize(("token", "event"), [("", "pull_request"), (TOKEN, "schedule")])
def test_without_a_token_or_a_pull_request_there_is_no_comment(recorder: Recorder, token: str, event: str) -> None:
    github = GitHub([])
    pull_request(recorder, github, token, event)
    assert github.calls == []


@pytest.mark.parametrize("how", ["refuses", "breaks"])
def test_a_refused_comment_is_a_warning(recorder: Recorder, how: str) -> None:
    job = pull_request(recorder, GitHub([], **{how: True}))
    assert job.status == "success"
    assert [line for line in obeyed(job.log) if line.startswith("::warning title=no comment::")]
    assert TOKEN not in job.log
