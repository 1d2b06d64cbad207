//! A small storage result with known figures, to test its formats.

use roundtrip_latency::Histogram;
use roundtrip_layers::reasons::{Class, Place, Process, Reason, Role, Stretch, Why};
use roundtrip_layers::storage::{
    Begin, Breakdown, Doubt, End, Expected, InterruptUse, Interruptions, Layer, Layers, Missing, Piece,
    Request, Write,
};
use roundtrip_layers::{Softirq, Thread, Unknown};
use roundtrip_run::storage::{
    Api, BlockResult, Bus, Call, Device, Durability, Interrupt, Opened, StoragePath, StoragePlan,
    StorageResult, StorageSeries, StraceBlock, WriterResult,
};

use roundtrip_analysis::storage::SeriesLayers;

const TID: u32 = 7;

fn histogram(calls: &[Call]) -> Histogram {
    let mut out = Histogram::new();
    calls.iter().for_each(|call| out.record(call.latency_ns()));
    out
}

/// A native writer with two calls of 16 KiB, and two more under strace.
pub(crate) fn result() -> StorageResult {
    let calls = vec![
        Call { start_ns: 1_000_000, end_ns: 1_100_000 },
        Call { start_ns: 2_000_000, end_ns: 2_300_000 },
    ];
    let straced = vec![
        Call { start_ns: 3_000_000, end_ns: 3_150_000 },
        Call { start_ns: 4_000_000, end_ns: 4_350_000 },
    ];
    let device = Device {
        name: "mmcblk0".into(),
        dev: 179 << 20,
        bus: Bus::Mmc,
        model: Some("SD64G".into()),
        size_bytes: Some(64_000_000_000),
        scheduler: Some("mq-deadline".into()),
        queues: Some(1),
        nr_requests: Some(256),
        write_cache: Some("write back".into()),
        interrupts: vec![Interrupt { irq: 36, name: "mmc0".into(), cpus: Some("1".into()) }],
        ..Device::default()
    };
    StorageResult {
        plan: StoragePlan { strace: true, ..StoragePlan::default() },
        path: StoragePath {
            mount_point: "/data".into(),
            file_system: "ext4".into(),
            mount_options: "rw,relatime".into(),
            device: Some(device),
            missing: Vec::new(),
        },
        clock_read_cost_ns: 20.0,
        writers: vec![WriterResult {
            api: Api::Native,
            durability: Durability::Dsync,
            opened: Opened { pid: TID, tid: TID, runtime: None },
        }],
        series: vec![StorageSeries {
            writer: 0,
            size_bytes: 16 << 10,
            latency: histogram(&calls),
            blocks: vec![BlockResult { calls, snapshot: Some(1) }],
            strace: vec![StraceBlock { calls: straced, system_ns: vec![Some(138_000), None] }],
        }],
        recorder: None,
        recording_ended: None,
        not_possible: vec!["java-file: there is no Java here".into()],
        notes: vec!["a note".into()],
    }
}

/// Why the calls did not move: a wait for a CPU in the layer wake.
fn reasons(pieces: &[Piece]) -> Vec<Stretch> {
    let thread = |tid, comm: &str| Thread { tid, pid: Some(tid), comm: comm.into(), prio: Some(120) };
    let stretch = |piece: &Piece| {
        let (reason, by) = match piece.layer {
            Layer::Device => {
                (Reason::Device { device: None, operation: Some("write"), interrupt: None }, None)
            }
            Layer::Irq => {
                (Reason::Interrupted { by: roundtrip_layers::Interrupt::Softirq(Softirq::BLOCK) }, None)
            }
            Layer::Wake => (Reason::Cpu, Some(thread(90, "rustc"))),
            Layer::Unexplained => (Reason::Unknown { why: Unknown::NoEvent }, None),
            _ => (Reason::OwnWork, Some(thread(TID, "writer"))),
        };
        let process = by.as_ref().map(|thread| Process {
            pid: thread.tid,
            name: thread.comm.clone(),
            class: Class::of(thread.prio),
        });
        let why = Why {
            process,
            thread: by,
            delayed: Some(thread(TID, "writer")),
            place: Some(Place::Layer(piece.layer.name())),
            ..Why::of(reason, Role::Writer)
        };
        Stretch { begin_ns: piece.begin_ns, end_ns: piece.end_ns, why }
    };
    pieces.iter().map(stretch).collect()
}

/// A call's parts, in nanoseconds.
fn pieces<const COUNT: usize>(parts: [(u64, u64, Layer); COUNT]) -> Vec<Piece> {
    parts.map(|(begin_ns, end_ns, layer)| Piece { begin_ns, end_ns, layer }).into()
}

fn request(flush: bool, issued_ns: u64, ended_ns: u64) -> Request {
    Request {
        dev: 179 << 20,
        flush,
        sectors: if flush { 0 } else { 32 },
        leaf: true,
        issued_ns,
        started_ns: issued_ns + 1_000,
        ended_ns,
        completed_ns: ended_ns + 2_000,
        completed_cpu: 0,
        interrupt_cpu: Some(1),
        begin: Begin::Mmc,
        end: if flush { End::Mmc } else { End::Interrupt },
        ..Request::default()
    }
}

/// The divided calls: the second waits for a flush, and part of it is unexplained.
pub(crate) fn layers(result: &StorageResult) -> Vec<SeriesLayers<'_>> {
    let mut breakdown = Breakdown::keeping(1);
    let mut interruptions = Interruptions::default();
    interruptions.controller.insert(1, InterruptUse { count: 1, handled_ns: 1_500 });
    let first = pieces([
        (1_000_000, 1_002_000, Layer::Platform),
        (1_002_000, 1_020_000, Layer::Fs),
        (1_020_000, 1_080_000, Layer::Device),
        (1_080_000, 1_090_000, Layer::Irq),
        (1_090_000, 1_100_000, Layer::Wake),
    ]);
    breakdown.add(
        Write { start_ns: 1_000_000, end_ns: 1_100_000, tid: TID },
        Layers {
            others_commits: Vec::new(),
            usual_ns: 0,
            reasons: reasons(&first),
            pieces: first,
            requests: vec![request(false, 1_019_000, 1_080_000)],
            interruptions: interruptions.clone(),
            behind_others_ns: 7_000,
            missing: None,
            unrecorded_switches: 0,
            unexplained_for_switches_ns: 0,
        },
    );
    let second = pieces([
        (2_000_000, 2_002_000, Layer::Platform),
        (2_002_000, 2_050_000, Layer::Fs),
        (2_050_000, 2_290_000, Layer::Device),
        (2_290_000, 2_300_000, Layer::Unexplained),
    ]);
    breakdown.add(
        Write { start_ns: 2_000_000, end_ns: 2_300_000, tid: TID },
        Layers {
            others_commits: Vec::new(),
            usual_ns: 0,
            reasons: reasons(&second),
            pieces: second,
            requests: vec![request(false, 2_049_000, 2_100_000), request(true, 2_101_000, 2_288_000)],
            interruptions,
            behind_others_ns: 0,
            missing: Some(Missing::Lost),
            unrecorded_switches: 2,
            unexplained_for_switches_ns: 9_000,
        },
    );
    breakdown.unrecorded_switches = 3;
    breakdown.doubts.insert(Doubt::Lacks(Expected::Waking));
    vec![SeriesLayers { series: &result.series[0], breakdown }]
}
