"""Packaging. Run-time needs stand in requirements.txt, the version in ssbench/__init__.py."""

import re
import subprocess
import sys
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent

EXTRAS = {
    # a throw-away real Swift: run-scenario --embedded-swift. Older ones want a memcached.
    "embedded": ["swift>=2.36"],
    # charts in reports of --html; without it these have tables and small lines
    "html": ["plotly>=6.0"],
    # --os-cloud
    "clouds": ["openstacksdk>=4.0"],
    # profiles of the AWS command line that have more than keys, a region and an endpoint
    "aws": ["botocore>=1.34"],
    # --checksum crc32c and crc64nvme, with the instructions of the processor
    "checksum": ["awscrt>=0.24"],
    # report-scenario --parquet
    "parquet": ["pyarrow>=17.0"],
    # to_pandas() from Python
    "pandas": ["pandas>=2.2"],
    # --metrics-port
    "prometheus": ["prometheus_client>=0.20"],
    # --otlp
    "otlp": ["opentelemetry-proto>=1.30"],
    # pinned where another version would find other faults, or format otherwise
    "dev": [
        "ruff==0.17.5",
        "mypy==2.4.1",
        "bandit[toml]==1.9.4",
        "pip-audit==2.10.1",
        'import-linter==2.16; python_version >= "3.11"',
        'import-linter==2.15; python_version < "3.11"',
        "pytest>=8.0",
        "pytest-randomly>=3.16",
        "pytest-timeout>=2.3",
        "pytest-xdist>=3.7",
        "mock>=5.0",
        "hypothesis>=6.100",
        "arch>=7.0",
        "scipy>=1.14",
        "hdrhistogram>=0.10.3",
        "lz4>=4.3",
        "zstandard>=0.22",
        "pandas>=2.2",
        "jsonschema>=4.18",
        "shtab>=1.7",
        "argparse-manpage>=4.6",
        "docutils>=0.20",
        "sphinx==8.1.3",
        "trustme>=1.2",
        "boto3>=1.34",
        "selenium>=4.20",
        "wsgidav>=4.3",
        "cheroot>=10.0",
        "ansible-core>=2.15",
        "kubernetes-validate>=1.30",
        "setuptools>=68",
        "wheel>=0.43",
    ],
    # make fuzz; the newest that CPython 3.10 has a build of is 2.3
    "fuzz": ["atheris>=2.3"],
    # a real Keystone for the tests; the first one that runs without a patch asks for 3.11
    "keystone": [
        'keystone>=27.0; python_version >= "3.11"',
        'keystonemiddleware>=10.7; python_version >= "3.11"',
    ],
}


class Build(build_py):
    """Also makes man pages and shell completions, which are installed below share/."""

    def run(self) -> None:
        super().run()
        place = HERE / "build" / "shellfiles"
        script = str(HERE / "docs" / "shellfiles.py")
        subprocess.run([sys.executable, script, str(place)], check=True)  # nosec B603
        self.distribution.data_files = [
            (str(each.parent.relative_to(place)), [str(each.relative_to(HERE))])
            for each in sorted((place / "share").rglob("*ssbench-*"))
        ]


def version() -> str:
    """``__version__`` as written, without importing what isn't installed yet."""
    text = (HERE / "ssbench" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if not found:
        raise RuntimeError("ssbench/__init__.py: no line __version__ = ...")
    return found[1]


def requirements() -> list[str]:
    lines = (HERE / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def long_description() -> str:
    readme = HERE / "README.rst"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


setup(
    name="ssbench",
    version=version(),
    description="A benchmark suite for OpenStack Swift and other object stores",
    long_description=long_description(),
    long_description_content_type="text/x-rst",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=[*find_packages(include=["ssbench", "ssbench.*"]), "ssbench.scenarios"],
    # scenarios/ stands beside ssbench/ in a checkout and inside of it once installed.
    package_dir={"ssbench.scenarios": "scenarios"},
    package_data={
        "ssbench": [
            "py.typed",
            "report/page.html.j2",
            "live/page.html",
            "commands/browse.html.j2",
        ],
        "ssbench.scenarios": ["*.scenario"],
    },
    cmdclass={"build_py": Build},
    install_requires=requirements(),
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": [
            "ssbench-master = ssbench.cli.start:master",
            "ssbench-worker = ssbench.cli.start:worker",
        ]
    },
    classifiers=[
        "Environment :: Console",
        "Intended Audience :: System Administrators",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: System :: Benchmark",
    ],
)
