"""Tests docs/lab.md: its first commands work, and its tables list the columns of the schema."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import ROOT

from roundtrip_lab import schema

PAGE = (ROOT / "docs" / "lab.md").read_text()


def columns(heading):
    """The first cells of the table below a heading."""
    section = PAGE.split(f"### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"^\| `(\w+)` \|", section, re.M)


def test_the_page_lists_exactly_the_columns_of_the_schema():
    both = columns("What both tables have")
    assert set(both) == set(schema.SERIES.names) & set(schema.SUMS.names)
    assert set(columns("What only `series` has")) == set(schema.SERIES.names) - set(both)
    assert set(columns("What only `sums` has")) == set(schema.SUMS.names) - set(both)


def test_the_first_commands_of_the_page_work(roundtrip, tmp_path):
    lines = PAGE.split("```sh\n")[1].split("```")[0].splitlines()
    assert lines.pop(0) == "pip install ./lab" and len(lines) == 4
    programs = {"roundtrip": roundtrip, "roundtrip-lab": Path(sys.executable).with_name("roundtrip-lab")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in lines:
        words = shlex.split(line)
        words[0] = str(programs[words[0]])
        if words[1] == "ipc":
            words += ["--duration", "1s"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PATH": path}, check=False)
        assert done.returncode == 0, done.stderr
        if "percentiles" in words:
            assert "AB12" in done.stdout and "p99 us" in done.stdout


def test_the_installed_command_has_help_and_refuses_invalid_usage_in_one_line(tmp_path):
    program = shutil.which("roundtrip-lab", path=str(Path(sys.executable).parent))
    helped = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    for command in ("collect", "query", "simulate"):
        assert command in helped
    for words in (["query", "misses", "--from", "nope"], ["colect"], ["query", "misses"], ["collect"]):
        done = subprocess.run([program, *words], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 2, words
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("roundtrip-lab: "), done.stderr


@pytest.mark.parametrize("form", ["table", "markdown", "csv", "json"])
def test_control_characters_in_a_result_are_escaped(form, command, make_run, tmp_path):
    make_run("a", build="a|b\x1b[31m\u202e\n")
    command("collect", tmp_path / "runs", "--into", tmp_path / "set")
    shown = command("query", "percentiles", "--from", tmp_path / "set", "--format", form).stdout
    assert "\x1b" not in shown
    if form == "markdown":
        assert len({line.replace("\\|", "").count("|") for line in shown.splitlines()}) == 1
    if form != "json":
        assert "\u202e" not in shown
