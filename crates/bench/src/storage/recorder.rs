//! The kernel's events during each block of writes, as one snapshot of a recording. Must not know what they say.

use std::path::Path;

use tracefs::{Recording, Selection, WriteEvents};

use crate::error::Result;
use crate::recorder::{Recorder, RecorderInfo};
use crate::scratch::Folder;

/// A recorder that is on while a block is written, and a recording that it fills.
#[derive(Debug)]
pub(super) struct BlockRecorder {
    recorder: Recorder,
    recording: Recording,
    folder: Folder,
}

impl BlockRecorder {
    /// Makes one for these writing threads. The recording has its place when it is [kept](BlockRecorder::keep).
    pub(super) fn open(
        directory: &Path,
        tids: &[u32],
        events: WriteEvents,
        kilobytes: u64,
    ) -> Result<BlockRecorder> {
        let recorder = Recorder::of(kilobytes, |tracefs| {
            Selection::writes(tids, events, |event| tracefs.has_event(event))
        })?;
        let header = recorder.instance.header();
        let folder = Folder::beside(directory)?;
        let recording = Recording::create(&folder.partial, header, recorder.tracefs.root())?;
        Ok(BlockRecorder { recorder, recording, folder })
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

    /// Ends recording, puts the recording in its place, and tells what it was made with.
    pub(super) fn keep(self) -> Result<RecorderInfo> {
        self.folder.keep()?;
        Ok(self.recorder.info())
    }
}
