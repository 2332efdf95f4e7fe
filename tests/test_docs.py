"""The manual against the code: options, defaults, keys, scenarios, statuses, commands, links."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docutils import nodes
from docutils.core import publish_doctree

from docs.messages import MESSAGES, pattern_of, texts_of_code
from docs.shellfiles import parsers
from ssbench.cli.commands import COMMANDS, master_parser
from ssbench.cli.options import LOUDNESS
from ssbench.cli.worker_options import WORKER, worker_parser
from ssbench.commands.bench.command import bench_config
from ssbench.commands.bench.settings import bench_words
from ssbench.commands.doctor import CHECKS
from ssbench.commands.transfer.settings import upload_words
from ssbench.core.model import Phase
from ssbench.core.operations import OPERATIONS, NotFound, of_phase
from ssbench.core.records import MASTER, MarkRecord, ProfileRecord
from ssbench.core.scenario.parts import GROUP_KEYS, LARGE_KEYS, SIZE_KEYS, STAGE_KEYS
from ssbench.core.scenario.scenario import KEYS, Scenario, parameter_keys
from ssbench.core.stats.thresholds import Threshold
from ssbench.embedded.__main__ import parser as embedded_parser
from ssbench.report import FORMATS
from ssbench.report.run import of_run
from ssbench.runner.config import CANNED
from ssbench.storage.registry import ROWS, load
from tests.e2e.test_webdav import MORE
from tests.e2e.test_webdav import OPERATIONS as WEBDAV_OPERATIONS
from tests.report import runs

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.rst"), *ROOT.glob("docs/**/*.rst")])
PAGES.remove(ROOT / "docs/index.rst")  # docs/README.rst with directives that only Sphinx has
README = ROOT / "README.rst"


@cache
def page(path: Path) -> nodes.document:
    """A page, parsed; fails where the markup isn't valid, or is only informally noted."""
    document = publish_doctree(
        path.read_text(encoding="utf-8"),
        source_path=str(path),
        settings_overrides={"halt_level": 2, "report_level": 1, "warning_stream": False},
    )
    found = [*document.findall(nodes.system_message), *document.parse_messages]
    notes = [each.astext() for each in (*found, *document.transform_messages)]
    # Stores have subsections of the same titles.
    assert [each for each in notes if "Duplicate implicit target name" not in each] == []
    return document


def section(document: nodes.document, title: str) -> nodes.section:
    for found in document.findall(nodes.section):
        if found[0].astext() == title:
            return found
    raise AssertionError(f"{title}: no such section")


def rows(node: nodes.Element) -> list[list[nodes.entry]]:
    """Rows of the tables in a section, those of its subsections and all heads left out."""
    return [
        list(row.findall(nodes.entry))
        for table in node.children
        if isinstance(table, nodes.table)
        for body in table.findall(nodes.tbody)
        for row in body.findall(nodes.row)
    ]


def literals(node: nodes.Element) -> list[str]:
    return [literal.astext() for literal in node.findall(nodes.literal)]


# --- options


def test_every_command_store_part_of_a_scenario_and_kind_of_report_has_a_table_that_is_made() -> (
    None
):
    told = " ".join(path.read_text() for path in PAGES)
    made = re.findall(r"^\.\. made by docs/generate\.py: (\S+) ?(.*)$", told, re.MULTILINE)
    names = {name.strip() for what, names in made if what == "options" for name in names.split(",")}
    assert {*COMMANDS, "ssbench-worker"} - {"list-scenarios"} <= names
    assert {names for what, names in made if what == "store-options"} == {
        row.name for row in ROWS.values() if row.options
    }
    schema = json.loads((ROOT / "docs/report-1.schema.json").read_text())
    assert {names for what, names in made if what == "json"} == {*schema["$defs"]}
    parts = {"scenario", "size", "stage", "group", "large-object", "large-read", "object-lock"}
    assert {names for what, names in made if what == "scenario-keys"} == parts
    assert {"operation-keys", "exit-statuses", "canned-scenarios"} <= {what for what, _ in made}
    assert {names for what, names in made if what == "messages"} == {*MESSAGES}


#: Every parser, those of commands and their subcommands included.
PARSERS = [embedded_parser(), *parsers(master_parser()), *parsers(worker_parser())]


def test_pages_name_existing_options_only() -> None:
    known = {
        flag for parser in PARSERS for action in parser._actions for flag in action.option_strings
    }
    for program in ROOT.glob("benchmarks/*/__main__.py"):
        known |= {*re.findall(r'add_argument\("(--[a-z-]+)"', program.read_text())}
    # These stand for many, or for any.
    foreign = {"--name", "--os-x", "--os_x", "--os-", "--option", "--format"}
    for path in PAGES:
        if path.name == "CONTRIBUTING.rst":
            continue
        places = [page(path)]
        if path.name == "coming-from.rst":  # the first column has commands of other tools
            places = [row[-1] for row in page(path).findall(nodes.row)]
        for literal in [each for place in places for each in literals(place)]:
            for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", literal):
                assert flag in known | foreign, f"{path.name}: {literal}: no such option"


# --- scenarios, statuses


def test_the_page_on_options_says_which_may_be_repeated_and_which_a_site_cannot_set() -> None:
    text = (ROOT / "docs/reference/options.rst").read_text(encoding="utf-8")
    rows = {row for each in COMMANDS.values() for row in each.rows} | {*WORKER, *LOUDNESS}
    repeated = text.partition("These may be repeated:")[2].partition("Of all other options")[0]
    by_flag = {flag: row for row in rows if row.command_line_only for flag in row.flags}
    flags = set(re.findall(r"``(-[\w-]+)``", repeated))
    assert flags == {row.flags[0] for row in rows if row.repeat and row.flags}
    only = text.partition("runs 1,000 operations.")[2].partition("for the command line only")[0]
    named = {by_flag[flag].name for flag in re.findall(r"``(-[\w-]+)``", only)}
    of_site = {row.name for row in rows if row.flags and not row.command_line_only}
    # --show-config sets nothing.
    assert named == {row.name for row in rows if row.command_line_only} - {"show_config"}
    assert not named & of_site


def test_the_page_on_options_says_which_operations_are_tried_again_after_a_404() -> None:
    text = (ROOT / "docs/reference/options.rst").read_text(encoding="utf-8")
    others = [row.name for row in of_phase(Phase.RUN) if row.not_found is not NotFound.RETRIED]
    assert f"An operation other than {' and '.join(others)} that gets 404" in " ".join(text.split())


def test_every_key_of_a_scenario_has_a_meaning() -> None:
    known = (KEYS, SIZE_KEYS, STAGE_KEYS, LARGE_KEYS, GROUP_KEYS, parameter_keys())
    for key, rule in (each for keys in known for each in keys.items()):
        assert rule.meaning.endswith("."), key


def test_the_readme_lists_the_canned_scenarios() -> None:
    files = {path.stem for path in ROOT.glob("scenarios/*.scenario")}
    assert files == set(CANNED)
    assert files <= set(literals(section(page(README), "Scenarios")))


def test_every_format_of_report_is_documented() -> None:
    text = (ROOT / "docs/reference/report.rst").read_text()
    assert all(f"--{name}" in text for name in FORMATS if name != "text")


def test_the_page_on_reports_explains_their_lines() -> None:
    path = ROOT / "docs/reference/report.rst"
    text, terms = path.read_text(), [term.astext() for term in page(path).findall(nodes.term)]
    keys = {"warmup": 0.05, "list_limit": 9, "headers": {"a": "b"}, "large_object": {"kind": "slo"}}
    begin, *records, _end = runs.lasting(3, 50, due=True, rate=50, **keys)
    records += [
        MarkRecord(runs.SECOND, "stage", 1, 9, 50.0),
        runs.host(0, 1),
        ProfileRecord(MASTER, {"main": 1}),
    ]
    for ended in ("complete", "interrupted", "failed", "exhausted"):
        stats = runs.stats_of([begin, *records, runs.footer(ended=ended, reason="why")])
        report = of_run(stats, thresholds=[Threshold.parse("p99 < 1s")], stats_file="/tmp/a.gz")
        words = [row["topic"] for row in report["summary"].tables[0].rows]
        for key in ("settings", "ending"):
            words += [re.split(r": | \(", note.sentence)[0] for note in report[key].notes or ()]
        assert len(words) > 15
        assert [word for word in words if not any(word in term for term in terms)] == []
        headings = {each.title.partition(" (")[0] for each in report.sections}
        assert [heading for heading in headings if heading not in text] == []


# --- commands, links


def command_lines(path: Path) -> Iterator[str]:
    """Commands of ours with arguments: in literal blocks, without prompt and ``&``, and in text."""
    for literal in literals(page(path)):
        if re.match(r"ssbench-(master|worker) \S+ \S", literal) and "..." not in literal:
            yield " ".join(literal.split())
    for block in page(path).findall(nodes.literal_block):
        for line in block.astext().replace("\\\n", " ").splitlines():
            line = re.sub(r"^\S*\$ ", "", line.strip())
            if re.match(r"(ssbench-(master|worker)|make|python3? -m ssbench\S*) ", line + " "):
                yield line.removesuffix("&").strip()


#: Programs of others in the documents' commands -> what tries these commands, or why nothing does.
OTHERS = {
    "ansible-playbook": "tests/deploy/test_files.py",
    "docker": "tests/deploy/test_docker.py",
    "kubectl": "tests/deploy/test_files.py",
    "sbatch": "tests/deploy/test_slurm.py",
    "systemctl": "tests/deploy/test_files.py",
    "install": "tests/deploy/test_files.py",
    "pip": "tests/e2e/test_packaging.py",
    "venv/bin/pip": "tests/e2e/test_packaging.py",
    "python": "tests/e2e/test_outside_driver.py",
    "python3": "tests/e2e/test_packaging.py",
    "cadaver": "tests/servers/programs.py",
    "chmod": "closes a file to others",
    "fio": "shown beside ours, to compare",
    "openssl": "any source of 32 random bytes will do",
    "scp": "needs a second host",
    **dict.fromkeys(("cat", "cp", "export", "gzip", "ls", "mkdir"), "the shell's own"),
}


def other_commands(path: Path) -> Iterator[str]:
    """Programs of others that a page calls: behind a prompt, or in blocks that begin with one."""
    for block in page(path).findall(nodes.literal_block):
        if "code" in block["classes"]:  # of Python
            continue
        lines = block.astext().replace("\\\n", " ").splitlines()
        prompted = [found[1] for line in lines if (found := re.match(r"\S*[$#] (\S.*)", line))]
        # Not a table (words far apart), a setting or a sentence.
        if not prompted and re.match(r"(venv/bin/)?[a-z][\w-]*( [^ =]|$)", lines[0]):
            prompted = lines
        for line in prompted:
            words = line.removeprefix("time ").split()
            if words and not re.match(r"(venv/bin/)?ssbench-|make$|#|SSBENCH_", words[0]):
                yield words[0]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_programs_of_others_are_tried_somewhere_or_for_a_reason_not(path: Path) -> None:
    for program in other_commands(path):
        reason = OTHERS[program]
        assert " " in reason or (ROOT / reason).exists(), f"{program}: {reason}"


def test_the_page_on_other_tools_has_those_that_were_run_and_what_they_do() -> None:
    path = ROOT / "docs/how-to/coming-from.rst"
    sections = {each.next_node(nodes.title).astext() for each in page(path).findall(nodes.section)}
    assert sections - {"Coming from other tools"} == {
        "ssbench 0.3.9",
        "swift-bench",
        "warp",
        "COSBench",
    }
    # What swift-bench -c 10 -s 4096 -n 1000 -g 10000 sends.
    lines = [line for line in command_lines(path) if " bench " in line and "-u 10" in line]
    did = {}
    for line in lines:
        words = [*shlex.split(line)[1:], "--noop"]
        config = bench_config(master_parser(words).parse_args(words), {})
        did[config.method.name] = config.total, config.users, config.size
    assert did == {"put": (1000, 10, 4096), "get": (10_000, 10, None), "delete": (1000, 10, None)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_command_lines_are_accepted_by_the_parsers(path: Path) -> None:
    for line in command_lines(path):
        must_be_accepted(line)


def must_be_accepted(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in arguments if "=" not in word} <= set(targets)
        return
    arguments = ["http://h/v1/A" if word == "$TOKEN" else word for word in arguments]
    if program.startswith("python"):
        embedded_parser().parse_args(arguments[2:])
        return
    if arguments[:1] == ["nectar"]:
        arguments = bench_words(arguments[1:], {})
    elif arguments[:1] == ["profiler"]:
        arguments = upload_words(arguments[1:])
    assert program in ("ssbench-master", "ssbench-worker")
    is_master = program == "ssbench-master"
    parser = master_parser(arguments) if is_master else worker_parser()
    if "--version" in arguments:
        with pytest.raises(SystemExit, match=r"^0$"):
            parser.parse_args(arguments)
    else:
        parser.parse_args(arguments)


def test_the_runs_of_the_page_on_webdav_need_nothing_that_it_does_not_show() -> None:
    path = ROOT / "docs/how-to/webdav.rst"
    (text,) = re.findall(r"\$ cat one.scenario\n(.*?\n}\n)", page(path).astext(), re.DOTALL)
    Scenario.from_json(text)
    used = []
    for line in command_lines(path):
        if line.split()[1] in ("run-scenario", "find-limit"):
            words = shlex.split(line)[1:]
            ns = master_parser(words).parse_args(words)
            assert ns.workers, line
            used.append(ns.scenario)
    assert set(used) <= {"one.scenario", *CANNED}


def test_the_pages_show_every_command() -> None:
    lines = [f"{line} " for path in PAGES for line in command_lines(path)]
    for name in COMMANDS:
        assert any(line.startswith(f"ssbench-master {name} ") for line in lines), name


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_are_valid_and_their_links_to_others_resolve(path: Path) -> None:
    assert page(path).findall(nodes.paragraph)
    for reference in page(path).findall(nodes.reference):
        target = reference.get("refuri", "").partition("#")[0]
        if target and "://" not in target:
            assert (path.parent / target).exists(), target


def test_every_page_is_in_the_table_of_pages() -> None:
    index = page(ROOT / "docs/README.rst")
    told = {reference.get("refuri") for reference in index.findall(nodes.reference)}
    pages = {str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/*/*.rst")}
    assert {*pages, "report-1.schema.json"} <= told


def test_each_party_of_the_threat_model_has_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = text.partition("The mechanisms, a row each:")[2].partition("\n## ")[0]
    rows = [row for row in rows.splitlines() if row.startswith("| ")][1:]
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row)
        assert named, row
        for path, name in named:
            assert f"\ndef {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), name


def test_the_readme_is_short_and_leads_to_the_table_of_pages() -> None:
    told = {reference.get("refuri") for reference in page(README).findall(nodes.reference)}
    assert {"docs/README.rst", "CONTRIBUTING.rst", "SECURITY.md", "CHANGELOG", "LICENSE"} <= told
    assert len(README.read_text().splitlines()) <= 250


def test_the_readme_has_the_operations_of_each_store_and_its_servers() -> None:
    (table,) = section(page(README), "Stores").findall(nodes.table)
    head, *rows = ([cell.astext() for cell in row] for row in table.findall(nodes.row))
    assert set(head[1:]) == {row.name for row in ROWS.values() if row.is_real}
    servers: dict[str, dict[str, set[str]]] = {name: {} for name in head[1:]}
    for names, *cells in rows:
        for store, cell in zip(head[1:], cells, strict=True):
            for name in [names] if names == "Objects in parts" else names.split():
                servers[store][name] = set() if cell == "refused" else {*cell.split(", ")}
    for store, by_name in servers.items():
        operations = [OPERATIONS[number] for number in load(ROWS[store].driver).operations]
        having = {each.name for each in operations if each.phase is Phase.RUN}
        having |= {"Objects in parts"} if "large_object" in ROWS[store].features else set()
        assert {name for name, tested in by_name.items() if tested} == having
    for server, more in MORE.items():
        tested = {name for name, there in servers["webdav"].items() if server.__name__.lower() in
                  {each.lower() for each in there}}  # fmt: skip
        assert tested == {name.upper() for name in (*WEBDAV_OPERATIONS, *more)}


def test_the_page_on_doctor_has_every_check() -> None:
    checks = rows(section(page(ROOT / "docs/how-to/doctor.rst"), "The checks"))
    assert [literals(row[0])[0] for row in checks if len(row) == 2] == [row.name for row in CHECKS]


#: Messages of these must be in it.
LISTED = {"AuthError", "FewerWorkersError", "NoWorkersError", "StatFileError", "TransportError"}
#: Defects, and misuse of the library.
UNLISTED = ("a batch of results is", "the file store has no credentials")


def test_every_message_on_logins_ports_workers_and_stat_files_is_in_the_index() -> None:
    patterns = [pattern_of(parts) for rows in MESSAGES.values() for parts in rows]
    lacking = [
        text
        for name, text in texts_of_code().raised
        if name in LISTED and any(len(part) > 12 for part in text.split("..."))
        if not any(pattern.search(text) for pattern in patterns)
        if not any(part in text for part in UNLISTED)
    ]
    assert lacking == []


def test_no_module_has_rulers() -> None:
    """A module that needs lines such as ``# Time ----`` is two modules."""
    for folder in ("ssbench", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"^ *# (.* -{4,}|-{3,} .*)$", text, re.MULTILINE), path


def test_files_that_pages_name_exist() -> None:
    pages = [*PAGES, *ROOT.glob("*.md")]
    for path in pages:
        ours = r"(?<![\w/])(?:ssbench|tests|benchmarks)/[\w/]+\.\w+"
        for name in re.findall(ours, path.read_text()):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_pages_that_the_code_names_exist() -> None:
    named = {
        name.rstrip(".")
        for folder in ("ssbench", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"docs/[\w/.-]+", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert [n for n in named if not (ROOT / n).exists() and not (ROOT / f"{n}.rst").exists()] == []


def test_modules_that_comments_and_docstrings_name_exist() -> None:
    packages = "|".join(path.name for path in (ROOT / "ssbench").iterdir() if path.is_dir())
    wrong = []
    for path in [*ROOT.glob("ssbench/**/*.py"), *ROOT.glob("scenarios/*.py")]:
        for name in re.findall(rf"``(?:ssbench\.)?((?:{packages})(?:\.\w+)+)``", path.read_text()):
            parts = name.split(".")
            place = ROOT / "ssbench" / parts[0]
            while parts[1:] and (place / parts[1]).is_dir():
                place /= parts.pop(1)
            module = place / f"{parts[1]}.py" if parts[1:] else place
            if not (module.exists() or parts[1] in (place / "__init__.py").read_text()):
                wrong.append(f"{path.name}: {name}")
    assert wrong == []


def test_links_to_sections_resolve() -> None:
    for path in PAGES:
        for page_name, anchor in re.findall(r"[<(]([\w./-]+)#([\w-]+)[>)]", path.read_text()):
            assert anchor in anchors(path.parent / page_name), f"{path.name}: {page_name}#{anchor}"


@cache
def anchors(path: Path) -> set[str]:
    """What links to sections of a page may end with."""
    return {name for node in page(path).findall(nodes.section) for name in node["ids"]}


def test_the_page_on_drivers_quotes_the_driver() -> None:
    code = re.sub(r"\s+", " ", (ROOT / "docs/how-to/drivers/dictstore.py").read_text())
    quoted = [
        block.astext()
        for block in page(ROOT / "docs/how-to/drivers.rst").findall(nodes.literal_block)
        if "python" in block["classes"]
    ]
    assert len(quoted) > 3
    for block in quoted:
        assert re.sub(r"\s+", " ", block) in code, block
