//! The lines of a run's CSV, by column. The tests' own runs have no quoted fields.

use std::collections::BTreeMap;

/// A line, by column.
pub(crate) type Line = BTreeMap<String, String>;

/// All lines below the header.
pub(crate) fn lines(csv: &str) -> Vec<Line> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), header.len(), "{line}");
        header.iter().zip(fields).map(|(name, field)| ((*name).to_owned(), field.to_owned())).collect()
    };
    lines.map(line).collect()
}

/// The labels of the groups that have this metric, and its value.
pub(crate) fn of(csv: &str, metric: &str, labels: &[&str]) -> Vec<(String, f64)> {
    let found = lines(csv).into_iter().filter(|line| line["metric"] == metric);
    let group = |line: &Line| labels.iter().map(|label| line[*label].as_str()).collect::<Vec<_>>().join(" ");
    found.map(|line| (group(&line), line["value"].parse().unwrap())).collect()
}
