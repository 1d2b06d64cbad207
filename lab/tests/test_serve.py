"""Tests the page with a browser, and with requests that must be refused."""

import html
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from recorded import BINDER

COMMAND = [sys.executable, "-c", "from roundtrip_lab.cli import main; main()"]


class Served:
    """A running server, started by the command `before`, if there is one."""

    def __init__(self, *arguments, before=(), env=None):
        self.process = subprocess.Popen([*before, *COMMAND, "serve", *map(str, arguments), "--port", "0"],
                                        stdout=subprocess.PIPE, text=True, env=os.environ | (env or {}))  # fmt: skip
        # The printed address, and the address without the token.
        self.printed = self.process.stdout.readline().strip()
        self.url, _, self.token = self.printed.partition("?token=")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.process.stdout.close()

    def get(self, path="", **headers):
        """Requests a page with the token. Returns its status, headers and text."""
        return get(self.url.rstrip("/") + "/" + path.lstrip("/"), Cookie=f"roundtrip_lab={self.token}", **headers)

    def with_token(self, path=""):
        """The address of a page that a browser can open."""
        return f"{self.url.rstrip('/')}/{path.lstrip('/')}{'&' if '?' in path else '?'}token={self.token}"


def get(url, **headers):
    """Requests a page. Returns its status, headers and text."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def settle(served):
    """Waits until the overview has all its results."""
    deadline = time.monotonic() + 120
    while 'http-equiv="refresh"' in served.get()[2]:
        assert time.monotonic() < deadline, "some results are still missing"
        time.sleep(0.1)


def browse(url, folder, *options):
    """Opens the page in Chromium, and returns its output."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium")
    return subprocess.run(
        [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={folder}",
         *options, url], capture_output=True, text=True, timeout=90,
    ).stdout  # fmt: skip


def test_a_browser_shows_the_fleet_and_its_regressions(fleet, tmp_path):
    with Served(fleet[0]) as served:
        settle(served)
        shown = browse(served.with_token(), tmp_path / "one", "--dump-dom")
        assert "Devices that miss the most deadlines" in shown
        assert '<tr class="worse">' in shown
        assert 'class="curve newest"' in shown and 'class="deadline"' in shown
        device = re.search(r'href="(/device\?name=[^"]+)"', shown)[1]
        assert "<h2>Runs</h2>" in browse(served.with_token(html.unescape(device)), tmp_path / "two", "--dump-dom")
        picture = Path(os.environ.get("ROUNDTRIP_LAB_PICTURE", tmp_path / "lab.png"))
        browse(served.with_token(), tmp_path / "three", f"--screenshot={picture}", "--window-size=1200,1400")
        assert picture.stat().st_size > 10_000


def test_the_page_of_a_device_links_to_a_report(tmp_path, roundtrip, tmp_path_factory):
    into = tmp_path / "set"
    collected = subprocess.run([*COMMAND, "collect", BINDER, "--into", into, "--roundtrip", roundtrip])
    assert collected.returncode == 0
    # The device of a run without labels is `(none)` or the host's name.
    with Served(into, "--runs", BINDER.parent, "--roundtrip", roundtrip) as served:
        settle(served)
        listed = served.get()[2]
        device = re.search(r'href="(/device\?name=[^"]+)"', listed)[1]
        page = served.get(html.unescape(device))[2]
        report = re.search(r'href="(/report\?[^"]+)"', page)
        assert report, page
        status, headers, text = served.get(html.unescape(report[1]))
        assert status == 200 and "sandbox" in headers["Content-Security-Policy"]
        assert "<html" in text


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_every_page_requires_the_token(host, small_fleet):
    with Served(small_fleet, "--host", host) as served:
        address = served.url.replace("0.0.0.0", "127.0.0.1")
        for path in ("", "device?name=device-000001", "report?run=1", "style.css"):
            assert get(address + path)[0] == 403
            assert get(address + path, Cookie="roundtrip_lab=wrong")[0] == 403
        assert get(address + "?token=wrong")[0] == 403
        assert get(address, Cookie=f"roundtrip_lab={served.token}")[0] == 200


def test_a_foreign_host_name_is_refused_even_with_the_token(small_fleet):
    """A foreign page whose name was given this server's address (DNS rebinding) used to read everything."""
    with Served(small_fleet, "--name", "lab.example") as served:
        port = served.url.rstrip("/").rpartition(":")[2]
        for name, status in {"evil.example": 421, f"evil.example:{port}": 421, "127.0.0.1.evil.example": 421,
                             f"127.0.0.1:{port}": 200, f"localhost:{port}": 200, "[::1]": 200, "lab.example": 200}.items():  # fmt: skip
            assert served.get(Host=name)[0] == status, name
    with Served(small_fleet, "--no-token") as served:
        assert get(served.url)[0] == 200 and get(served.url, Host="evil.example")[0] == 421


def test_pages_contain_no_script_and_refuse_other_methods(small_fleet):
    with Served(small_fleet) as served:
        status, headers, text = served.get()
        assert status == 200 and "<script" not in text
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'")
        status, _, text = served.get("device?name=%3Cscript%3Ealert(1)%3C/script%3E")
        assert status == 404 and "<script" not in text
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(served.url, data=b"x")


def test_a_failure_is_500_and_what_does_not_exist_is_404(small_fleet, tmp_path):
    shutil.copytree(small_fleet, tmp_path / "set")
    with Served(tmp_path / "set") as served:
        settle(served)
        assert served.get("device?name=nobody")[0] == 404 and served.get("?series=nothing")[0] == 404
        for file in (tmp_path / "set").rglob("*.parquet"):
            file.write_bytes(b"damaged")
        status, headers, text = served.get("device?name=device-000001")
        assert status == 500 and "Not shown" in text and headers["Content-Security-Policy"]


def test_invalid_arguments_are_reported_in_one_line(tmp_path, small_fleet):
    for arguments in ([tmp_path / "nothing"], [small_fleet, "--host", "nowhere"], [small_fleet, "--runs", tmp_path / "no"],
                      [small_fleet, "--host", "0.0.0.0", "--no-token"]):
        done = subprocess.run([*COMMAND, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
