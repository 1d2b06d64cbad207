//! Makes foreign text (names of threads, processes, services and files, anything in a stored run)
//! safe for a terminal, a CSV or a text file. Control characters, and characters that change the
//! writing direction, are shown as `\\u001b`, which is also JSON's escape. Must not know where the
//! text comes from.

use std::borrow::Cow;
use std::io::{Result, Write};

use roundtrip_run::Run;

use crate::Error;

/// Whether a character affects a terminal or the order of displayed text: C0, DEL and C1 controls,
/// line and paragraph separators, and marks, embeddings, overrides and isolates of the writing
/// direction.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text within a line.
pub fn line(text: &str) -> Cow<'_, str> {
    if text.contains(acts) { Cow::Owned(shown(text, &|_| None)) } else { Cow::Borrowed(text) }
}

/// A name within a line.
#[must_use]
pub fn name(text: &str) -> String {
    line(text).into_owned()
}

/// The text with escaped characters. `passes` returns how many bytes at the start of a text need no
/// escape.
fn shown(text: &str, passes: &dyn Fn(&str) -> Option<usize>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(acts) {
        let (before, from) = rest.split_at(place);
        out.push_str(before);
        let mut after = from.chars();
        rest = match passes(from) {
            Some(length) => {
                out.push_str(&from[..length]);
                &from[length..]
            }
            None => {
                out.extend(after.next().map(|c| format!("\\u{:04x}", u32::from(c))));
                after.as_str()
            }
        };
    }
    out + rest
}

/// Text for an HTML element's content or a double-quoted attribute. Special characters are escaped,
/// so it cannot end either of them.
#[must_use]
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// JSON text for a script element. It is the same JSON, but HTML's special characters and control
/// characters are escaped, so it cannot end the element.
#[must_use]
pub fn script(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // JSON contains these only in strings.
            '<' | '>' | '&' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c if acts(c) && !c.is_ascii_whitespace() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// A run that was just measured with all text made inert, to show as text. As JSON, a run keeps its
/// original text.
///
/// # Errors
/// None for a run that can be stored.
pub fn run(run: &Run) -> std::result::Result<Run, Error> {
    Ok(roundtrip_stored::read_within(
        roundtrip_stored::to_text(run)?.as_bytes(),
        line,
        roundtrip_stored::Budget::unlimited(),
    )?)
}

/// A new run as a format shows it: inert, except for JSON, which keeps the original text.
///
/// # Errors
/// None for a run that can be stored.
pub fn measured(measured: &Run, json: bool) -> std::result::Result<Cow<'_, Run>, Error> {
    if json { Ok(Cow::Borrowed(measured)) } else { run(measured).map(Cow::Owned) }
}

/// The last filter before standard output and standard error. It lets through line breaks, tabs and
/// this program's own styles, and no other control characters.
pub struct Guard<W> {
    to: W,
    /// The bytes of an incomplete character at the end of the last write.
    begun: Vec<u8>,
}

impl<W: Write> Guard<W> {
    /// A guard in front of a writer.
    pub fn new(to: W) -> Self {
        Self { to, begun: Vec::new() }
    }

    /// The underlying writer.
    pub fn get_ref(&self) -> &W {
        &self.to
    }
}

/// The length of this program's own control sequence at the start of the text; `None` if there is
/// none. These are line breaks, tabs, a progress line's carriage return, erasing and styles.
fn own(text: &str) -> Option<usize> {
    if text.starts_with(['\n', '\t', '\r']) {
        return Some(1);
    }
    let inside = text.strip_prefix("\x1b[")?;
    let end = inside.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    inside[end..].starts_with(['m', 'K']).then_some(2 + end + 1)
}

impl<W: Write> Write for Guard<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        // The rest comes with the next call, so that this one's copies stay small.
        let bytes = &bytes[..bytes.len().min(1 << 16)];
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len());
        for chunk in all.utf8_chunks() {
            out.push_str(&shown(chunk.valid(), &own));
            let invalid = chunk.invalid();
            let last = std::ptr::eq(invalid.as_ptr_range().end, all.as_ptr_range().end);
            // Keep only bytes that may still become a character.
            if last
                && invalid.len() < 4
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none())
            {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                out.push('\u{fffd}');
            }
        }
        self.to.write_all(out.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(pieces: &[&[u8]]) -> String {
        let mut guard = Guard::new(Vec::new());
        pieces.iter().for_each(|piece| guard.write_all(piece).unwrap());
        String::from_utf8(guard.to).unwrap()
    }

    #[test]
    fn a_name_cannot_control_a_terminal_or_start_a_line() {
        assert_eq!(line("\x1b]0;pwn\x07\n"), "\\u001b]0;pwn\\u0007\\u000a");
        assert_eq!(
            line("a\u{9b}31m\u{202e}b\u{2066}\u{7f}\r\t"),
            "a\\u009b31m\\u202eb\\u2066\\u007f\\u000d\\u0009"
        );
        assert!(matches!(line("kworker/0:1 é 日本 العربية"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_guard_lets_lines_and_styles_through_and_nothing_else() {
        let styled = "\x1b[1;31mbold\x1b[0m\tx\n\r50%\x1b[K";
        assert_eq!(guarded(&[styled.as_bytes()]), styled);
        assert_eq!(
            guarded(&[b"\x1b]0;pwn\x07\x1b[2J\x1bc\x1b[6n"]),
            "\\u001b]0;pwn\\u0007\\u001b[2J\\u001bc\\u001b[6n"
        );
        assert_eq!(guarded(&["\u{9b}31m".as_bytes()]), "\\u009b31m");
        // A character in two pieces, and one byte that is no character.
        assert_eq!(
            guarded(&["é".as_bytes().split_at(1).0, "é".as_bytes().split_at(1).1, b"\xff!"]),
            "é\u{fffd}!"
        );
        assert_eq!(guarded(&[b"\xc2", b"\x9b2J"]), "\\u009b2J");
    }

    #[test]
    fn a_name_cannot_end_an_element_an_attribute_or_a_script() {
        let name = "</script><img src=x onerror='alert(1)'>\"&\u{202e}\u{2028}\u{1b}é";
        assert_eq!(
            html(name),
            "&lt;/script&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&quot;&amp;\\u202e\\u2028\\u001bé"
        );
        let json = script(&serde_json::to_string(name).unwrap());
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{202e}', '\u{1b}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name, "it means the same");
    }

    #[test]
    fn the_guard_does_not_change_the_meaning_of_json() {
        let text = "\x1b\u{9b}\u{202e}\u{7f}\u{2028} \n é";
        let json = serde_json::to_string(text).unwrap();
        let read: String = serde_json::from_str(&guarded(&[json.as_bytes()])).unwrap();
        assert_eq!(read, text);
    }
}
