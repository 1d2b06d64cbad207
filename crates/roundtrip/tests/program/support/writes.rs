//! Recorded writes of a test: a recorder for selected threads, and a writer in a separate process.

use std::os::fd::AsFd as _;
use std::path::Path;

use roundtrip_bench::directory::scratch::Scratch;
use roundtrip_bench::storage::{Block, Target, Writer, WriterJob};
use roundtrip_bench::worker::{Spawner, WorkerGroup};
use roundtrip_layers::storage::Write;
use roundtrip_run::Scheduling;
use roundtrip_run::storage::WriteEvents;
use roundtrip_run::storage::{Api, Call, Durability, Java, Position, StoragePath};
use roundtrip_tracefs::{Instance, Recording, Selection, Trace, Tracefs};

/// Records until it is read, which removes the instance.
pub(crate) struct Recorder {
    instance: Instance,
    tracefs: Tracefs,
    started_ns: u64,
}

impl Recorder {
    pub(crate) fn start(tids: &[u32], events: WriteEvents) -> Self {
        let tracefs = Tracefs::open().unwrap();
        let selection =
            roundtrip_bench::recorder::selection::writes(tids, events, |event| tracefs.has_event(event))
                .unwrap();
        Self::of(tracefs, &selection)
    }

    pub(crate) fn of(tracefs: Tracefs, selection: &Selection) -> Self {
        let instance = Instance::create(&tracefs, selection, 16 << 10).unwrap();
        let started_ns = instance.on().unwrap();
        Self { instance, tracefs, started_ns }
    }

    pub(crate) fn stop(self) -> Trace {
        let stopped_ns = self.instance.off().unwrap();
        let scratch = Scratch::new().unwrap();
        let place = scratch.path().join("recording");
        let recording = Recording::create(&place, self.instance.header(), self.tracefs.root()).unwrap();
        let number = recording.add(&self.instance.snapshot(self.started_ns, stopped_ns).unwrap()).unwrap();
        recording.read(number).unwrap()
    }
}

/// A native writer with its file.
pub(crate) struct Writing {
    pub(crate) group: WorkerGroup,
    pub(crate) writer: Writer,
    pub(crate) target: Target,
}

impl Writing {
    /// Overwrites a file of 1 MiB with O_DSYNC, with the given scheduling if there is one.
    pub(crate) fn start(file: &Path, scheduling: Option<Scheduling>, cpus: Option<Vec<u32>>) -> Self {
        let job = WriterJob {
            api: Api::Native,
            durability: Durability::Dsync,
            position: Position::Overwrite,
            scheduling,
            cpus,
            java: Java::default(),
        };
        let mut group = WorkerGroup::new(Spawner::with_exe(env!("CARGO_BIN_EXE_roundtrip"))).unwrap();
        let mut target = Target::create(file).unwrap();
        target.fill(1 << 20).unwrap();
        let writer = Writer::start(&mut group, &job, target.as_fd(), 1 << 20).unwrap();
        Self { group, writer, target }
    }

    pub(crate) fn tid(&self) -> u32 {
        self.writer.opened.tid
    }

    pub(crate) fn write(&mut self, calls: u32) -> Vec<Call> {
        let block = Block { size_bytes: 16 << 10, calls, warm_up: 3 };
        self.writer.write(&mut self.group, block).unwrap()
    }

    /// The path to the file's device.
    pub(crate) fn path(&self) -> StoragePath {
        path_of(self.target.path())
    }
}

pub(crate) fn path_of(file: &Path) -> StoragePath {
    use std::os::unix::fs::MetadataExt as _;
    let dev = std::fs::metadata(file).unwrap().dev();
    let numbers = (rustix::fs::major(dev), rustix::fs::minor(dev));
    roundtrip_bench::storage::way_down(
        &roundtrip_bench::kernel::root::Root::real(),
        &std::fs::canonicalize(file).unwrap(),
        numbers,
    )
}

/// The devices below a file, for the layers.
pub(crate) use roundtrip_analysis::storage::devices;

pub(crate) fn writes(calls: &[Call], tid: u32) -> Vec<Write> {
    calls.iter().map(|call| Write { start_ns: call.start_ns, end_ns: call.end_ns, tid }).collect()
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
