//! Records the kernel's events during each block of writes, as one snapshot of a recording. Must
//! not know what they mean.

use std::path::Path;

use roundtrip_run::RecorderInfo;
use roundtrip_run::storage::WriteEvents;
use roundtrip_tracefs::Recording;

use crate::directory::scratch::Folder;
use crate::error::Result;
use crate::recorder::Recorder;
use crate::recorder::selection;

/// A recorder that is on while a block is written, and the recording that it fills.
#[derive(Debug)]
pub(super) struct BlockRecorder {
    recorder: Recorder,
    recording: Recording,
    folder: Folder,
    /// Why recording has ended early.
    ended: Option<String>,
}

impl BlockRecorder {
    /// Creates a recorder for these writing threads. The recording is moved into place by
    /// [`keep`](BlockRecorder::keep).
    pub(super) fn open(directory: &Path, tids: &[u32], events: WriteEvents, kilobytes: u64) -> Result<Self> {
        let recorder = Recorder::of(kilobytes, |tracefs| {
            selection::writes(tids, events, |event| tracefs.has_event(event))
        })?;
        let header = recorder.instance.header();
        let folder = Folder::beside(directory)?;
        let recording = Recording::create(&folder.partial, header, recorder.tracefs.root())?;
        Ok(Self { recorder, recording, folder, ended: None })
    }

    /// Records events during `write`. If another program disturbs the recorder meanwhile, or if a
    /// snapshot cannot be stored, recording ends, and the writes continue without it.
    pub(super) fn record<T>(&mut self, write: impl FnOnce() -> Result<T>) -> Result<(T, Option<u32>)> {
        if self.ended.is_some() {
            return Ok((write()?, None));
        }
        let instance = &self.recorder.instance;
        instance.clear()?;
        let started_ns = instance.on_marked()?;
        let written = write();
        let changed = self.recorder.changed(true);
        let stopped_ns = instance.off()?;
        let written = written?;
        let snapshot = instance.snapshot(started_ns, stopped_ns)?;
        let stored = match changed.or_else(|| self.recorder.changed(false)) {
            None => self.recording.add(&snapshot).map_err(|error| error.to_string()),
            Some(changed) => Err(changed),
        };
        let number = stored.map_err(|why| self.ended = Some(format!("recording ended: {why}"))).ok();
        Ok((written, number))
    }

    /// Ends recording and moves the recording into place. Returns how it was made and, if it is
    /// incomplete or lost, why.
    pub(super) fn keep(self) -> (Option<RecorderInfo>, Option<String>) {
        match self.folder.keep() {
            Ok(()) => (Some(self.recorder.info()), self.ended),
            Err(error) => (None, self.ended.or(Some(format!("the recording is lost: {error}")))),
        }
    }
}
