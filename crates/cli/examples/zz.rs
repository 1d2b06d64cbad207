use bench::storage::StoragePath;
use layers::storage::{Controller, Devices, Layer, Write, Writes};
use tracefs::Recording;
fn devices(path: &StoragePath) -> Devices {
    let leaves = path.leaves();
    Devices {
        leaves: leaves.iter().map(|d| d.dev).collect(),
        interrupts: leaves.iter().flat_map(|d| d.interrupts.iter().map(|i| i.name.clone())).collect(),
        controllers: leaves
            .iter()
            .map(|d| Controller {
                dev: d.dev,
                names: d.controllers.clone(),
                paths: d.paths.clone(),
                interrupts: d.interrupts.iter().map(|i| i.name.clone()).collect(),
                block_bytes: d.logical_block_bytes.unwrap_or(512),
            })
            .collect(),
        partitions: path.partitions(),
    }
}
fn main() {
    let permille: u64 = std::env::var("PM").ok().and_then(|v| v.parse().ok()).unwrap_or(5);
    let full = std::env::var("FULL").is_ok();
    for dir in std::env::args().skip(1) {
        let dir = std::path::PathBuf::from(dir);

        let run = bench::run::Run::read(&dir).unwrap();
        let result = run.results.storage.unwrap();
        let recording = Recording::open(&dir.join(bench::run::RECORDING)).unwrap();
        for series in &result.series {
            let tid = result.writers[series.writer].opened.tid;
            for block in &series.blocks {
                let Some(s) = block.snapshot else { continue };
                let trace = recording.read(s).unwrap();
                let writes = Writes::new(&trace, devices(&result.path));
                for call in &block.calls {
                    let w = Write { start_ns: call.start_ns, end_ns: call.end_ns, tid };
                    let l = writes.layers(w);
                    let u = l.total_ns(Layer::Unexplained);
                    if u * 1000 <= (w.end_ns - w.start_ns) * permille {
                        continue;
                    }
                    println!(
                        "== {} {} size {} tid {tid}: {} ns, unexplained {u}, unrecorded {} for_switches {} lost {}",
                        dir.display(),
                        result.writers[series.writer].api,
                        series.size_bytes,
                        w.end_ns - w.start_ns,
                        l.unrecorded_switches,
                        l.unexplained_for_switches_ns,
                        l.lost
                    );
                    for p in &l.pieces {
                        println!(
                            "   {:>9} {:>8} {}",
                            p.begin_ns - w.start_ns,
                            p.end_ns - p.begin_ns,
                            p.layer.name()
                        );
                    }
                    for e in &trace.events {
                        if e.time_ns + 30_000 < w.start_ns || e.time_ns > w.end_ns + 20_000 {
                            continue;
                        }
                        let near = l.pieces.iter().any(|p| {
                            p.layer == Layer::Unexplained
                                && e.time_ns + 15_000 > p.begin_ns
                                && e.time_ns < p.end_ns + 15_000
                        });
                        if full || near {
                            let n = match e.body {
                                tracefs::Body::Other { event, .. } => trace.names.text(event).to_owned(),
                                tracefs::Body::VectorEntry { kind } => {
                                    format!("enter {}", trace.names.text(kind))
                                }
                                tracefs::Body::VectorExit { kind } => {
                                    format!("exit {}", trace.names.text(kind))
                                }
                                _ => format!("{:?}", e.body),
                            };
                            println!(
                                "      {:>9} cpu{} tid {} {n}",
                                e.time_ns as i64 - w.start_ns as i64,
                                e.cpu,
                                e.tid
                            );
                        }
                    }
                }
            }
        }
    }
}
