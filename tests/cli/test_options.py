"""Command lines as users type them, and what they come to."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from docs.shellfiles import parsers
from ssbench import __version__
from ssbench.cli.commands import COMMANDS, master_parser
from ssbench.cli.parser import LETTERS
from ssbench.cli.worker_options import WORKER, worker_parser
from ssbench.commands.bench.settings import bench_words
from ssbench.commands.transfer.settings import upload_words
from tests.cli.shell import Shell, parsed


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("run small -u 4", {"command": "run-scenario", "scenario": "small", "users": 4}),
        ("run-scenario -u 4 -k x.scenario -r 5", {"scenario": "x.scenario", "users": 4}),
        ("find-limit --slo p99<1s small", {"scenario": "small"}),
        (
            "run-scenario -f scenarios/very_small.scenario -u 4 -c 80 -o 613 --pctile 50 "
            "--workers 2",
            {
                "command": "run-scenario", "scenario": "scenarios/very_small.scenario",
                "users": 4, "container_count": 80, "operations": 613,
                "percentiles": [50.0], "workers": 2,
            },
        ),
        (
            "run-scenario -f - -r 60 -b 4096 -k -R -s out.gz --csv --profile -S http://h/v1/A "
            "-S http://i/v1/A -T tok --delete-after 60 --policy gold",
            {
                "scenario": "-", "seconds": 60.0, "block_size": 4096, "keep_objects": True,
                "no_default_report": True, "stats_file": "out.gz", "format": "csv", "profile": True,
                "storage_urls": ["http://h/v1/A", "http://i/v1/A"], "os_auth_token": "tok",
                "delete_after": 60, "policy": "gold",
            },
        ),
        (
            "run-scenario -f s -A http://h/auth -U a:u -K k -V 2 --zmq-bind-ip :: "
            "--zmq-work-port 1 --zmq-results_port 2 --zmq-control-port 3 --zmq-key-file k.key",
            {
                "auth": "http://h/auth", "user": "a:u", "key": "k", "auth_version": "2.0",
                "address": "::", "work_port": 1, "results_port": 2,
                "control_port": 3, "key_file": "k.key",
            },
        ),
        (
            "run-scenario -f s --storage-u http://h/v1/A --token t -U 20 --user-c 20 --stats a.gz",
            {
                "storage_urls": ["http://h/v1/A"], "os_auth_token": "t", "user": "20",
                "users": 20, "stats_file": "a.gz",
            },
        ),
        ("cleanup-containers --user 20", {"user": "20"}),
        # Options that may be repeated keep all values.
        ("run-scenario -f s --pctile 50 --pctile 99.9", {"percentiles": [50.0, 99.9]}),
        ("report-scenario f --threshold a --threshold b", {"thresholds": ["a", "b"]}),
        ("run-scenario -f s --source-address 192.0.2.1 --source-address ::1",
         {"source_addresses": ["192.0.2.1", "::1"]}),
        ("compare f g h --operation read --operation head",
         {"stats_files": ["f", "g", "h"], "operations": ["read", "head"]}),
        ("bench put c --header A:1 --header B:2", {"headers": [("A", "1"), ("B", "2")]}),
        ("bench files read d --sweep users=1,2 --sweep files=3",
         {"sweeps": [("users", [1, 2]), ("files", [3])]}),
        ("make-scenario --from-container c --from-container d", {"containers": ["c", "d"]}),
        ("make-scenario --from-access-log f --from-access-log g", {"logs": ["f", "g"]}),
        ("replay f g", {"logs": ["f", "g"]}),
        ("check-network a b:1 198.18.0.2:99 [2001:db8::7]:99 2001:db8::7 [::1]",
         {"servers": [("a", 13583), ("b", 1), ("198.18.0.2", 99), ("2001:db8::7", 99),
                      ("2001:db8::7", 13583), ("::1", 13583)]}),
        ("upload d --container c --sweep users=16,32", {"sweep": [16, 32]}),
        # Aliases.
        ("run-scenario --scenario s --users 5", {"scenario": "s", "users": 5}),
        ("run-scenario --scenario-file s --duration 5m", {"scenario": "s", "seconds": 300.0}),
        ("run-scenario -f s --no-report", {"no_default_report": True}),
        ("bench put c --users 5", {"users": 5}),
    ],
)  # fmt: skip
def test_command_lines_of_the_master(line: str, values: dict[str, object]) -> None:
    ns = vars(parsed(line))
    assert {name: ns[name] for name in values} == values


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_verbose_and_quiet_may_precede_or_follow_the_command(command: str) -> None:
    needed = {
        "run-scenario": "-f s", "find-limit": "-f s --slo p99<1s", "report-scenario": "-s f",
        "ab": "-f s --a= --b=",
        "compare": "f g", "browse": "d", "make-key": "f", "mark": "text", "nectar": "bench-put",
        **{name: "c" for name in COMMANDS if name.startswith("bench ")},
        "bench files": "read d", "gen-files": "d 1 1", "diff-dirs": "a b",
        "make-scenario": "--from-container c", "replay": "f",
        "upload": "d --container c", "download": "--container c", "profiler": "a",
    }  # fmt: skip
    line = f"{command} {needed.get(command, '')}"
    for loud, quiet, lines in (
        (False, False, [line]),
        (True, False, [f"-v {line}", f"{line} -v", f"{line} --verbose"]),
        (False, True, [f"-q {line}", f"{line} -q", f"{line} --quiet"]),
    ):
        for each in lines:
            found = parsed(each)
            assert (found.verbose, found.quiet) == (loud, quiet), each


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "COMMAND"),
        ("run-scenario", "-f/--filename"),
        ("run-scenario -f s --noop --embedded-swift", "not allowed with"),
        ("run-scenario -f s -S nowhere", "-S/--storage-url: the URL 'nowhere' is invalid"),
        ("run-scenario -f s -V 9", "auth version '9' is unknown"),
        ("report-scenario", "-s/--stats-file"),
        ("report-scenario -s f --csv --json", "not allowed with"),
        ("report-scenario -s f -K s3cret", "unknown option: -K"),
        ("run-scenario -f s --noop=s3cret", "argument --noop: takes no value\n"),
        ("run-scenario -f s -U 5 s3cret", "1 unexpected argument\n"),
        ("run-scenario -f s --profile s3cret", "1 unexpected argument; --profile takes no value"),
        ("run-scenario very_small x.scenario", "1 unexpected argument; give one scenario"),
        ("run-scenario -fvery_small small", "1 unexpected argument; give one scenario"),
        ("run-scenario --scenario=small very_small", "1 unexpected argument; give one scenario"),
        ("run-scenario -f small -f very_small", "-f: small and very_small: give one scenario"),
        ("find-limit --slo p99<1s -f s --scenario=t", "-f: s and t: give one scenario"),
        ("analyze x.stat.gz", "did you mean report-scenario? "),
        ("sweep users=1,2 very_small", "did you mean run-scenario --sweep? "),
        ("stat --duration 10", "did you mean run-scenario? "),
        ("upload d container", "1 unexpected argument behind DIR"),
        ("run-scenario s3cret", "1 unexpected argument; give the scenario with -f"),
        ("run-scenario -f s --concurrent 5", "--concurrent; did you mean --users?"),
        ("run-scenario -f s --vus=5", "--vus; did you mean --users?"),
        ("run-scenario -f s --jobs 5", "--jobs; did you mean --users?"),
        ("find-limit -f s --step-duration 5", "--step-duration; did you mean --step-seconds?"),
        ("run-scenario -f s --time 30s", "--time; did you mean --duration?"),
        ("run-scenario -f s --no-cleanup", "--no-cleanup; did you mean --keep-objects?"),
        ("run-scenario -f s --s3key AK", "--s3key; did you mean --s3-access-key?"),
        ("run-scenario -f s --output f", "--output; did you mean --stats-file?"),
        ("run-scenario -f s --timeout 3", "--timeout; did you mean --operation-timeout?"),
        ("run-scenario -f s --files 3", "the scenario has the sizes and the numbers of objects"),
        ("run-scenario -f s --obj.size 3", "the scenario has the sizes and the numbers of objects"),
        ("cleanup-containers --threads 3", "--threads; did you mean --concurrency?"),
        ("report-scenario f --csv g", "1 unexpected argument; stat files stand together; -f FILE"),
        ("download d --container c", "1 unexpected argument; it saves nothing; --verify DIR comp"),
        ("run-scenario -f s --user 20", "for concurrent users give -u 20 or --user-count 20"),
        ("run-scenario -f s --user=20", "for the login's user name -U 20"),
        ("run-scenario -f s --use 20", "it could be --user-count or --use-existing or --user"),
        ("run-scenario -f s --os-p=s3cret", "--os-p is ambiguous: it could be --os-password or "),
        ("run-scenario --scenario-fle s", "did you mean --scenario-file"),
        ("run-scenario -f s --bogus -x", "unknown option: --bogus, -x\n"),
        ("run-scenario -f s --pasword s3cret", "--pasword; did you mean --os-password or --web"),
        ("report-scenario --csv", "STATS_FILE -s/--stats-file is required"),
        ("report-scenario -s f g", "not allowed with argument"),
        ("run-scen --csv", "did you mean run-scenario?"),
        ("-f s run-scenario", "unknown option: -f; give a command's options after its name"),
        ("bench files eat d", "METHOD: invalid choice; choose from read, write, copy"),
        ("bench files read d --sweep users", "--sweep: 'users': give users=1,20,50 or files="),
        ("bench files read d --sweep size=3", "--sweep: 'size=3': give users=1,20,50 or files="),
        ("upload d --container c --sweep files=4", "--sweep: 'files=4': give users=16,32"),
        ("upload d --container /x", "--container: '/x': give a container, or CONTAINER/FOLDER"),
    ],
)
def test_wrong_usage_has_status_2_and_names_the_fault(line: str, says: str, shell: Shell) -> None:
    said = shell(*line.split())
    assert said.status == 2
    assert says in said.err
    assert len(said.err.splitlines()) == 2
    assert "s3cret" not in said.err


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("run-scenario -f s -u 1 --users 2 --user-count=3 -K a -K b", ["--users", "--key"]),
        ("run-scenario -f s -f s -u 1 -u 1 -v -v --pctile 50 --pctile 99", []),
        ("compare a b --seed 1 --seed 2", ["--seed"]),
        ("ab -f s -u 1 --a='-u 2' --b='-u 3' --b='-f t -u 4'", ["--b"]),
    ],
)
def test_of_several_values_of_an_option_the_last_counts_with_a_warning(
    line: str, names: list[str], shell: Shell
) -> None:
    said = shell(*shlex.split(line), "--show-config")
    assert said.status == 0
    warnings = [f"Warning: {each} is given more than once: the last value counts" for each in names]
    assert said.err.splitlines() == warnings


def test_a_variant_replaces_options_of_both_without_a_warning(shell: Shell) -> None:
    said = shell("ab", "-f", "very_small", "-u", 1, "--a=-u 2 -f small", "--b=-u 3 --bogus")
    assert said == (2, "", "ssbench-master: --b: unknown option: --bogus\n")


def test_a_letter_with_more_behind_it_is_refused_and_not_shown(shell: Shell) -> None:
    """Newer argparse takes what follows for another option."""
    said = shell("run-scenario", "-f", "s", "-vPs3cret")
    assert said.status == 2
    fault, _ = said.err.splitlines()
    assert fault in {
        "ssbench-master run-scenario: argument -v/--verbose: takes no value",
        "ssbench-master run-scenario: 1 unexpected argument",
    }


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("find-limit", "--slo"),
        ("replay", "FILE"),
        ("compare", "STATS_FILE"),
        ("browse", "DIR"),
        ("make-key", "FILE"),
        ("bench put", "CONTAINER[/PREFIX]"),
        ("bench files", "METHOD, DIR"),
        ("bench files read", "DIR"),
        ("gen-files", "DIR, COUNT, TOTAL"),
        ("diff-dirs", "A, B"),
        ("upload", "DIR, --container"),
        ("download", "--container"),
        ("nectar", "ARGS"),
        ("profiler", "ARGS"),
    ],
)
def test_arguments_that_a_command_needs_are_named(command: str, missing: str, shell: Shell) -> None:
    said = shell(*command.split()).err.splitlines()[0]
    assert said.endswith(f": the following arguments are required: {missing}")


@pytest.mark.parametrize(
    ("command", "alone", "needed"),
    [
        (command, each.flags[-1], needed.flags[-1])
        for command, entry in COMMANDS.items()
        for each in entry.rows
        for needed in entry.rows
        if each.needs == needed.name
    ],
)
def test_an_option_that_does_nothing_alone_is_an_error(
    command: str, alone: str, needed: str, shell: Shell
) -> None:
    row = next(each for each in COMMANDS[command].rows if alone in each.flags)
    words = [alone] if row.type is bool else [alone, row.choices[0] if row.choices else "5"]
    told = shell(*command.split(), *words, "--show-config")
    assert told.status == 2
    assert f": {alone} does nothing without {needed}\n" in told.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--arrivals often", "--arrivals: invalid choice; choose from uniform, poisson"),
        ("--sweep users", "--sweep: 'users': give users=1,20,40 or rate=100,200"),
        ("--sweep users=1,1", "--sweep: 'users=1,1': 1 is given more than once"),
        ("--zmq-key-file=", "--zmq-key-file: is empty: give a name, or leave the option out"),
        (
            "--stop-on-error --max-consecutive-errors 2",
            "--max-consecutive-errors: not allowed with argument --stop-on-error",
        ),
        (
            "--resume-cleanup x",
            "--resume-cleanup: not allowed with argument -f/--filename/--scenario",
        ),
    ],
)
def test_an_invalid_value_is_named_with_the_valid_ones(words: str, says: str, shell: Shell) -> None:
    said = shell("run-scenario", "-f", "s", *words.split())
    assert f"argument {says}" in said.err.splitlines()[0]


def remote(words: str) -> argparse.Namespace:
    return parsed(f"run-scenario -f s {words}")


def test_hosts_of_workers_may_be_in_a_file(shell: Shell) -> None:
    hosts = shell.folder / "hosts.txt"
    hosts.write_text("# our hosts\nbench-{1..2}:4\nme@other\n")
    listed = remote(f"--ssh-workers @{hosts}").ssh_workers
    assert listed == remote("--ssh-workers bench-1:4,bench-2:4,me@other").ssh_workers
    for content, why in (
        (b"\xff", "is not UTF-8 text"),
        (b"a:0", "a:0"),
        (None, "No su"),
    ):
        hosts.unlink()
        if content is not None:
            hosts.write_bytes(content)
        said = shell("run-scenario", "-f", "s", "--ssh-workers", f"@{hosts}").err
        assert said.startswith(f"ssbench-master run-scenario: argument --ssh-workers: {hosts}: ")
        assert why in said


def test_a_command_for_ssh_has_the_quotes_of_a_shell(shell: Shell) -> None:
    words = remote("""--ssh-workers a --ssh-command "ssh -i '~/my keys/bench'" """).ssh_command
    assert words == ("ssh", "-i", "~/my keys/bench")
    for text in ("", " ", "ssh '"):
        said = shell("run-scenario", "-f", "s", "--ssh-command", text)
        assert f"{text!r}: give a command, as in 'ssh -i" in said.err


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("-c 1000 --zmq-host h 1", {"concurrency": 1000, "address": "h", "worker_id": "1"}),
        (
            "--retries 3 -p 50 -v --zmq-work-port 1 --zmq-results_port 2 --batch-size 1 --master h",
            {
                "retries": 3, "profile_count": 50, "verbose": True, "work_port": 1,
                "results_port": 2, "address": "h",
            },
        ),
        (
            "",
            {
                "address": "127.0.0.1", "concurrency": 64, "retries": 10, "worker_id": None,
                "work_port": 13579, "results_port": 13580, "control_port": 13581,
                "profile_count": None, "parent_pipe": None,
            },
        ),
    ],
)  # fmt: skip
def test_command_lines_of_the_worker(line: str, values: dict[str, object]) -> None:
    ns = vars(worker_parser().parse_args(line.split()))
    assert {name: ns[name] for name in values} == values


def test_version(shell: Shell) -> None:
    assert shell("--version") == shell.worker("--version") == (0, f"ssbench {__version__}\n", "")


ALL_PARSERS = {
    each.prog: each for root in (master_parser(), worker_parser()) for each in parsers(root)
}


def test_each_help_says_what_its_letters_are_in_other_commands() -> None:
    """In the same words, wherever one of them is."""
    tables = {name: each.rows for name, each in COMMANDS.items()} | {"ssbench-worker": WORKER}
    uses: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for command, rows in tables.items():
        for letter, *names in (row.flags for row in rows if row.flags):
            if len(letter) == 2:
                uses.setdefault(letter, {}).setdefault(tuple(names), []).append(command)
    assert LETTERS.keys() == {letter for letter, by_names in uses.items() if len(by_names) > 1}
    for letter, words in LETTERS.items():
        for names, commands in uses[letter].items():
            assert any(f"{name} in " in words for name in names)
            for command in commands:
                program = command if command in ALL_PARSERS else f"ssbench-master {command}"
                text = "".join(ALL_PARSERS[program].format_help().split())
                assert "".join(words.split()) in text, program
                assert f"in {program.partition(' ')[0]}" in words or command in words


@pytest.mark.parametrize("program", ALL_PARSERS)
def test_short_help_fits_one_screen(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("-h", "--help"):
        with pytest.raises(SystemExit) as caught:
            ALL_PARSERS[program].parse_args([flag])
        assert caught.value.code == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"usage: {program}")
        assert len(lines) < 24
        assert max(map(len, lines)) <= 80
        assert lines[-1].endswith(f": {program} --help-all")


@pytest.mark.parametrize(
    ("command", "needs", "line"),
    [
        ("run-scenario", "-f SCENARIO_FILE", "-u, --users COUNT             concurrent users"),
        ("find-limit", "-f SCENARIO_FILE --slo SLO", "--over users|rate             what to inc"),
        ("compare", "STATS_FILE...", "STATS_FILE                results of two or more runs"),
        ("bench put", "CONTAINER[/PREFIX]", "-u, --users COUNT            concurrent users, 1"),
        ("gen-files", "DIR COUNT TOTAL", "DIR    a new folder, or an empty one"),
        ("upload", "DIR --container CONTAINER[/FOLDER]", "--sweep users=N,N               run"),
        ("bench", "COMMAND", "suite   "),
    ],
)
def test_short_help_has_what_must_be_given_and_the_options_used_most(
    command: str, needs: str, line: str, shell: Shell
) -> None:
    usage, *others = shell(*command.split(), "-h").out.splitlines()
    assert usage == f"usage: ssbench-master {command} {needs} [options]"
    assert any(other.startswith(f"  {line}") for other in others)


@pytest.mark.parametrize("program", ALL_PARSERS)
def test_help_all_shows_each_option(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = ALL_PARSERS[program]
    with pytest.raises(SystemExit) as caught:
        parser.parse_args(["--help-all"])
    assert caught.value.code == 0
    words = re.split(r"[\s,\[\]|]+", capsys.readouterr().out)
    shown = [each for each in parser._actions if each.help is not argparse.SUPPRESS]
    assert {flag for each in shown for flag in each.option_strings} <= {*words}


EXAMPLES = [line for each in ALL_PARSERS.values() for line in each.examples]


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_the_short_help_are_valid(line: str) -> None:
    words = shlex.split(line)[1:]
    if words[0] == "nectar":
        words = bench_words(words[1:], {})
    elif words[0] == "profiler":
        words = upload_words(words[1:])
    if "-h" not in words:
        assert master_parser(words).parse_args(words).command


def test_full_help_of_run_scenario_is_in_groups(shell: Shell) -> None:
    text = shell("run-scenario", "--help-all").out
    titles = ["what to run:", "execution:", "results:", "workers:", "store:",
              "authentication, version 1 (tempauth, swauth):", "authentication, Keystone:",
              "authentication with a token:", "TLS:"]  # fmt: skip
    places = [text.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    assert "--zmq-results_port" not in text


def test_options_of_unused_commands_are_not_built() -> None:
    words = ["kill-workers", "--worker-wait", "3"]
    parser = master_parser(words)
    assert parser.parse_args(words).worker_wait_s == 3
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    filled = {name for name, command in action.choices.items() if len(command._actions) > 2}
    assert filled == {"kill-workers"}
    whole = master_parser(["--help-all", *words])
    assert whole.format_help() == master_parser().format_help()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_command_has_the_same_help_alone_as_among_all(command: str, shell: Shell) -> None:
    among_all = ALL_PARSERS[f"ssbench-master {command}"]
    assert shell(*command.split(), "-h") == (0, among_all.format_short_help(), "")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("bench put c -p 'a b'", '--policy: "a b" is not the name of a policy'),
        ("bench suite -p a/b", '--policy: "a/b" is not the name of a policy'),
        ("upload d --container c -p a/b", '--policy: "a/b" is not the name of a policy'),
        ("replay log --container-base a/b", '--container-base: "a/b" has a slash'),
        ("run x --container-count 1e9", "--container-count: 1e9 is above 10000000"),
    ],
)
def test_an_option_takes_what_the_key_of_a_scenario_takes(
    line: str, says: str, shell: Shell
) -> None:
    told = shell(*shlex.split(line))
    assert (told.status, says in told.err) == (2, True), told.err
