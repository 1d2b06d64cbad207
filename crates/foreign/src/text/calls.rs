//! System calls that a text names (the events of the group `syscalls`): the kernel's
//! `sys_fsync(fd: 3)` and `sys_fsync -> 0x0`, and `sys_enter_fsync: fd: 0x3` and `sys_exit_fsync:
//! 0x0` of trace-cmd and perf. The text does not name the machine, so the calls get the
//! numbers of x86-64. Must not know what the calls are used for.

use roundtrip_tracefs::Body;

use super::event_text::hexadecimal;

/// Calls that write or wait for a device, with their numbers
/// (`arch/x86/entry/syscalls/syscall_64.tbl`). Others are skipped.
const CALLS: [(&str, i64); 12] = [
    ("write", 1),
    ("pwrite64", 18),
    ("writev", 20),
    ("msync", 26),
    ("fsync", 74),
    ("fdatasync", 75),
    ("sync", 162),
    ("sync_file_range", 277),
    ("pwritev", 296),
    ("syncfs", 306),
    ("pwritev2", 328),
    ("io_uring_enter", 426),
];

/// A call, from its name and the text after that, with the kernel's name of the event.
pub(super) fn call(name: &str, said: &str) -> Option<(Body, String)> {
    let name = name.strip_prefix("sys_")?;
    let (name, inside, result) = match (name.strip_prefix("enter_"), name.strip_prefix("exit_")) {
        (Some(name), _) => (name, Some(said), None),
        (_, Some(name)) => (name, None, Some(said)),
        (None, None) => (name, said.strip_prefix('('), said.strip_prefix("-> ")),
    };
    let number = CALLS.iter().find(|call| call.0 == name)?.1;
    if let Some(result) = result {
        let result = hexadecimal(result.trim())?;
        return Some((Body::SysExit { number, result }, format!("syscalls/sys_exit_{name}")));
    }
    let inside = inside?;
    let argument = |place| {
        // The argument's name may be missing, and the data behind a pointer may follow.
        let one = inside.split(", ").nth(place)?;
        let value = one.rsplit(": ").next()?.split([' ', ')']).next()?;
        hexadecimal(value).map(i64::cast_unsigned)
    };
    let half = |place| (argument(place).unwrap_or(0) & u64::from(u32::MAX)) as u32;
    let body = Body::SysEnter { number, first: argument(0).unwrap_or(0), third: half(2), sixth: half(5) };
    Some((body, format!("syscalls/sys_enter_{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_calls_have_their_arguments_and_return_values() {
        let enter = |number, first, third, sixth| Body::SysEnter { number, first, third, sixth };
        let said = |name, said| {
            call(name, said).map(|(body, event)| (body, event.rsplit_once('/').unwrap().1.to_owned()))
        };
        let is = |body, event: &str| Some((body, event.to_owned()));
        assert_eq!(said("sys_fsync", "(fd: 1f)"), is(enter(74, 31, 0, 0), "sys_enter_fsync"));
        assert_eq!(said("sys_sync", "()"), is(enter(162, 0, 0, 0), "sys_enter_sync"));
        let flags = "(fd: 0x3, vec: 0x7f00, vlen: 0x2, pos_l: 0, pos_h: 0, flags: 0x4)";
        assert_eq!(said("sys_pwritev2", flags), is(enter(328, 3, 2, 4), "sys_enter_pwritev2"));
        let failed = Body::SysExit { number: 74, result: -5 };
        assert_eq!(said("sys_fsync", "-> 0xfffffffffffffffb"), is(failed, "sys_exit_fsync"));
        assert_eq!(said("sys_openat", "(dfd: 3)"), None);
    }
}
