//! A running recorder, and the folder that it fills with snapshots. Must not know which calls are
//! kept.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use roundtrip_run::ipc::latency::{CallsOf, ExplainPlan};
use roundtrip_tracefs::{Recording, Snapshot};
use rustix::fs::MemfdFlags;

use super::window::Window;
use crate::directory::scratch::Folder;
use crate::error::{Error, Result};
use crate::recorder::{HISTORY_NS, Recorder};
use crate::worker::privileges::lent;

/// A running recorder, and the folder that it fills.
pub(super) struct Tape {
    pub(super) recorder: Recorder,
    pub(super) recording: Recording,
    pub(super) folder: Folder,
    /// An unlinked file in which clients find the recorded windows.
    pub(super) windows: OwnedFd,
    /// When the recorder was last switched on with empty buffers.
    pub(super) armed_ns: u64,
    pub(super) next: u32,
    /// The size of each snapshot's pages.
    pub(super) bytes: BTreeMap<u32, u64>,
    /// Whether recording has ended early.
    pub(super) ended: bool,
    /// The last snapshot: its number, and the window that it covers completely.
    pub(super) last: Option<(u32, Window)>,
    /// Snapshots whose calls are not stored yet.
    pub(super) open: Vec<Open>,
}

/// A snapshot, and the calls in its window received so far.
pub(super) struct Open {
    pub(super) number: u32,
    pub(super) window: Window,
    pub(super) calls: Vec<CallsOf>,
}

impl Tape {
    /// Creates the folders of a recorder.
    pub(super) fn new(recorder: Recorder, plan: &ExplainPlan) -> Result<Self> {
        let folder = Folder::beside(&plan.directory)?;
        let header = recorder.instance.header();
        let recording = Recording::create(&folder.partial, header, recorder.tracefs.root())?;
        let windows = rustix::fs::memfd_create("roundtrip-windows", MemfdFlags::CLOEXEC)
            .map_err(|cause| Error::system("make shared memory for the recorded windows", cause))?;
        Ok(Self {
            recorder,
            recording,
            folder,
            windows,
            armed_ns: 0,
            next: 1,
            bytes: BTreeMap::new(),
            ended: false,
            last: None,
            open: Vec::new(),
        })
    }

    /// The file in which clients read the recorded windows.
    pub(super) fn windows(&self) -> PathBuf {
        lent(&self.windows)
    }

    /// Collects what was recorded from shortly before a call until the recorder was stopped.
    pub(super) fn collect(&self, start_ns: u64, stopped_ns: u64) -> Result<Snapshot> {
        let instance = &self.recorder.instance;
        let mut snapshot = instance.snapshot(self.armed_ns, stopped_ns)?;
        snapshot.keep_from(start_ns.saturating_sub(HISTORY_NS), instance.page_bytes());
        Ok(snapshot)
    }

    /// Stores a snapshot, and restarts the recorder.
    pub(super) fn store(&mut self, snapshot: &Snapshot, stopped_ns: u64) -> Result<u32> {
        let (number, from_ns) = (self.next, snapshot.started_ns.unwrap_or(stopped_ns));
        self.recording.put(number, snapshot)?;
        self.next += 1;
        self.bytes.insert(number, snapshot.cpus.iter().map(|cpu| cpu.pages.len() as u64).sum());
        let window = Window { from_ns, to_ns: stopped_ns };
        window.note(&self.windows())?;
        self.last = Some((number, window));
        self.open.push(Open { number, window, calls: Vec::new() });
        // Taking the snapshot has emptied the buffers.
        self.armed_ns = self.recorder.instance.on_marked()?;
        Ok(number)
    }

    /// Removes a snapshot.
    pub(super) fn remove(&mut self, number: u32) -> roundtrip_tracefs::Result<()> {
        self.bytes.remove(&number);
        self.last = self.last.filter(|last| last.0 != number);
        self.open.retain(|open| open.number != number);
        self.recording.remove(number)
    }

    /// Restarts with empty buffers. Otherwise the recording would have a gap: the time during which
    /// the recorder was stopped.
    pub(super) fn restart(&mut self) -> roundtrip_tracefs::Result<()> {
        self.recorder.instance.off()?;
        self.recorder.instance.clear()?;
        self.armed_ns = self.recorder.instance.on_marked()?;
        Ok(())
    }
}
