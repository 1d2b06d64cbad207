//! Says what a file is that is not a recording, and how to get one.

use crate::error::Error;

/// How to record what this program explains.
const RECORD: &str = "record the kernel's events with Perfetto (`perfetto -t 10s -o FILE sched binder_driver`), \
                      atrace (`atrace -t 10 sched binder_driver`) or trace-cmd (`trace-cmd record -e sched -e binder`)";

/// What to do with perf's binary recording.
const PERF: &str = "convert it (`perf script -i FILE > TEXT`), and give TEXT; it must contain tracepoints, as \
                    `perf record -a -e 'sched:*' -e 'binder:*'` records them";

/// What to do with an archive.
const UNPACK: &str = "unpack it, and give the recording in it, or its folder";

/// Files that are not text: where their mark is, the mark, what they are, and what to do.
const BINARY: [(usize, &[u8], &str, &str); 22] = [
    (0, b"PERFILE2", "perf's binary recording (perf.data)", PERF),
    (0, b"\x7fELF", "a program or a library (ELF)", RECORD),
    (0, b"SQLite format 3\0", "an SQLite database", RECORD),
    (0, b"\x89PNG", "a picture (PNG)", RECORD),
    (0, b"\xff\xd8\xff", "a picture (JPEG)", RECORD),
    (0, b"%PDF", "a PDF document", RECORD),
    (257, b"ustar", "a tar archive", UNPACK),
    (0, b"BZh", "packed with bzip2", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    (0, b"Rar!", "a RAR archive", UNPACK),
    (0, b"\x04\x22\x4d\x18", "packed with lz4", UNPACK),
    (0, b"LZIP", "packed with lzip", UNPACK),
    (0, b"ANDROID BACKUP", "an Android backup", RECORD),
    (0, b"JAVA PROFILE", "a heap dump of a Java program", RECORD),
    (0, b"SLOW", "a method trace of Android's runtime", RECORD),
    (0, b"*version\n", "a method trace of Android's runtime", RECORD),
    (0, b"\x07\x74\x61\x65", "blktrace's events, which name no threads", RECORD),
    (0, b"\xc1\x1f\xfc\xc1", "a trace of LTTng (CTF)", RECORD),
    (0, b"\xc1\xfc\x1f\xc1", "a trace of LTTng (CTF)", RECORD),
    (0, b"\xd4\xc3\xb2\xa1", "a capture of network packets", RECORD),
    (0, b"\x0a\x0d\x0d\x0a", "a capture of network packets", RECORD),
    (0, b"\x17\x08\x44", "a trace.dat whose start is damaged", "copy the file again, or record it again"),
];

const CONFIGURATION: &str = "record with it (`perfetto --txt -c CONFIG -o FILE`), and give FILE";

/// Texts that are not recordings: words of the first lines, what they are, and what to do.
const TEXTS: [(&str, &str, &str); 11] = [
    ("\"traceEvents\"", "a trace of user space in Chrome's JSON", RECORD),
    ("[{\"", "JSON, perhaps a trace of user space in Chrome's form", RECORD),
    (
        "== dumpstate:",
        "the text of a bug report",
        "give the bug report's zip archive, which may hold a recording",
    ),
    ("--------- beginning of", "logcat's messages", RECORD),
    ("Linux version ", "the kernel's messages (dmesg)", RECORD),
    ("data_sources:", "the configuration of a Perfetto trace", CONFIGURATION),
    ("buffers:", "the configuration of a Perfetto trace", CONFIGURATION),
    ("# Samples: ", "a report of perf", RECORD),
    ("execve(\"", "strace's output", RECORD),
    ("<html", "a web page without the kernel's events", RECORD),
    (
        "capturing trace...",
        "atrace's output without events",
        "enable categories (`atrace -t 10 sched binder_driver`), and use the device meanwhile",
    ),
];

/// What bytes are that are not text.
pub(super) fn binary(head: &[u8]) -> Error {
    let found =
        BINARY.iter().find(|(at, mark, ..)| head.get(*at..).is_some_and(|rest| rest.starts_with(mark)));
    let (what, how) = found.map_or(("a file of an unknown kind", RECORD), |found| (found.2, found.3));
    Error::Unknown { what, how }
}

/// What a text is that has no events. `re_encoded`: it was UTF-16.
pub(super) fn text(head: &[u8], re_encoded: bool) -> Error {
    if head.trim_ascii().is_empty() {
        return Error::Unknown { what: "an empty file", how: RECORD };
    }
    // Control characters, and what is no character, were packed bytes before.
    let text = String::from_utf8_lossy(&head[..head.len().min(1 << 14)]);
    let strange =
        text.chars().filter(|&c| c == char::REPLACEMENT_CHARACTER || c.is_control() && !c.is_whitespace());
    if re_encoded && strange.count() > 4 {
        let what = "what PowerShell's `>` made of a file that was no text, which cannot be undone";
        return Error::Unknown {
            what,
            how: "redirect with cmd.exe, or write the file there and `adb pull` it",
        };
    }
    let found = TEXTS.iter().find(|(word, ..)| text.contains(word));
    match found {
        Some(&(_, what, how)) => Error::Unknown { what, how },
        None => binary(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_file_is_named_with_what_to_do() {
        let said = |error: Error| error.to_string();
        let tar = [&[b'a'; 257][..], b"ustar\0"].concat();
        assert!(said(binary(&tar)).contains("a tar archive, not a recording"));
        let elf = said(binary(b"\x7fELF\x02\x01\0"));
        assert!(elf.contains("a program or a library") && elf.contains("perfetto -t 10s"), "{elf}");
        assert!(said(binary(b"\0\0\0")).contains("a file of an unknown kind"));
        assert!(said(text(b" \r\n", false)).contains("an empty file"));
        assert!(said(text(b"{\"traceEvents\": []}", false)).contains("Chrome's JSON"));
        assert!(said(text(b"hello\nworld", false)).contains("a file of an unknown kind"));
        let lost = "capturing trace... done\r\nTRACE:\r\n\u{fffd}\u{1}\u{2}\u{fffd}\u{fffd}\u{3}\n";
        assert!(said(text(lost.as_bytes(), true)).contains("PowerShell"));
    }
}
