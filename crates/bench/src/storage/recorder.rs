//! The kernel's events during each block of writes, as one snapshot of a recording. Must not know what they say.

use std::path::Path;

use tracefs::{Recording, Selection};

use crate::error::Result;
use crate::recorder::{Recorder, RecorderInfo};

/// A recorder that is on while a block is written, and a recording that it fills.
#[derive(Debug)]
pub(super) struct BlockRecorder {
    recorder: Recorder,
    recording: Recording,
}

impl BlockRecorder {
    /// Makes one for these writing threads, and the recording's folder.
    pub(super) fn open(directory: &Path, tids: &[u32], kilobytes: u64) -> Result<BlockRecorder> {
        let recorder =
            Recorder::of(kilobytes, |tracefs| Selection::writes(tids, |event| tracefs.has_event(event)))?;
        let header = recorder.instance.header();
        let recording = Recording::create(directory, header, recorder.tracefs.root())?;
        Ok(BlockRecorder { recorder, recording })
    }

    /// Records what happens during `write`.
    pub(super) fn record<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<(T, Option<u32>)> {
        let instance = &self.recorder.instance;
        instance.clear()?;
        let started_ns = instance.on()?;
        let written = write();
        let stopped_ns = instance.off()?;
        let written = written?;
        let number = self.recording.add(&instance.snapshot(started_ns, stopped_ns)?)?;
        Ok((written, Some(number)))
    }

    pub(super) fn info(&self) -> RecorderInfo {
        self.recorder.info()
    }
}
