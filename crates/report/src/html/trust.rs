//! How reliable a run is: facts for and against its figures. Must not know the page.

use roundtrip_layers::Flag;
use roundtrip_run::Results;
use roundtrip_run::ipc::throughput::Batch;

use super::subject::Subject;
use crate::environment;
use crate::text::quantity::three_digits;

/// Facts for and against the figures, without warnings.
pub(super) fn trust(subject: &Subject<'_>) -> Vec<String> {
    let run = subject.analysed.run;
    let mut lines = Vec::new();
    lines.extend(run.partial.as_ref().map(environment::partial));
    // The page shows below, with the machine, how threads are woken.
    let driver = run.environment.driver.as_deref().map(|driver| driver.split(';').next().unwrap_or(driver));
    lines.extend(driver.map(|driver| match driver.starts_with("emulated") {
        true => format!(
            "Measured over the {driver}: it shows how the scheduler, the CPUs and load affect a call, not \
             what the kernel's driver costs."
        ),
        false => format!("Measured over the {driver}."),
    }));
    lines.extend(spread(&run.results));
    if run.environment.cpus.virtualised == Some(true) {
        lines.push(
            "Measured on a virtual machine: the hypervisor may have delayed calls without the guest kernel \
             noticing."
                .to_owned(),
        );
    }
    let lost = subject
        .explained
        .iter()
        .filter(|one| {
            one.explanation.flags.iter().any(|flag| matches!(flag, Flag::EventsLost | Flag::OutsideRecording))
        })
        .count();
    if !subject.explained.is_empty() {
        let of = subject.explained.len();
        let without = subject.explained.iter().filter(|one| one.without_events.is_some()).count();
        lines.push(match (lost, without) {
            (0, 0) if of == 1 => "The kernel's events for the explained call are complete.".to_owned(),
            (0, 0) => format!("The kernel's events for all {of} explained calls are complete."),
            (lost, without) => {
                format!("Of {of} explained calls, {without} have no kernel events and {lost} lack some.")
            }
        });
    }
    lines
}

/// How much repetitions differ.
fn spread(results: &Results) -> Option<String> {
    if let Some(result) = &results.latency {
        let medians: Vec<f64> = result
            .series
            .iter()
            .flat_map(|series| {
                series
                    .pairs
                    .first()
                    .into_iter()
                    .flat_map(move |first| (0..first.callers.len()).map(move |at| (series, at)))
            })
            .filter_map(|(series, at)| {
                let of = |pair: &roundtrip_run::ipc::latency::PairResult| {
                    pair.callers.get(at)?.times().percentile_ns(50.0)
                };
                let all: Vec<f64> = series.pairs.iter().filter_map(of).map(|ns| ns as f64).collect();
                let (low, high) =
                    all.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &ns| (low.min(ns), high.max(ns)));
                (all.len() > 1 && low > 0.0).then(|| (high / low - 1.0) * 100.0)
            })
            .collect();
        let most = medians
            .iter()
            .copied()
            .fold(None, |most: Option<f64>, one| Some(most.map_or(one, |most| most.max(one))));
        return Some(match most {
            Some(percent) => format!("The pairs' medians differ by up to {}%.", three_digits(percent)),
            None => "One run of one pair: how much repetitions differ is unknown.".to_owned(),
        });
    }
    let result = results.throughput.as_ref()?;
    let spreads = result.rows.iter().filter_map(|row| {
        let (q1, q3) = (row.quantile(0.25, Batch::real_time_ns)?, row.quantile(0.75, Batch::real_time_ns)?);
        Some((q3 - q1) / 2.0 / row.real_time_ns()? * 100.0)
    });
    let most = spreads.fold(0.0_f64, f64::max);
    Some(match result.plan.repetitions {
        0 | 1 => "One repetition: how much repetitions differ is unknown.".to_owned(),
        repetitions => {
            format!("{repetitions} repetitions; half their interquartile range is up to {most:.0}%.")
        }
    })
}
