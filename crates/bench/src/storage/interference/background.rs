//! Background loads other than CPU hogs: processes that raise interrupts, use the file system or
//! fill memory until they are killed. Each notes how much it has done, to prove that it ran. Must
//! not know what it disturbs.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::thread::CapabilitySet;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::inject::{PACKET_BYTES, flood};
use crate::kernel::cgroup;
use crate::kernel::root::Root;
use crate::sched;
use crate::worker::{self, Link};

/// How many timers are set at a time, and their spacing: a hundred thousand interrupts per second
/// while they expire.
const TIMERS: usize = 64;
const TIMER_EVERY_NS: i64 = 10_000;

/// Time between setting the first timer and its expiry. Setting all of them takes about this long.
const TIMER_LEAD_NS: i64 = 50_000;

/// Packets sent between two notes.
const PACKETS: u64 = 64;

/// The size of the load's own file, which it overwrites repeatedly.
const FSYNC_FILE_BYTES: u64 = 4 << 20;
const FSYNC_WRITE_BYTES: usize = 4096;

/// The unit in which memory is filled.
const PIECE_BYTES: u64 = 16 << 20;

/// A background load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackgroundJob {
    /// What it does.
    pub(super) work: Work,
    /// The allowed CPUs; empty for all.
    pub(super) cpus: Vec<u32>,
    /// The file in which it notes how much it has done, as a little-endian u64.
    pub(super) note: PathBuf,
}

/// The kind of background load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Work {
    Timers,
    Network,
    /// In this folder.
    Files(PathBuf),
    /// In this folder.
    Fsync(PathBuf),
    /// Fills this many bytes, and leaves this many free.
    Memory(u64, u64),
}

impl worker::Work for BackgroundJob {
    const NAME: &'static str = "neighbour";
    const KEEPS: CapabilitySet = worker::privileges::IN_USERS_FOLDERS;

    /// Disturbs until the process is killed.
    fn run(self, link: &mut Link) -> Result<()> {
        if !self.cpus.is_empty() {
            sched::set_allowed_cpus(0, &self.cpus)?;
        }
        let note = File::options().write(true).open(&self.note);
        let note = note.map_err(|cause| Error::file("open", &self.note, cause))?;
        let mut step = self.work.prepare()?;
        link.ready()?;
        let mut done = 0_u64;
        loop {
            done += step()?;
            // This is a memfd: writing cannot fail.
            let _ = note.write_all_at(&done.to_le_bytes(), 0);
        }
    }
}

/// Does a little work, and returns how much.
type Step = Box<dyn FnMut() -> Result<u64>>;

impl Work {
    fn prepare(self) -> Result<Step> {
        match self {
            Self::Timers => timers(),
            Self::Network => {
                let socket = flood()?;
                Ok(Box::new(move || {
                    for _ in 0..PACKETS {
                        // A full queue is the intended effect.
                        let _ = socket.send(&[0; PACKET_BYTES]);
                    }
                    Ok(PACKETS)
                }))
            }
            Self::Files(folder) => Ok(files(folder)),
            Self::Fsync(folder) => fsyncs(folder),
            Self::Memory(bytes, leave_bytes) => memory(bytes, leave_bytes),
        }
    }
}

/// Many timers that expire one after the other. Each causes its own interrupt if the CPU has
/// nothing else to do. They expire on the CPU that sets them, because that CPU is not idle then.
fn timers() -> Result<Step> {
    let failed = |cause: rustix::io::Errno| Error::system("set timers", cause);
    let timers: Vec<OwnedFd> = (0..TIMERS)
        .map(|_| timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC))
        .collect::<std::result::Result<_, _>>()
        .map_err(failed)?;
    Ok(Box::new(move || {
        let now = clock_gettime(ClockId::Monotonic);
        for (index, timer) in timers.iter().enumerate() {
            let ns = now.tv_nsec + TIMER_LEAD_NS + index as i64 * TIMER_EVERY_NS;
            let it_value = Timespec { tv_sec: now.tv_sec + ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
            let once = Itimerspec { it_interval: Timespec::default(), it_value };
            timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once).map_err(failed)?;
        }
        // Waits for the last timer.
        if let Some(last) = timers.last() {
            rustix::io::read(last, &mut [0; 8]).map_err(failed)?;
        }
        Ok(TIMERS as u64)
    }))
}

/// Creates a small file, renames it and removes it.
fn files(folder: PathBuf) -> Step {
    let (first, second) = (folder.join("first"), folder.join("second"));
    Box::new(move || {
        let failed = |cause| Error::file("use", &folder, cause);
        std::fs::write(&first, [7; 512]).map_err(failed)?;
        std::fs::rename(&first, &second).map_err(failed)?;
        std::fs::remove_file(&second).map_err(failed)?;
        Ok(3)
    })
}

/// Writes a little and syncs it.
fn fsyncs(folder: PathBuf) -> Result<Step> {
    let path = folder.join("synced");
    let file = File::create(&path).map_err(|cause| Error::file("create", &path, cause))?;
    let mut at = 0;
    Ok(Box::new(move || {
        let written = file.write_all_at(&[7; FSYNC_WRITE_BYTES], at).and_then(|()| file.sync_all());
        written.map_err(|cause| Error::file("write to", &path, cause))?;
        at = (at + FSYNC_WRITE_BYTES as u64) % FSYNC_FILE_BYTES;
        Ok(1)
    }))
}

/// Fills memory, and constantly frees and allocates a piece of it. Keeps less if other processes
/// take so much that too little is left.
fn memory(bytes: u64, leave_bytes: u64) -> Result<Step> {
    // If memory runs out anyway, the kernel should kill this process.
    let score = "/proc/self/oom_score_adj";
    std::fs::write(score, "1000").map_err(|cause| Error::file("write to", score, cause))?;
    let root = Root::real();
    let mut pieces = std::collections::VecDeque::new();
    let pieces_wanted = (bytes / PIECE_BYTES).max(1) as usize;
    let mut step = move || {
        let enough = cgroup::memory_left_bytes(&root).is_some_and(|left| left > leave_bytes + PIECE_BYTES);
        if !enough || pieces.len() >= pieces_wanted {
            pieces.pop_front();
        }
        if !enough {
            // Other processes need memory: do not compete for the rest.
            pieces.pop_front();
            std::thread::sleep(std::time::Duration::from_millis(1));
            return Ok((true, 0));
        }
        let mut piece = Vec::<u8>::new();
        if piece.try_reserve_exact(PIECE_BYTES as usize).is_ok() {
            piece.resize(PIECE_BYTES as usize, 1);
            pieces.push_back(std::hint::black_box(piece));
        }
        Ok((pieces.len() >= pieces_wanted, PIECE_BYTES >> 20))
    };
    // Filled before anything is measured.
    while !step()?.0 {}
    Ok(Box::new(move || step().map(|(_, filled)| filled)))
}
