//! Lines of CSV (RFC 4180): a field is quoted where it holds what would end it. Must not know what fields mean.

use std::fmt::{Display, Write as _};

/// A line under way.
#[must_use = "a line is there when it has ended"]
pub(crate) struct Line<'a> {
    out: &'a mut String,
    first: bool,
}

impl<'a> Line<'a> {
    /// Begins a line behind what is there.
    pub(crate) fn of(out: &'a mut String) -> Line<'a> {
        Line { out, first: true }
    }

    fn comma(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    /// Adds a field.
    pub(crate) fn field(mut self, value: impl Display) -> Line<'a> {
        self.add(&value);
        self
    }

    /// Not compiled for each type of field: the binary for devices is small.
    fn add(&mut self, value: &dyn Display) {
        self.comma();
        let begin = self.out.len();
        let _ = write!(self.out, "{value}");
        if self.out[begin..].contains([',', '"', '\n', '\r']) {
            let text = self.out.split_off(begin);
            self.out.push_str(&quoted(&text));
        }
    }

    /// Adds a field that may not be known, and is empty then.
    pub(crate) fn known(self, value: Option<impl Display>) -> Line<'a> {
        match value {
            Some(value) => self.field(value),
            None => self.field(""),
        }
    }

    /// Adds several fields.
    pub(crate) fn fields(self, values: impl IntoIterator<Item = impl Display>) -> Line<'a> {
        values.into_iter().fold(self, Line::field)
    }

    /// Adds a field in quotes, whatever it holds: for formats in which it always has them.
    pub(crate) fn quoted(mut self, text: &str) -> Line<'a> {
        self.comma();
        self.out.push_str(&quoted(text));
        self
    }

    /// Ends the line.
    pub(crate) fn end(self) {
        self.out.push('\n');
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_would_end_early_are_quoted() {
        let mut out = String::new();
        Line::of(&mut out).field("a b").field(1.5).field("x,y").field("say \"x\"").field("two\nlines").end();
        Line::of(&mut out).known(None::<u32>).known(Some(7)).fields(["", "z"]).quoted("always").end();
        assert_eq!(out, "a b,1.5,\"x,y\",\"say \"\"x\"\"\",\"two\nlines\"\n,7,,z,\"always\"\n");
    }

    #[test]
    fn a_device_with_a_comma_in_its_path_stays_one_field() {
        use run::floor::{FloorPlan, FloorResult};
        let mut result = FloorResult {
            plan: FloorPlan::default(),
            clock_read_cost_ns: 20.0,
            cells: vec![],
            not_possible: vec![],
            recorder: None,
            wake_up: None,
        };
        result.cells.push(run::floor::FloorCell {
            transport: "binder".into(),
            backend: Some(run::ipc::Backend::Kernel { device: "/dev/a,b".into(), features: None }),
            size_bytes: 4,
            placement: run::CpuPlacement::Same,
            client_cpus: vec![0],
            server_cpus: vec![0],
            round_medians_ns: vec![],
            latency: latency::Histogram::new(),
            against_futex: None,
            recorded: None,
        });
        let text = crate::floor::csv(&result);
        assert!(text.contains(",\"kernel driver at /dev/a,b\","), "{text}");
    }
}
