//! Lines of CSV (RFC 4180): a field is quoted if it contains special characters. Must not know what
//! fields mean.

use std::fmt::{Display, Write as _};

use roundtrip_run::Labels;

use crate::text::inert;

/// A line in progress.
#[must_use = "the line is written by `end`"]
pub(crate) struct Line<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Line<'a> {
    /// Starts a line at the end of `out`.
    pub(crate) fn of(out: &'a mut String) -> Self {
        Line { out, first: true }
    }

    fn comma(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    /// Adds a field.
    pub(crate) fn field(mut self, value: impl Display) -> Self {
        self.add(&value);
        self
    }

    /// Not generic, so that it is compiled only once, which keeps the binary for devices small.
    fn add(&mut self, value: &dyn Display) {
        self.comma();
        let begin = self.out.len();
        let _ = write!(self.out, "{value}");
        if self.out[begin..].contains([',', '"', '\n', '\r']) {
            let text = self.out.split_off(begin);
            self.out.push_str(&quoted(&text));
        }
    }

    /// Adds a field that is empty if its value is unknown.
    pub(crate) fn known(self, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.field(value),
            None => self.field(""),
        }
    }

    /// Adds several fields.
    pub(crate) fn fields(self, values: impl IntoIterator<Item = impl Display>) -> Self {
        values.into_iter().fold(self, Line::field)
    }

    /// Adds a quoted field, for formats that always quote it.
    pub(crate) fn quoted(mut self, text: &str) -> Self {
        self.comma();
        self.out.push_str(&quoted(text));
        self
    }

    /// Ends the line.
    pub(crate) fn end(self) {
        self.out.push('\n');
    }
}

/// Adds a column `label.KEY` for each label to CSV, with the same value in every line.
#[must_use]
pub fn with_labels(csv: String, labels: &Labels) -> String {
    if labels.is_empty() {
        return csv;
    }
    let (mut heads, mut values) = (String::new(), String::new());
    for (key, value) in labels.iter() {
        let _ = Line { out: &mut heads, first: false }.field(format!("label.{}", inert::line(key)));
        let _ = Line { out: &mut values, first: false }.field(inert::line(value));
    }
    let mut out = String::with_capacity(csv.len());
    // A quoted field may contain line breaks.
    let (mut in_quotes, mut more) = (false, &heads);
    for c in csv.chars() {
        in_quotes ^= c == '"';
        if c == '\n' && !in_quotes {
            out.push_str(more);
            more = &values;
        }
        out.push(c);
    }
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_with_special_characters_are_quoted() {
        let mut out = String::new();
        Line::of(&mut out).field("a b").field(1.5).field("x,y").field("say \"x\"").field("two\nlines").end();
        Line::of(&mut out).known(None::<u32>).known(Some(7)).fields(["", "z"]).quoted("always").end();
        assert_eq!(out, "a b,1.5,\"x,y\",\"say \"\"x\"\"\",\"two\nlines\"\n,7,,z,\"always\"\n");
    }

    #[test]
    fn each_label_has_its_own_column_in_every_line() {
        let mut labels = Labels::default();
        assert_eq!(with_labels("a\n1\n".into(), &labels), "a\n1\n");
        labels.add("build=7").unwrap();
        labels.add("note=x, \"y\"").unwrap();
        let text = with_labels("a,b\n1,\"two\nlines\"\n3,4\n".into(), &labels);
        let expected =
            "a,b,label.build,label.note\n1,\"two\nlines\",7,\"x, \"\"y\"\"\"\n3,4,7,\"x, \"\"y\"\"\"\n";
        assert_eq!(text, expected);
    }
}
