//! The emulated driver as a [`Driver`].

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::{Emulated, KNOWN, with_guard};
use crate::records;
use roundtrip_binder_driver::uapi::{
    BC_TRANSACTION, BC_TRANSACTION_SG, ExtendedError, Field as _, FrozenStatusInfo, payload_size,
};
use roundtrip_binder_driver::{
    Backend, Commands, Driver, Error as DriverError, NodeInfo, RawBytes, ReadableMemory, Returns,
};

impl Driver for Emulated {
    fn backend(&self) -> Backend {
        Backend::Emulated { profile: self.profile }
    }

    fn exchange(
        &self,
        commands: &mut Commands,
        memory: &ReadableMemory<'_>,
        returns: Option<&mut Returns>,
    ) -> Result<(), DriverError> {
        // A process may have changed its user since it joined. The kernel is asked before the lock
        // is taken. A reply carries the user of the last call: asking again would lengthen each
        // round trip.
        if asks(commands.pending()) {
            self.euid.store(rustix::process::geteuid().as_raw(), Ordering::Relaxed);
        }
        let gone = || self.region.ended().is_some();
        let wait = !self.nonblocking.load(Ordering::Relaxed);
        let failed = |errno| self.failed("BINDER_WRITE_READ", errno);
        let mut returns = returns;
        // Before any command is taken, as in the kernel's driver.
        let room = returns.as_deref_mut().map(Returns::room).transpose().map_err(failed)?;
        let filled = self.enter(memory, |ioctl| {
            ioctl.write(commands)?;
            room.map(|room| ioctl.read(room, wait, &gone)).transpose()
        });
        let filled = filled.map_err(failed)?;
        if let Some((returns, filled)) = returns.zip(filled) {
            returns.filled(filled);
        }
        Ok(())
    }

    fn area(&self) -> RawBytes<'_> {
        self.region.area(self.process.index(), self.area.1)
    }

    fn duplicate_fd(&self, number: u32) -> Result<OwnedFd, Errno> {
        self.descriptors.received.duplicate(number)
    }

    fn take_fd(&self, number: u32) -> Option<OwnedFd> {
        self.descriptors.received.take(number)
    }

    fn become_context_manager(&self, flags: u32) -> Result<(), DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| ioctl.become_context_manager(flags)).map_err(|errno| {
            match errno {
                Errno::BUSY => DriverError::ContextManagerTaken,
                errno => self.failed("BINDER_SET_CONTEXT_MGR_EXT", errno),
            }
        })
    }

    fn set_max_threads(&self, threads: u32) -> Result<(), DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| {
            ioctl.guard.set(self.process, records::process::MAX_THREADS, threads);
            Ok(())
        })
        .map_err(|errno| self.failed("BINDER_SET_MAX_THREADS", errno))
    }

    fn exit_thread(&self) {
        // An exiting thread may call this after its list is gone. Its records are then freed at
        // the end of the process.
        let _ = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            let Some(at) = known.iter().position(|known| known.is_of(&self.instance)) else { return };
            let left = known.swap_remove(at);
            let sweeps = with_guard(&self.region, |guard| {
                guard.release_thread(self.process, left.thread);
                guard.take_sweeps()
            });
            sweeps.into_iter().for_each(|slot| self.descriptors.ask_to_sweep(slot));
        });
    }

    fn poll(&self, timeout: Option<Duration>) -> Result<bool, DriverError> {
        let gone = || self.region.ended().is_some();
        // A deadline that overflows means no deadline.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.look(&ReadableMemory::default(), |ioctl| ioctl.poll(deadline, &gone))
            .map_err(|errno| self.failed("poll", errno))
    }

    fn interrupt(&self) {
        with_guard(&self.region, |guard| guard.interrupt(self.process));
    }

    fn node_counts(&self, handle: u32) -> Result<(u32, u32), DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| ioctl.node_counts(handle))
            .map_err(|errno| self.failed("BINDER_GET_NODE_INFO_FOR_REF", errno))
    }

    fn node_after(&self, after: u64) -> Result<Option<NodeInfo>, DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| Ok(ioctl.guard.node_after(self.process, after)))
            .map_err(|errno| self.failed("BINDER_GET_NODE_DEBUG_INFO", errno))
    }

    fn extended_error(&self) -> Result<ExtendedError, DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| Ok(ioctl.extended_error()))
            .map_err(|errno| self.failed("BINDER_GET_EXTENDED_ERROR", errno))
    }

    fn set_oneway_spam_detection(&self, on: bool) -> Result<(), DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| {
            ioctl.guard.set(self.process, records::process::TELL_SPAM, on);
            Ok(())
        })
        .map_err(|errno| self.failed("BINDER_ENABLE_ONEWAY_SPAM_DETECTION", errno))
    }

    fn set_frozen(&self, pid: u32, frozen: bool, timeout_ms: u32) -> Result<(), DriverError> {
        let gone = || self.region.ended().is_some();
        self.enter(&ReadableMemory::default(), |ioctl| ioctl.set_frozen(pid, frozen, timeout_ms, &gone))
            .map_err(|errno| self.failed("BINDER_FREEZE", errno))
    }

    fn frozen_info(&self, pid: u32) -> Result<FrozenStatusInfo, DriverError> {
        self.enter(&ReadableMemory::default(), |ioctl| ioctl.frozen_info(pid))
            .map_err(|errno| self.failed("BINDER_GET_FROZEN_INFO", errno))
    }

    fn limits(&self) -> Vec<String> {
        let denied = with_guard(&self.region, |guard| guard.get(self.process, records::process::DENIED));
        let mut limits = Vec::new();
        if denied != 0 {
            limits.push(format!(
                "no permission to set a server's priority to its caller's in {denied} transactions: \
                 run as root, or raise RLIMIT_RTPRIO and RLIMIT_NICE"
            ));
        }
        limits
    }
}

/// Whether these commands contain a call.
fn asks(mut commands: &[u8]) -> bool {
    while let Some(word) = commands.get(..4).map(u32::take) {
        if word == BC_TRANSACTION || word == BC_TRANSACTION_SG {
            return true;
        }
        commands = commands.get(payload_size(word).saturating_add(4)..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use roundtrip_binder_driver::Command;
    use roundtrip_binder_driver::uapi::TransactionData;

    use super::*;

    #[test]
    fn a_call_is_found_among_other_commands() {
        let asked = |list: &[Command]| {
            let mut commands = Commands::default();
            list.iter().for_each(|&command| commands.push(command));
            asks(commands.pending())
        };
        let data = TransactionData::new(1, b"");
        let others =
            [Command::EnterLooper, Command::FreeBuffer(0), Command::Reply(data), Command::Acquire(1)];
        assert!(!asked(&[]) && !asked(&others));
        assert!(asked(&[Command::Transaction(data)]) && asked(&[Command::TransactionSg(data.gathered(8))]));
        for at in 0..=others.len() {
            let mut all = others.to_vec();
            all.insert(at, Command::Transaction(data));
            assert!(asked(&all), "as number {at}");
        }
        assert!(!asks(&[1, 2, 3]));
    }
}
