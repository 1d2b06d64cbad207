//! Kernel lockdown (kernel_lockdown(7)), which can forbid tracing even to root. Must not know who
//! asks.

use std::path::Path;

/// Why kernel lockdown forbids tracefs; `None` if it does not, or if that cannot be read.
#[must_use]
pub fn locked_down() -> Option<String> {
    forbids_tracing(&std::fs::read_to_string(Path::new("/sys/kernel/security/lockdown")).ok()?)
}

/// The kernel marks its level: `none integrity [confidentiality]`. Only confidentiality prevents
/// opening files in tracefs (`LOCKDOWN_TRACEFS` in include/linux/security.h).
#[must_use]
pub fn forbids_tracing(levels: &str) -> Option<String> {
    levels.contains("[confidentiality]").then(|| {
        "kernel lockdown (confidentiality) forbids tracing, to root too: boot with lockdown=integrity or without \
         lockdown"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_confidentiality_forbids_tracing() {
        let reason = forbids_tracing("none integrity [confidentiality]\n").unwrap();
        assert!(reason.starts_with("kernel lockdown (confidentiality) forbids tracing"), "{reason}");
        for levels in ["none [integrity] confidentiality\n", "[none] integrity confidentiality\n", ""] {
            assert_eq!(forbids_tracing(levels), None, "{levels}");
        }
    }
}
