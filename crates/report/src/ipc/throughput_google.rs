//! Throughput in Google Benchmark's terms: names, context and rows. Pure: facts in, plain data out.

use std::collections::BTreeMap;

use roundtrip_run::environment::Environment;
use roundtrip_run::ipc::Backend;
use roundtrip_run::ipc::throughput::{ThroughputPlan, ThroughputRow};
use roundtrip_run::ipc::{Mode, Stack};

use crate::google_benchmark::{BYTES_PER_SECOND, Cache, Context, Counter, Row, RowKind};
use crate::text::quantity;

/// The context keys that only this program may set, because an emulated result must never look like
/// a kernel's.
pub const OWN_KEYS: [&str; 3] = ["driver", "kernel", BYTES_PER_SECOND];

/// A family's name, as in Android's programs.
#[must_use]
pub fn family(stack: Stack, mode: Mode) -> &'static str {
    match (stack, mode) {
        (_, Mode::Passthrough) => "BM_sendVec_passthrough",
        (Stack::Binder, Mode::Binderize) => "BM_sendVec_binder",
        (Stack::Hwbinder, Mode::Binderize) => "BM_sendVec_binderize",
    }
}

/// A benchmark's name: `BM_sendVec_binder/4`, `BM_sendVec_binder/64k`.
#[must_use]
pub fn name(stack: Stack, mode: Mode, size_bytes: usize) -> String {
    format!("{}/{}", family(stack, mode), quantity::size(size_bytes))
}

/// The context, with `custom` facts after this program's own.
pub fn context(
    environment: &Environment,
    backend: Option<&Backend>,
    executable: &str,
    custom: &[(String, String)],
) -> Context {
    let Environment { cpus, kernel, .. } = environment;
    let driver = backend.map_or_else(|| "none (in-process calls)".to_owned(), ToString::to_string);
    let own = OWN_KEYS.iter().map(|key| (*key).to_owned()).zip([
        driver,
        kernel.release.clone(),
        "one way".to_owned(),
    ]);
    Context {
        // Google Benchmark writes the offset from UTC as digits.
        date: environment.date.replace('Z', "+00:00"),
        host_name: environment.host_name.clone(),
        executable: executable.to_owned(),
        num_cpus: cpus.online.unwrap_or(cpus.usable.len() as u32),
        mhz_per_cpu: cpus.mhz.unwrap_or(0.0),
        cpu_scaling_enabled: cpus.scaling_enabled(),
        aslr_enabled: None,
        caches: cpus
            .caches
            .iter()
            .map(|cache| Cache {
                kind: cache.kind.clone(),
                level: cache.level,
                size_bytes: cache.size_bytes,
                num_sharing: cache.sharing_cpus,
            })
            .collect(),
        load_avg: environment.load_average.map(Vec::from).unwrap_or_default(),
        library_version: format!("roundtrip {}", environment.roundtrip_version),
        debug_build: environment.build_profile != "release",
        custom: own.chain(custom.iter().cloned()).collect(),
    }
}

/// All repetitions of one benchmark.
#[must_use]
pub fn rows(plan: &ThroughputPlan, row: &ThroughputRow) -> Vec<Row> {
    let index = |found: Option<usize>| found.unwrap_or_default();
    let family_index = index(plan.stacks.iter().position(|&stack| stack == row.stack));
    let instance_index = index(plan.sizes_bytes.iter().position(|&size| size == row.size_bytes));
    let to_row = |(repetition_index, batch): (u32, &roundtrip_run::ipc::throughput::Batch)| Row {
        family_index,
        per_family_instance_index: instance_index,
        run_name: name(row.stack, plan.mode, row.size_bytes),
        kind: RowKind::Iteration { repetition_index },
        repetitions: plan.repetitions,
        threads: 1,
        iterations: batch.iterations,
        real_time_ns: batch.real_time_ns(),
        cpu_time_ns: batch.cpu_time_ns(),
        counters: BTreeMap::from([(
            BYTES_PER_SECOND.to_owned(),
            Counter::bytes_per_second(batch.bytes_per_second()),
        )]),
        label: String::new(),
        error: None,
    };
    (0..).zip(&row.batches).map(to_row).collect()
}

#[cfg(test)]
mod tests {
    use roundtrip_run::environment::Cpus;
    use roundtrip_run::ipc::Profile;
    use roundtrip_run::ipc::throughput::Batch;

    use super::*;

    #[test]
    fn benchmarks_have_androids_names() {
        for (stack, mode, size, expected) in [
            (Stack::Binder, Mode::Binderize, 4, "BM_sendVec_binder/4"),
            (Stack::Hwbinder, Mode::Binderize, 1024, "BM_sendVec_binderize/1024"),
            (Stack::Hwbinder, Mode::Passthrough, 65536, "BM_sendVec_passthrough/64k"),
        ] {
            assert_eq!(name(stack, mode, size), expected);
        }
    }

    #[test]
    fn the_context_names_the_driver_followed_by_custom_facts() {
        let environment = Environment {
            date: "2026-11-21T20:52:07Z".into(),
            cpus: Cpus { online: Some(8), ..Cpus::default() },
            ..Environment::default()
        };
        let backend = Backend::Emulated { profile: Profile::Ack };
        let context = context(&environment, Some(&backend), "./x", &[("build".into(), "eng".into())]);
        assert_eq!(context.date, "2026-11-21T20:52:07+00:00");
        assert_eq!(context.custom[0], ("driver".into(), "emulated driver (ack profile)".into()));
        assert_eq!(context.custom[3], ("build".into(), "eng".into()));
        assert_eq!((context.executable.as_str(), context.num_cpus), ("./x", 8));
    }

    #[test]
    fn a_row_becomes_one_per_repetition_with_the_rate_of_one_direction() {
        let plan = ThroughputPlan { repetitions: 2, ..ThroughputPlan::default() };
        let batch = |call_ns: u64| Batch {
            iterations: 21_296,
            elapsed_ns: 21_296 * call_ns,
            cpu_ns: 0,
            one_way_bytes: 170_368,
        };
        let row = ThroughputRow {
            stack: Stack::Hwbinder,
            size_bytes: 8,
            client_cpus: vec![0],
            server_cpus: vec![0],
            batches: vec![batch(69_974), batch(35_000)],
            latency: None,
        };
        let rows = rows(&plan, &row);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[1].family_index, rows[1].per_family_instance_index), (1, 1));
        assert_eq!(rows[1].kind, RowKind::Iteration { repetition_index: 1 });
        assert_eq!(rows[0].real_time_ns, 69_974.0);
        assert_eq!(rows[0].counters[BYTES_PER_SECOND].value.round(), 114_328.0);
    }
}
