//! The system calls that write data or make it durable, and their numbers by machine.

/// What the program asked the kernel to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// write(2).
    Write,
    /// writev(2).
    Writev,
    /// pwrite64(2).
    Pwrite,
    /// pwritev(2).
    Pwritev,
    /// pwritev2(2).
    Pwritev2,
    /// fsync(2).
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// sync_file_range(2).
    SyncFileRange,
    /// msync(2) with `MS_SYNC`.
    Msync,
    /// sync(2).
    Sync,
    /// syncfs(2).
    Syncfs,
    /// splice(2). It writes to the second of its files.
    Splice,
    /// copy_file_range(2).
    CopyFileRange,
    /// sendfile(2). It writes to the first of its files.
    Sendfile,
    /// io_submit(2), which submits operations of Linux AIO, and performs some at once.
    IoSubmit,
    /// io_getevents(2), which waits for these operations.
    IoGetevents,
    /// io_pgetevents(2).
    IoPgetevents,
    /// A direct write of Linux AIO, from its submission to its completion.
    AioWrite,
    /// The same of Linux AIO's fsync or fdatasync.
    AioFsync,
    /// io_uring's write of any kind, from its submission to its completion.
    UringWrite,
    /// io_uring's fsync or fdatasync.
    UringFsync,
    /// io_uring's sync_file_range.
    UringSyncFileRange,
    /// A file system's fsync. The call that caused it is unknown.
    FileSync,
}

/// A system call, and its numbers on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`), on arm64
/// and the other machines that share `include/uapi/asm-generic/unistd.h`, on 32-bit x86
/// (`syscall_32.tbl`), and on 32-bit ARM (`arch/arm/tools/syscall.tbl`).
const NUMBERS: [(Operation, [i64; 4]); 17] = [
    (Operation::Write, [1, 64, 4, 4]),
    (Operation::Writev, [20, 66, 146, 146]),
    (Operation::Pwrite, [18, 68, 181, 181]),
    (Operation::Pwritev, [296, 70, 334, 362]),
    (Operation::Pwritev2, [328, 287, 379, 393]),
    (Operation::Fsync, [74, 82, 118, 118]),
    (Operation::Fdatasync, [75, 83, 148, 148]),
    (Operation::SyncFileRange, [277, 84, 314, 341]),
    (Operation::Msync, [26, 227, 144, 144]),
    (Operation::Sync, [162, 81, 36, 36]),
    (Operation::Syncfs, [306, 267, 344, 373]),
    (Operation::Splice, [275, 76, 313, 340]),
    (Operation::CopyFileRange, [326, 285, 377, 391]),
    (Operation::Sendfile, [40, 71, 239, 239]),
    (Operation::IoSubmit, [209, 2, 248, 246]),
    (Operation::IoGetevents, [208, 4, 247, 245]),
    (Operation::IoPgetevents, [333, 292, 385, 399]),
];

/// Opcodes of io_uring (`include/uapi/linux/io_uring.h`).
const OPCODES: [(u64, Operation); 6] = [
    (2, Operation::UringWrite),
    (3, Operation::UringFsync),
    (5, Operation::UringWrite),
    (8, Operation::UringSyncFileRange),
    (23, Operation::UringWrite),
    // IORING_OP_WRITEV_FIXED, Linux 6.15.
    (61, Operation::UringWrite),
];

/// `io_uring_enter`, in which a thread submits operations and waits for them. Its number is the
/// same on all machines.
const IO_URING_ENTER: i64 = 426;

/// The system calls that must be recorded to find synchronous writes and to attribute their time:
/// their names in the kernel's events, and their numbers on a machine, named as by `uname -m`.
/// Empty if the machine's numbers are unknown.
#[must_use]
pub fn system_calls(machine: &str) -> Vec<(&'static str, i64)> {
    let mut calls: Vec<(&str, i64)> =
        NUMBERS.iter().filter_map(|row| Some((row.0.event(), number(row, machine)?))).collect();
    if !calls.is_empty() {
        calls.push(("io_uring_enter", IO_URING_ENTER));
    }
    calls
}

fn number(row: &(Operation, [i64; 4]), machine: &str) -> Option<i64> {
    let column = match machine {
        "x86_64" => 0,
        "aarch64" | "riscv64" | "loongarch64" => 1,
        "i386" | "i686" => 2,
        "arm" | "armv7l" | "armv8l" => 3,
        _ => return None,
    };
    Some(row.1[column])
}

impl Operation {
    /// The operation of a system call number on a machine; `None` if it is not in the list.
    pub(crate) fn of_system_call(machine: &str, called: i64) -> Option<Self> {
        NUMBERS.iter().find(|row| number(row, machine) == Some(called)).map(|row| row.0)
    }

    /// The operation of an io_uring opcode; `None` if it is not in the list.
    pub(crate) fn of_opcode(opcode: u64) -> Option<Self> {
        OPCODES.iter().find(|row| row.0 == opcode).map(|row| row.1)
    }

    /// Whether it writes data. Such an operation is synchronous only if a flag of the file or the
    /// call says so.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Writev
                | Self::Pwrite
                | Self::Pwritev
                | Self::Pwritev2
                | Self::Splice
                | Self::CopyFileRange
                | Self::Sendfile
                | Self::AioWrite
                | Self::UringWrite
        )
    }

    /// Whether it is a system call that submits operations of Linux AIO or waits for them.
    pub(crate) fn is_of_aio(self) -> bool {
        self == Self::IoSubmit || self.waits_for_aio()
    }

    /// Whether it is a system call that waits for operations of Linux AIO, and writes nothing.
    pub(crate) fn waits_for_aio(self) -> bool {
        matches!(self, Self::IoGetevents | Self::IoPgetevents)
    }

    /// The descriptor that it writes to or makes durable, from a system call's first and third
    /// argument; `None` if it has none.
    pub(crate) fn descriptor(self, first: u64, third: u32) -> Option<i32> {
        match self {
            Self::Msync | Self::Sync | Self::FileSync => None,
            _ if self.is_of_aio() => None,
            Self::Splice | Self::CopyFileRange => Some(third.cast_signed()),
            #[expect(clippy::cast_possible_truncation, reason = "a descriptor is an int")]
            _ => Some(first as i32),
        }
    }

    /// The kernel's name of a system call.
    fn event(self) -> &'static str {
        if self == Self::Sendfile { "sendfile64" } else { self.name() }
    }

    /// The name in the manual pages: "fdatasync". The operations of io_uring and Linux AIO have
    /// these as a prefix: "io_uring fsync".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Writev => "writev",
            Self::Pwrite => "pwrite64",
            Self::Pwritev => "pwritev",
            Self::Pwritev2 => "pwritev2",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::SyncFileRange => "sync_file_range",
            Self::Msync => "msync",
            Self::Sync => "sync",
            Self::Syncfs => "syncfs",
            Self::Splice => "splice",
            Self::CopyFileRange => "copy_file_range",
            Self::Sendfile => "sendfile",
            Self::IoSubmit => "io_submit",
            Self::IoGetevents => "io_getevents",
            Self::IoPgetevents => "io_pgetevents",
            Self::AioWrite => "aio write",
            Self::AioFsync => "aio fsync",
            Self::UringWrite => "io_uring write",
            Self::UringFsync => "io_uring fsync",
            Self::UringSyncFileRange => "io_uring sync_file_range",
            Self::FileSync => "sync in the file system",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_call_numbers_match_this_machines_headers() {
        let number = |operation| {
            let row = NUMBERS.iter().find(|row| row.0 == operation).unwrap();
            number(row, std::env::consts::ARCH).unwrap()
        };
        let expected = if cfg!(target_arch = "x86_64") { [1, 74, 328] } else { [64, 82, 287] };
        let found = [Operation::Write, Operation::Fsync, Operation::Pwritev2].map(number);
        assert_eq!(found, expected);
        assert_eq!(system_calls("x86_64").len(), NUMBERS.len() + 1);
        assert!(system_calls("m68k").is_empty());
    }
}
