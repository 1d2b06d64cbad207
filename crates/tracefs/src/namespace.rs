//! Whether this process uses the same thread ids and clock as the kernel's events. Must not know
//! who asks.

use std::path::Path;

/// The inode numbers of the initial pid and time namespaces (`PROC_PID_INIT_INO` and
/// `PROC_TIME_INIT_INO` in the kernel's `proc_ns.h`).
const FIRST_PID: &str = "pid:[4026531836]";
const FIRST_TIME: &str = "time:[4026531834]";

/// Why events use other thread ids than this process; `None` if they use the same.
pub(crate) fn foreign_ids() -> Option<String> {
    let namespace = link("pid");
    (namespace.starts_with("pid:[") && namespace != FIRST_PID).then(|| {
        "this process is in its own pid namespace, and events name threads by other ids: run it outside the \
         container"
            .to_owned()
    })
}

/// Why this process's times differ from those of kernel events: it is in a time namespace
/// (time_namespaces(7)) with a different CLOCK_BOOTTIME. `None` if they are the same.
#[must_use]
pub fn foreign_clock() -> Option<String> {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let shift = shift(&link("time"), &link("time_for_children"), &offsets)?;
    Some(format!(
        "this process is in a time namespace {shift}, so its clock differs from that of the kernel's events: \
         run it outside the container"
    ))
}

fn link(name: &str) -> String {
    let link = std::fs::read_link(Path::new("/proc/self/ns").join(name)).unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// The clock's offset, in words. `offsets` are those of the namespace for new children.
fn shift(own: &str, children: &str, offsets: &str) -> Option<String> {
    if own.is_empty() || own == FIRST_TIME {
        return None;
    }
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let numbers: Option<Vec<i64>> =
        line.map(|line| line.split_whitespace().filter_map(|number| number.parse().ok()).collect());
    match numbers.as_deref() {
        Some([0, 0]) if own == children => None,
        Some([seconds, nanoseconds]) if own == children => {
            Some(format!("with a boot clock shifted by {seconds} s and {nanoseconds} ns"))
        }
        _ => Some("with a boot clock that may be shifted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shifted_boot_clock_is_reported() {
        let offsets = |boot: &str| format!("monotonic           0         0\nboottime   {boot}\n");
        let (own, other) = ("time:[4026532177]", "time:[4026532178]");
        assert_eq!(shift(own, own, &offsets("0         0")), None);
        assert_eq!(shift(FIRST_TIME, other, &offsets("1000    0")), None, "only children are shifted");
        assert_eq!(shift("", "", ""), None, "a kernel without time namespaces");
        assert!(shift(own, own, &offsets("-1000    5")).unwrap().contains("by -1000 s and 5 ns"));
        for (children, offsets) in [(other, offsets("0 0")), (own, String::new()), (own, offsets("x"))] {
            assert!(shift(own, children, &offsets).unwrap().contains("may be"));
        }
    }
}
