//! Parses the kernel's text of events of file systems, the block layer and io_uring. It is not
//! `key=value`: each event has its own layout. Source: each event's `TP_printk`. Must not know what
//! the fields are used for.

/// The word of an event's text that contains this field; `None` for events that use `key=value`.
pub(super) fn word<'a>(event: &str, text: &'a str, field: &str) -> Option<&'a str> {
    let (system, _) = event.split_once('_')?;
    match system {
        "block" => block(text, field),
        "io" if field == "req" => behind(text, "req"),
        "io" if field == "opcode" => opcode(behind(text, "opcode")?),
        "io" if field == "res" => behind(text, "result"),
        "io" | "ext4" | "f2fs" | "jbd2" | "xfs" => behind(text, field),
        _ => None,
    }
}

/// `8,0 WS 4096 () 2048 + 8 none,0,0 [comm]`. The number of bytes, the command and the priority may
/// be missing.
fn block<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    let (before, behind) = text.split_once(" + ")?;
    match field {
        "dev" => before.split(' ').next(),
        // The kernel leaves it empty for some requests.
        "rwbs" => before.split(' ').nth(1),
        "sector" => before.rsplit(' ').next(),
        "nr_sector" => behind.split(' ').next(),
        _ => None,
    }
}

/// The value after a word: `dev 8,1 ino 12`, `dev = (8,1), ino = 12`.
fn behind<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace().skip_while(|word| *word != key).skip(1);
    let word = words.next()?;
    let word = if word == "=" { words.next()? } else { word };
    Some(word.trim_matches(['(', ')', ',']))
}

/// io_uring's write operations, by the names that the kernel prints. Older kernels print numbers
/// (include/uapi/linux/io_uring.h).
fn opcode(name: &str) -> Option<&str> {
    match name {
        "WRITEV" => Some("2"),
        "FSYNC" => Some("3"),
        "WRITE_FIXED" => Some("5"),
        "SYNC_FILE_RANGE" => Some("8"),
        "WRITE" => Some("23"),
        "WRITEV_FIXED" => Some("61"),
        number if number.bytes().all(|byte| byte.is_ascii_digit()) => Some(number),
        // Any other operation does not write.
        _ => Some("0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_every_event_has_its_fields() {
        for (event, text, fields) in [
            (
                "block_rq_issue",
                "254,0 WFS 4096 () 2048 + 8 none,0,0 [a + b]",
                &[("dev", "254,0"), ("rwbs", "WFS"), ("sector", "2048"), ("nr_sector", "8")][..],
            ),
            (
                "block_rq_complete",
                "8,0 FF () 18446744073709551615 + 0 [0]",
                &[("sector", "18446744073709551615")],
            ),
            (
                "ext4_sync_file_enter",
                "dev 8,1 ino 12 parent 2 datasync 1 ",
                &[("dev", "8,1"), ("parent", "2")],
            ),
            (
                "f2fs_sync_file_enter",
                "dev = (8,33), ino = 12, pino = 3, i_mode = 0x81a4",
                &[("dev", "8,33"), ("pino", "3")],
            ),
            ("xfs_file_fsync", "dev 8:1 ino 0x83", &[("dev", "8:1"), ("ino", "0x83")]),
            (
                "io_uring_submit_req",
                "ring 0000a, req 0000b, user_data 0x0, opcode FSYNC, flags 0x0",
                &[("req", "0000b"), ("opcode", "3")],
            ),
            (
                "io_uring_complete",
                "ring 0000a, req 0000b, user_data 0x0, result -5, cflags 0x0",
                &[("res", "-5")],
            ),
        ] {
            for (field, expected) in fields {
                assert_eq!(word(event, text, field), Some(*expected), "{event}, {field}");
            }
        }
        assert_eq!(word("block_plug", "[fio]", "dev"), None);
        assert_eq!(word("sched_waking", "comm=dev pid=1", "pid"), None);
    }
}
