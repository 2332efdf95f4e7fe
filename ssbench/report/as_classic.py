"""A run in the layout of ssbench 0.3.9; of its files, exactly what it printed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from ssbench.core.text import printable
from ssbench.report.as_text import (
    RATE_TITLE,
    count_text,
    items_text,
    render_wide,
    run_text,
)
from ssbench.report.model import Distribution, Report, Row, percent_text
from ssbench.report.text_layout import percentile_name

#: Remarks that the reports of ssbench 0.3.9 did not make.
_LATER_NOTES = ("no_store", "last_start", "closed_loop")


def as_0_3_9(report: Report) -> Report:
    """A report on a file of ssbench 0.3.9, without what it did not say: how the load was made, that
    a run is short, and whether the load generator was the limit (it recorded no metrics)."""
    sections = []
    for section in report.sections:
        found = section.notes or ()
        if section.key == "settings":
            section = structs.replace(section, notes=[])
        elif section.key == "notes":
            kept = [each for each in found if each.figures["note"] not in _LATER_NOTES]
            section = structs.replace(section, notes=kept)
        elif section.key in ("steadiness", "load_generator"):
            hidden = [each for each in found if "json" in each.formats]
            brief = [n.sentence for n in hidden if n.figures.get("finding") == "too_short"]
            kept = [each for each in found if each.sentence not in brief or each in hidden]
            if section.key == "load_generator":
                kept = [structs.replace(each, formats="json") for each in found]
            section = structs.replace(section, notes=kept)
        sections.append(section)
    return structs.replace(report, sections=sections)


def render_classic(report: Report) -> str:
    """The report for people and their scripts, ending with a newline.

    0.3.9 had runs alone: a series or a comparison is as with --wide.
    """
    is_run = report.kind == "run"
    return run_text(report, None, _block, classic=True) if is_run else render_wide(report)


def _block(report: Report, row: Row, _most: int | None) -> Iterator[str]:
    """The figures of an operation."""
    rate, moved = row["requests_per_s"], row["moved_bytes_per_s"]
    line = f"       {count_text(row)}  {RATE_TITLE} {'  N/A' if rate is None else f'{rate:5.1f}'}"
    if not report.legacy:  # 0.3.9 does not store the size of what was read
        line += f"  Throughput: {'N/A' if moved is None else f'{moved / 1e6:.2f} MB/s'}"
    yield line
    percent = report.percentile
    column = f"{percent_text(percent)}%-ile"
    yield f"{'':28}min       max      avg      std_dev  {column:26}Worst latency TX ID"
    parts = [(row, "all obj sizes")]
    for of_class in row["size_classes"].rows:
        parts.append((of_class, f"{printable(of_class['size_class']):>8} objs"))
    for part, label in parts:
        # Operations of 0.3.9 --noop took 0 s: no figure has them, but their id is shown.
        zeros = report.legacy and part["count"] and not part["last_byte_latency"].count
        for title, key in (("First-byte", "first_byte"), ("Last-byte ", "last_byte")):
            found: Distribution = part[f"{key}_latency"]
            # An empty id was Python's None.
            nothing = "None" if zeros or found.worst_id is not None else ""
            worst = printable(found.worst_id or "") or nothing
            yield f"{_latency_line(title, found, percent, label)}{worst}"
    if row.get("items"):
        yield f"       {items_text(row)}"
    if report.legacy:
        return
    service, response = row["last_byte_latency"], row["response_time"]
    title = "Service time (from start)" if response else "Last-byte"
    for name, found in ((title, service), ("Response time (from due)", response)):
        if found and found.count:
            shown = ", ".join(
                f"{percentile_name(each)} {'N/A' if value is None else f'{value / 1e6:.3f} ms'}"
                for each, value in found.percentiles.items()
            )
            yield f"       {name} percentiles: {shown}"


def _latency_line(title: str, found: Distribution, percent: float, label: str) -> str:
    return (
        f"       {title} latency: {_seconds(found.min, 6)} - {_seconds(found.max, 7)}  "
        f"{_seconds(found.mean, 7)}  ({_seconds(found.std_dev, 7)})  "
        f"{_seconds(found.percentiles[percent], 7)}  ({label})  "
    )


def _seconds(value_ns: float | None, width: int) -> str:
    """Seconds with three decimals, or a centred N/A."""
    if value_ns is None:
        return "  N/A  "[7 - width :]
    return f"{value_ns / 1e9:{width}.3f}"
