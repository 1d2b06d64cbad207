//! Formats the result: figures, goals and the machine. Must not measure or judge.

use std::io::{self, Write};

use roundtrip_latency::resolvable;
use roundtrip_run::environment::{CpuShares, Environment};

use crate::goals::{Bound, GOALS, Key, SELF_LIMIT, judge};
use crate::peers::PEERS;
use crate::plan::{Cell, Condition, Outcome, SIZES_BYTES};

/// The whole report.
pub(crate) fn write(out: &mut impl Write, outcome: &Outcome, environment: &Environment) -> io::Result<()> {
    machine(out, environment)?;
    peers(out, outcome)?;
    let round = |text: &str| format!("{text}, {} rounds", outcome.rounds);
    let us = |ns: f64| format!("{:.2}", ns / 1000.0);
    let median = round("one call [µs], median of the rounds' medians");
    table(out, outcome, &median, |cell| cell.median_ns().map(us))?;
    table(out, outcome, &round("one call [µs], 99th percentile of all calls"), |cell| {
        let p99_ns = cell.latency.percentile_ns(99.0)? as f64;
        resolvable(cell.latency.count(), 99.0).then(|| us(p99_ns))
    })?;
    table(out, outcome, "blocks that ended with client and server on one CPU [%]", |cell| {
        let (together, all) = cell.together;
        (all > 0).then(|| format!("{:.0}", f64::from(together) / f64::from(all) * 100.0))
    })?;
    goals(out, outcome, environment.cpu_shares.as_ref())?;
    for (peer, why) in &outcome.failed {
        writeln!(out, "FAILED: {peer}, in none of the tables: {why}")?;
    }
    for (condition, why) in &outcome.left_out {
        writeln!(out, "NOT MEASURED: {}: {why}", condition.name())?;
    }
    Ok(())
}

fn machine(out: &mut impl Write, environment: &Environment) -> io::Result<()> {
    let Environment { cpus, kernel, load_average, .. } = environment;
    let unknown = || "unknown".to_owned();
    let governors = cpus.governors.as_ref().map_or_else(
        || "no cpufreq driver".to_owned(),
        |governors| format!("governor {}", governors.keys().cloned().collect::<Vec<_>>().join(", ")),
    );
    let load = load_average.map_or_else(unknown, |[load, ..]| load.to_string());
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let shares =
        environment.cpu_shares.as_ref().map_or_else(unknown, |CpuShares { foreign, stolen, .. }| {
            format!("others {}, hypervisor {}", percent(*foreign), percent(*stolen))
        });
    let virtual_machine = match cpus.virtualised {
        Some(true) => "a virtual machine",
        Some(false) => "no virtual machine",
        None => "virtual or not: unknown",
    };
    writeln!(out, "date            {}, {} build", environment.date, environment.build_profile)?;
    writeln!(
        out,
        "machine         {} × {}, {virtual_machine}, {governors}, {}",
        cpus.usable.len(),
        cpus.model.clone().unwrap_or_else(unknown),
        cpus.idle_driver
            .as_ref()
            .map_or_else(|| "no cpuidle driver".into(), |idle| format!("cpuidle {idle}")),
    )?;
    writeln!(out, "kernel          {}", kernel.release)?;
    writeln!(out, "load before     {load} (1 minute)")?;
    writeln!(out, "CPU time        {shares}")
}

fn peers(out: &mut impl Write, outcome: &Outcome) -> io::Result<()> {
    writeln!(out)?;
    for peer in PEERS {
        let about = match outcome.about.get(peer.name) {
            None => ": not requested, or FAILED: see below".to_owned(),
            Some([server, client]) if server == client && server.is_empty() => String::new(),
            Some([server, client]) if server == client => format!(": {server}"),
            Some([server, client]) => format!(": server {server}; client {client}"),
        };
        let version = peer.package.and_then(version).map_or(String::new(), |version| format!(" ({version})"));
        writeln!(out, "{:<15} {}{version}{about}", peer.name, peer.about)?;
    }
    Ok(())
}

/// A package's version in the lock file that this program was built with.
fn version(package: &str) -> Option<&'static str> {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let entry = LOCK.split_once(&format!("name = \"{package}\"\nversion = \""))?.1;
    Some(entry.split_once('"')?.0)
}

fn size(bytes: usize) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{} KB", bytes / 1024) }
}

fn columns() -> impl Iterator<Item = (Condition, usize)> {
    Condition::ALL.into_iter().flat_map(|condition| {
        let sizes = if condition == Condition::Apart { &SIZES_BYTES[..1] } else { &SIZES_BYTES };
        sizes.iter().map(move |&size_bytes| (condition, size_bytes))
    })
}

fn table(
    out: &mut impl Write,
    outcome: &Outcome,
    title: &str,
    figure: impl Fn(&Cell) -> Option<String>,
) -> io::Result<()> {
    writeln!(out, "\n{title}")?;
    let mut heads = [format!("{:<15}", ""), format!("{:<15}", "")];
    let mut last = None;
    for (condition, size_bytes) in columns() {
        let name = if last.replace(condition) == Some(condition) { "" } else { condition.name() };
        heads[0] += &format!(" {name:>11}");
        heads[1] += &format!(" {:>11}", size(size_bytes));
    }
    for head in heads {
        writeln!(out, "{}", head.trim_end())?;
    }
    for peer in PEERS.iter().filter(|peer| outcome.cells.iter().any(|cell| cell.peer.name == peer.name)) {
        let mut line = format!("{:<15}", peer.name);
        for (condition, size_bytes) in columns() {
            let figure = outcome.cell(peer.name, condition, size_bytes).and_then(&figure);
            line += &format!(" {:>11}", figure.as_deref().unwrap_or("-"));
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn goals(out: &mut impl Write, outcome: &Outcome, shares: Option<&CpuShares>) -> io::Result<()> {
    writeln!(
        out,
        "\ngoals: the median of the rounds' ratios, with its 95% interval. themselves: the second blocks of \
         each of the two cells\nagainst its first ones. 1 means no drift; a goal is not judged if either is \
         off by more than {SELF_LIMIT:.2}"
    )?;
    let name = |(peer, condition, bytes): Key| format!("{peer}, {}, {}", condition.name(), size(bytes));
    writeln!(out, "{:<51} {:<24} {:<12} verdict", "", "ratio", "themselves")?;
    let mut subject = None;
    for goal in GOALS {
        if subject.replace(goal.subject) != Some(goal.subject) {
            writeln!(out, "{}", name(goal.subject))?;
        }
        let (ratio, verdict) = judge(goal, outcome, shares.map(|shares| shares.foreign));
        let demand = match goal.bound {
            Bound::AtMost(most) => format!("≤ {most} × {}", name(goal.other)),
            Bound::Faster(least) => format!("≥ {least} × faster than {}", name(goal.other)),
        };
        let figures = ratio.map_or_else(String::new, |ratio| {
            let interval =
                ratio.interval.map_or_else(String::new, |i| format!(" ({:.2} to {:.2})", i.low, i.high));
            format!("{:.2}{interval}", ratio.median)
        });
        let itself = |(peer, condition, bytes): Key| {
            let against = outcome.cell(peer, condition, bytes).and_then(Cell::against_itself);
            against.map_or("-".to_owned(), |against| format!("{:.2}", against.median))
        };
        let selves = format!("{}, {}", itself(goal.subject), itself(goal.other));
        let stretch = if goal.is_stretch { " (the stretch goal)" } else { "" };
        writeln!(out, "  {demand:<49} {figures:<24} {selves:<12} {verdict}{stretch}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::find;
    use roundtrip_latency::Histogram;

    #[test]
    fn failed_peers_are_named_and_figures_are_under_their_headings() {
        let mut latency = Histogram::new();
        (0..200).for_each(|_| latency.record(2_000));
        let cell = Cell {
            peer: find("futex").expect("a peer"),
            condition: Condition::OneCpu,
            size_bytes: 4096,
            halves_ns: [vec![2000.0; 7], vec![2010.0; 7]],
            together: (3, 4),
            latency,
        };
        let outcome = Outcome {
            rounds: 7,
            cells: vec![cell],
            about: [("futex", ["quick".to_owned(), "slow".to_owned()])].into(),
            failed: vec![("zbus", "no answer for 20 s".into())],
            left_out: vec![(Condition::Free, "two CPUs are needed".into())],
        };
        let mut text = Vec::new();
        write(&mut text, &outcome, &roundtrip_bench::environment::collect())
            .expect("writing to memory succeeds");
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("FAILED: zbus, in none of the tables: no answer for 20 s"), "{text}");
        assert!(text.contains("one copy each way: server quick; client slow"), "{text}");
        assert!(text.contains("NOT MEASURED: free: two CPUs are needed"), "{text}");
        assert!(text.contains("futex                     -        2.00           -"), "{text}");
        assert_eq!(text.matches("not judged: not measured").count(), GOALS.len(), "{text}");
    }

    #[test]
    fn every_third_party_peer_has_a_version() {
        for peer in PEERS.iter().filter_map(|peer| peer.package) {
            assert!(version(peer).is_some_and(|version| version.contains('.')), "{peer}");
        }
    }
}
