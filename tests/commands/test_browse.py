"""``browse``: past results as a page, over HTTP and in a browser."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from ssbench.cli.master import main
from ssbench.commands import browse as browse
from ssbench.commands.browse import BrowseSite, ResultsFolder
from ssbench.core.text import printable
from ssbench.live.web import WebServer
from tests.cli.shell import Shell
from tests.e2e.commands import until
from tests.servers.browser import browser

GOLDEN = Path(__file__).parents[1] / "golden" / "format-1"
HOSTILE = "<img src=x onerror=\"document.title='stolen'\">&\x1b[2J\udcff.stat.gz"
KEY = quote(HOSTILE, safe="", errors="surrogateescape")  #: as links have it


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two runs, one with a hostile name; a damaged one, one that is written, and other files."""
    place = tmp_path / "results"
    place.mkdir()
    shutil.copy(GOLDEN / "gold.stat.gz", place)
    shutil.copy(GOLDEN / "silver.stat.gz", place / HOSTILE)
    shutil.copy(GOLDEN / "damaged.stat.gz", place)
    shutil.copy(GOLDEN / "healthy.stat.gz", place / "running.stat.gz")
    (place / "cut.stat.gz").write_bytes((GOLDEN / "gold.stat.gz").read_bytes()[:2000])
    (place / "rubbish.stat.gz").write_bytes(b"\x1f\x8brubbish")
    (place / "empty.stat").touch()
    (place / "notes.txt").write_text("not listed")
    (tmp_path / "secret.stat.gz").write_bytes((GOLDEN / "gold.stat.gz").read_bytes())
    (place / "link.stat.gz").symlink_to(tmp_path / "secret.stat.gz")
    (place / "deeper.stat").mkdir()
    return place


@pytest.fixture
def server(folder: Path) -> Iterator[WebServer]:
    site = BrowseSite(ResultsFolder(str(folder)))
    found = WebServer(("127.0.0.1", 0), site)
    yield found
    found.close()


def get(server: WebServer, path: str, **headers: str) -> tuple[int, str]:
    url = urlsplit(server.url)
    connection = HTTPConnection("127.0.0.1", url.port or 0, timeout=60)
    cookie = f"{server.cookie}={server.token}"
    connection.request("GET", path, headers={"Host": url.netloc, "Cookie": cookie, **headers})
    with connection.getresponse() as response:
        return response.status, response.read().decode()


def listed(server: WebServer) -> str:
    """The list, once all files were looked at."""
    until("a list of all files", lambda: "Reading stat files" not in get(server, "/")[1])
    return get(server, "/")[1]


def test_runs_are_listed_by_when_they_started(tmp_path: Path) -> None:
    """Not by when their files were copied; of a file that cannot be read no start is shown."""
    for age_s, name in enumerate(("healthy", "gold", "silver", "damaged")):
        shutil.copy(GOLDEN / f"{name}.stat.gz", tmp_path)
        os.utime(tmp_path / f"{name}.stat.gz", (2e9 - age_s, 2e9 - age_s))
    (tmp_path / "empty.stat").touch()
    os.utime(tmp_path / "empty.stat", (3e9, 3e9))
    files = ResultsFolder(str(tmp_path))
    files.read_all()
    rows = [browse._row(each) for each in files.files()]
    dates = [row["date"] for row in rows]
    assert dates == ["", *sorted(dates[1:], reverse=True)]
    assert len(set(dates)) > 2


def test_a_file_that_goes_away_meanwhile_hides_no_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, scandir = ResultsFolder(str(folder)), os.scandir
    names = {each.name for each in results.files()}

    def scan_and_delete(path: str) -> closing[Iterator[os.DirEntry[str]]]:
        entries = [*scandir(path)]
        gone = next(each.name for each in entries if each.name in names)
        os.unlink(folder / gone)
        names.discard(gone)
        return closing(each for each in entries)

    monkeypatch.setattr(os, "scandir", scan_and_delete)
    assert {each.name for each in results.files()} == names


def test_a_folder_is_listed_with_figures_and_faults(server: WebServer, folder: Path) -> None:
    with open(folder / "running.stat.gz", "rb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        rows = listed(server).split("<tr>")[2:]
        names = ("gold", "rubbish", "running", "empty", "damaged", "cut")
        by_name = {name: row for row in rows for name in names
                   if f"{name}.stat" in row}  # fmt: skip
        assert len(rows) == 7
        assert 'type="checkbox"' in by_name["gold"]
        assert " ms</td>" in by_name["gold"]
        assert re.search(r'>[\d.]+ ms</td><td class="n">~[\d.]+ ms</td>', by_name["gold"])
        assert "~ marks a percentile with fewer than ten operations beyond it." in rows[-1]
        assert 'type="checkbox"' in by_name["damaged"]
        assert ">None<" not in by_name["cut"], "its number of users is unknown"
        assert '<td class="fault"></td>' not in by_name["damaged"]
        assert '<td class="fault"></td>' in by_name["gold"]
        assert "its run is still in progress" in by_name["running"]
        assert "no stat file" in by_name["rubbish"]
        assert "is empty" in by_name["empty"]
        for name in ("rubbish", "empty"):
            assert 'type="checkbox"' not in by_name[name]
    assert "<img" not in "".join(rows)
    assert "\x1b" not in "".join(rows)
    text = listed(server)
    assert 'value="running.stat.gz"' in text
    assert "notes.txt" not in text
    assert "link.stat.gz" not in text


def test_a_file_that_changes_is_read_again(server: WebServer, folder: Path) -> None:
    assert 'value="rubbish.stat.gz"' not in listed(server)
    shutil.copy(GOLDEN / "gold.stat.gz", folder / "rubbish.stat.gz")
    assert 'value="rubbish.stat.gz"' in listed(server)
    (folder / "rubbish.stat.gz").unlink()
    assert "rubbish" not in listed(server)


@pytest.mark.parametrize("path", ["/report?name={}", "/compare?name=gold.stat.gz&name={}"])
def test_only_stat_files_of_the_folder_are_opened(server: WebServer, path: str) -> None:
    names = [
        "../secret.stat.gz", "..%2Fsecret.stat.gz", "/etc/passwd", "link.stat.gz", "notes.txt", "",
        "results/../gold.stat.gz", "..%252Fsecret.stat.gz", ".", "deeper.stat", "gold.stat.gz%00",
    ]  # fmt: skip
    assert {name: get(server, path.format(name))[0] for name in names} == dict.fromkeys(names, 404)
    assert {get(server, f"/{name}")[0] for name in names} <= {200, 404}


def test_reports_and_comparisons_are_pages(server: WebServer) -> None:
    status, page = get(server, "/report?name=gold.stat.gz")
    assert (status, page[:15]) == (200, "<!DOCTYPE html>")
    both = f"name=gold.stat.gz&name={quote(KEY)}"
    status, page = get(server, f"/compare?{both}")
    assert status == 200
    assert "<img src=x" not in page
    reverse = f"name={quote(KEY)}&name=gold.stat.gz"
    assert get(server, f"/compare?{reverse}")[1] == page, "the older run is the first"
    assert get(server, "/compare?name=gold.stat.gz")[0] == 404
    status, page = get(server, "/report?name=rubbish.stat.gz")
    assert status == 500
    assert "no stat file" in page


def test_the_command_serves_the_list_until_ctrl_c(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[str, int]] = []

    def look(_seconds: float) -> None:
        told = re.fullmatch(
            r"(.+) is shown at (http://\S+) until Ctrl-C\n", capsys.readouterr().err
        )
        assert told
        url = urlsplit(told[2])
        with closing(HTTPConnection("127.0.0.1", url.port or 0, timeout=60)) as connection:
            connection.request("GET", f"/?{url.query}", headers={"Host": url.netloc})
            seen.append((told[1], connection.getresponse().status))
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(browse, "sleep", look)
    assert main(["browse", str(folder)]) == 0
    assert seen == [(str(folder), 200)]


def test_another_user_of_this_host_reads_no_report(server: WebServer) -> None:
    """Requests are checked as those of a live page."""
    for wrong in ({"Cookie": ""}, {"Host": "evil.example"}):
        assert get(server, "/", **wrong)[0] == 403
        assert get(server, "/report?name=gold.stat.gz", **wrong)[0] == 403
    assert server.token not in listed(server)


def test_a_folder_or_an_address_that_is_none_is_an_error(shell: Shell) -> None:
    said = shell("browse", shell.folder / "none")
    assert said.status == 2
    assert "No such file or directory: name a folder of stat files" in said.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = shell("browse", shell.folder, "--web", port)
    why = "Address already in use; name another port, or none for a free one\n"
    assert (said.status, said.err.endswith(f"{port}: can't listen there: {why}")) == (1, True)
    said = shell("browse", shell.folder, "--web", "192.0.2.1:80")
    assert said.status == 1
    assert said.err.endswith("Cannot assign requested address; name an address of this host\n")


def test_a_browser_opens_a_report_and_compares_ticked_runs(
    server: WebServer, tmp_path: Path
) -> None:
    listed(server)
    with browser(tmp_path / "profile") as chromium:
        driver = chromium.driver
        driver.get(server.url)
        assert chromium.run("return document.title") == "ssbench: results"
        assert printable(HOSTILE) in chromium.run("return document.body.innerText")
        for width in (400, 1000):
            driver.set_window_size(width, 900)
            assert chromium.run("return document.documentElement.scrollWidth - innerWidth") <= 0
        driver.set_window_size(1920, 900)
        longer = "document.querySelector('td.file').append('long_name_'.repeat(15));"
        chromium.run(longer)
        table = "document.querySelector('.scroll')"
        cut = chromium.run(f"return {table}.scrollWidth - {table}.clientWidth")
        assert cut <= 0, "a remark is cut"
        operations = (
            "return [...document.querySelectorAll('tr:has(input[type=checkbox])')]"
            ".map(row => Number(row.children[5].textContent.replaceAll(',', '')))"
        )
        for is_down in (False, True):
            chromium.run("document.querySelectorAll('th button')[4].click()")
            found = chromium.run(operations)
            assert len(set(found)) > 1
            assert found == sorted(found, reverse=is_down)
            driver.refresh()
            assert chromium.run(operations) == found, "the order is kept"
        chromium.run("""
            for (const each of document.querySelectorAll("input[type=checkbox]"))
              each.checked = each.value.startsWith("gold") || each.value.startsWith("%3Cimg");
            document.querySelector("button").click()""")
        until("a comparison", lambda: "/compare?" in driver.current_url)
        until("its text", lambda: "gold" in chromium.run("return document.body.innerText"))
        driver.get(server.url)
        chromium.run("document.querySelector('a[href*=gold]').click()")
        until("a report", lambda: "/report?" in driver.current_url)
        until("its charts", lambda: chromium.run("return document.querySelectorAll('svg').length"))
        assert [each for each in chromium.errors() if "favicon" not in each] == []
