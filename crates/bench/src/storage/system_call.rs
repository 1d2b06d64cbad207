//! Reads the output of `strace`. A fuzz target compiles this file alone, because building the whole
//! crate takes longer than building everything else that is fuzzed.

/// One system call, as strace reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemCall {
    /// When strace saw it, in nanoseconds of CLOCK_BOOTTIME, with microsecond precision.
    pub start_ns: u64,
    /// Its duration by `strace -T`, in nanoseconds, with microsecond precision.
    pub duration_ns: u64,
}

impl SystemCall {
    /// The system calls of a thread in the output of `strace -f -T -ttt -o FILE` (strace(1)): `123
    /// 1700000000.123456 write(3, ""..., 16384) = 16384 <0.000234>`. A call is split into two lines
    /// if another thread's call comes in between. `boot_less_real_ns` converts its times from
    /// CLOCK_REALTIME to CLOCK_BOOTTIME. Other lines are ignored.
    #[must_use]
    pub fn parse(text: &str, tid: u32, boot_less_real_ns: i64) -> Vec<Self> {
        let mut open = None;
        let mut out = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (Some(Ok(thread)), Some(time)) = (words.next().map(str::parse::<u32>), words.next()) else {
                continue;
            };
            if thread != tid {
                continue;
            }
            let Some(time_ns) = seconds(time) else { continue };
            if line.ends_with("<unfinished ...>") {
                open = Some(time_ns);
                continue;
            }
            let resumed = words.next() == Some("<...");
            let start_ns = if resumed { open.take() } else { Some(time_ns) };
            let took = line.rsplit_once('<').and_then(|(_, rest)| seconds(rest.strip_suffix('>')?));
            if let (Some(start_ns), Some(duration_ns)) = (start_ns, took) {
                out.push(Self { start_ns: start_ns.saturating_add_signed(boot_less_real_ns), duration_ns });
            }
        }
        out
    }
}

/// "1700000000.123456" as nanoseconds.
fn seconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.')?;
    if part.is_empty() || part.len() > 9 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part: u64 = format!("{part:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact_and_anything_else_is_refused() {
        assert_eq!(seconds("1700000000.123456"), Some(1_700_000_000_123_456_000));
        for text in ["", "1", "1.", "1.x", "-1.0", "1.0123456789", "99999999999999999999.0"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
