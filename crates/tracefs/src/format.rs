//! One event's `format` file: its id, the locations of its fields, and the tables in its `print
//! fmt` line. Must not know what any event means.

use crate::error::Error;
use crate::expression::evaluate;

/// How to find a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the field's offset.
    Fixed,
    /// Elsewhere in the record: the field is a word with the offset from the start of the record in
    /// the low half and the length in the high half (`__data_loc`).
    DataLoc,
    /// The same, with the offset from the end of the field (`__rel_loc`, since Linux 5.18).
    RelLoc,
    /// From the field's offset to the end of the record (`char buf[]`).
    Tail,
}

/// The type of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer, or an address.
    Number,
    /// Text that ends at a zero or at the end of the field.
    Text,
    /// An array of anything else, or a structure.
    Bytes,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its C type, without name and array length: `unsigned long`, `__data_loc char[]`.
    pub type_name: String,
    /// Its offset in the record, in bytes.
    pub offset: usize,
    /// Its size in bytes; 0 if it extends to the end of the record.
    pub size: usize,
    /// Whether the type is signed.
    pub signed: bool,
    /// How to find its bytes.
    pub place: Place,
    /// The type of its bytes.
    pub kind: Kind,
}

/// An event's `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event id, which the event's records start with.
    pub id: u16,
    /// Its folder: `sched`.
    pub system: String,
    /// Its name: `sched_switch`.
    pub name: String,
    /// All fields, including those common to all events (`common_…`).
    pub fields: Vec<Field>,
    /// What follows `print fmt:`.
    pub print: String,
}

impl Format {
    /// Parses the text of `events/SYSTEM/NAME/format`.
    ///
    /// # Errors
    ///
    /// [`Error::Format`] if the text has no id or an invalid field.
    pub fn parse(system: &str, name: &str, text: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::Format { file: format!("events/{system}/{name}/format"), what };
        let mut id = None;
        let mut fields = Vec::new();
        let mut print = String::new();
        for line in text.lines() {
            if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if line.trim_start().starts_with("field:") {
                fields.push(
                    parse_field(line)
                        .ok_or_else(|| wrong(format!("cannot read the field `{}`", line.trim())))?,
                );
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                print = rest.trim().to_owned();
            }
        }
        let id = id.ok_or_else(|| wrong("it has no line `ID:` with a number below 65536".to_owned()))?;
        Ok(Self { id, system: system.to_owned(), name: name.to_owned(), fields, print })
    }

    /// A field by name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The names that the kernel prints for a field's values (`__print_symbolic`) or bits
    /// (`__print_flags`), in the kernel's order. Values that are not constant are left out. Empty
    /// if the field has no such table.
    #[must_use]
    pub fn symbols(&self, field: &str) -> Vec<(u64, String)> {
        let subject = format!("REC->{field}");
        for (begin, _) in self.print.match_indices("__print_") {
            let call = &self.print[begin..];
            let Some(inside) =
                call.strip_prefix("__print_symbolic(").or_else(|| call.strip_prefix("__print_flags("))
            else {
                continue;
            };
            // The table starts at the first brace, after the expression to print.
            let Some(brace) = inside.find('{') else { continue };
            if !mentions(&inside[..brace], &subject) {
                continue;
            }
            return pairs(&inside[brace..]);
        }
        Vec::new()
    }

    /// The bits of a field that select the text `chosen` in `REC->field & BITS ? "chosen" : …`.
    /// This is how `sched_switch` shows which bit of `prev_state` means preempted.
    #[must_use]
    pub fn bits_choosing(&self, field: &str, chosen: &str) -> Option<u64> {
        let before = &self.print[..self.print.find(&format!("? \"{chosen}\""))?];
        let subject = format!("REC->{field} &");
        let bits = before[before.rfind(&subject)? + subject.len()..].trim();
        // The whole condition may be in parentheses.
        evaluate(bits).or_else(|| evaluate(bits.strip_suffix(')')?))
    }
}

/// Whether a text contains the whole word, not just a longer one that starts with it.
fn mentions(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !text[at + word.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

/// Parses `{ VALUE, "TEXT" }, …` until something else follows.
fn pairs(mut rest: &str) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    while let Some(inside) = rest.strip_prefix('{') {
        let Some((value, after)) = inside.split_once(", \"").or_else(|| inside.split_once(",\"")) else {
            break;
        };
        let Some((text, after)) = after.split_once('"') else { break };
        let Some((_, after)) = after.split_once('}') else { break };
        if let Some(value) = evaluate(value) {
            found.push((value, text.to_owned()));
        }
        rest = after.trim_start_matches([',', ' ']);
    }
    found
}

/// Parses one line `field:TYPE NAME[LENGTH]; offset:N; size:N; signed:N;`.
pub(crate) fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';');
    let declaration = parts.next()?.trim();
    let mut offset = None;
    let mut size = None;
    let mut signed = false;
    for part in parts {
        match part.trim().split_once(':') {
            Some(("offset", value)) => offset = value.trim().parse::<u16>().ok(),
            Some(("size", value)) => size = value.trim().parse::<u32>().ok(),
            Some(("signed", value)) => signed = value.trim() == "1",
            _ => {}
        }
    }
    let (offset, size) = (usize::from(offset?), usize::try_from(size?).ok()?);
    // The length may be a number, the name of a constant, or missing.
    let (bare, array) = match declaration.strip_suffix(']').and_then(|inner| inner.rsplit_once('[')) {
        Some((bare, _)) => (bare.trim_end(), true),
        None => (declaration, false),
    };
    let name = bare.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let type_name = bare[..bare.len() - name.len()].trim();
    if name.is_empty() || type_name.is_empty() {
        return None;
    }
    let element = type_name
        .trim_start_matches("__data_loc ")
        .trim_start_matches("__rel_loc ")
        .trim_end_matches("[]")
        .trim();
    let place = if type_name.starts_with("__data_loc") {
        Place::DataLoc
    } else if type_name.starts_with("__rel_loc") {
        Place::RelLoc
    } else if size == 0 {
        Place::Tail
    } else {
        Place::Fixed
    };
    let kind = if array || place != Place::Fixed {
        if element == "char" { Kind::Text } else { Kind::Bytes }
    } else if matches!(size, 1 | 2 | 4 | 8) {
        Kind::Number
    } else {
        Kind::Bytes
    };
    Some(Field { name: name.to_owned(), type_name: type_name.to_owned(), offset, size, signed, place, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(line: &str) -> Field {
        parse_field(line).expect(line)
    }

    #[test]
    fn all_kinds_of_fields_are_distinguished() {
        let comm = field("\tfield:char prev_comm[TASK_COMM_LEN];\toffset:8;\tsize:16;\tsigned:0;");
        assert_eq!(
            (comm.name.as_str(), comm.offset, comm.size, comm.kind, comm.place),
            ("prev_comm", 8, 16, Kind::Text, Place::Fixed)
        );
        let name = field("\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;");
        assert_eq!((name.name.as_str(), name.kind, name.place), ("name", Kind::Text, Place::DataLoc));
        let mask = field("\tfield:__rel_loc cpumask_t cpumask;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((mask.name.as_str(), mask.kind, mask.place), ("cpumask", Kind::Bytes, Place::RelLoc));
        let buf = field("\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;");
        assert_eq!((buf.name.as_str(), buf.kind, buf.place), ("buf", Kind::Text, Place::Tail));
        let reason = field("\tfield:const char * reason;\toffset:16;\tsize:8;\tsigned:0;");
        assert_eq!(
            (reason.name.as_str(), reason.type_name.as_str(), reason.kind),
            ("reason", "const char *", Kind::Number)
        );
        let args = field("\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;");
        assert_eq!((args.name.as_str(), args.kind), ("args", Kind::Bytes));
        let state = field("\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;");
        assert!(state.signed && state.kind == Kind::Number);
    }

    #[test]
    fn a_name_may_follow_a_character_of_several_bytes() {
        let pointer = field("\tfield:int ü日x;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((pointer.type_name.as_str(), pointer.name.as_str()), ("int ü日", "x"));
        assert!(parse_field("\tfield:int ü;\toffset:8;\tsize:4;\tsigned:0;").is_none());
    }

    #[test]
    fn a_format_without_an_id_or_with_an_invalid_field_is_refused() {
        let error = Format::parse("sched", "sched_switch", "name: sched_switch\n").unwrap_err().to_string();
        assert!(error.starts_with("events/sched/sched_switch/format: it has no line `ID:`"), "{error}");
        let error =
            Format::parse("a", "b", "ID: 1\n\tfield:int x; offset:99999; size:4;\n").unwrap_err().to_string();
        assert!(error.contains("cannot read the field"), "{error}");
    }

    #[test]
    fn the_preempted_bit_is_found_in_the_formats_of_all_kernels() {
        let of = |print: &str| {
            Format::parse("sched", "sched_switch", &format!("ID: 1\nprint fmt: {print}"))
                .unwrap()
                .bits_choosing("prev_state", "+")
        };
        assert_eq!(
            of(
                r#""%s%s", REC->prev_state & (2048-1) ? __print_flags(REC->prev_state & (2048-1), "|", { 1, "S"}) : "R", REC->prev_state & 2048 ? "+" : "", REC->x"#
            ),
            Some(2048)
        );
        assert_eq!(
            of(r#""%s", REC->prev_state & (((0x0000 | 0x0001 | 0x0040) + 1) << 1) ? "+" : """#),
            Some(0x84)
        );
        assert_eq!(of(r#""%s", (REC->prev_state & 0x100) ? "+" : """#), Some(0x100));
        assert_eq!(of(r#""%s", REC->prev_state & TASK_STATE_MAX ? "+" : """#), None);
    }

    #[test]
    fn tables_are_found_by_the_exact_name_of_their_field() {
        let format = Format::parse(
            "x",
            "y",
            "ID: 1\nprint fmt: \"%s %s\", __print_symbolic(REC->vec_b, { 7, \"SEVEN\" }), __print_flags(REC->vec & 3, \"|\", { 1, \"A\" }, { (1 << 1), \"B\" }, { ENUM, \"C\" })",
        )
        .unwrap();
        assert_eq!(format.symbols("vec"), [(1, "A".to_owned()), (2, "B".to_owned())]);
        assert_eq!(format.symbols("vec_b"), [(7, "SEVEN".to_owned())]);
        assert_eq!(format.symbols("other"), []);
    }
}
