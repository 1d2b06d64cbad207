//! Adds up the reasons of many operations: by kind, and by the name and class of the process,
//! whatever its ids and threads.

use roundtrip_sorting::SmallSort as _;

use super::{Class, OfKind, OfProcess, Operation, Reason, ReasonKind, Reasons, Timed, Without};

/// If more than this percentage of an operation's delay is unknown, what would be left without a
/// cause is not known.
const UNKNOWN_PERCENT: u64 = 10;

/// The number of rows that are kept: those to which most time was lost. Programs have any number of
/// names, so rows are merged when there are twice as many.
const MOST_ROWS: usize = 500;

/// What a row is about, besides its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// All processes of this name and class.
    Process {
        /// The name.
        name: String,
        /// How they were scheduled.
        class: Class,
    },
    /// What names the reason if no process does.
    Reason(Reason),
    /// The same in words, which is all that a stored sum knows.
    Words(String),
    /// Time that no event shows, for whatever reason.
    Unknown,
    /// Everything to which too little time was lost for a row of its own.
    Others,
}

impl Subject {
    fn of(kind: ReasonKind, process: &OfProcess) -> Self {
        match &process.process {
            _ if kind == ReasonKind::Unknown => Self::Unknown,
            Some(process) => Self::Process { name: process.name.clone(), class: process.class },
            None => Self::Reason(process.reason().clone()),
        }
    }
}

/// What many operations lost to one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The kind of the reason.
    pub kind: ReasonKind,
    /// Who or what it is.
    pub subject: Subject,
    /// The number of operations of which it was the main reason.
    pub operations: u64,
    /// The time that all operations lost to it, in nanoseconds.
    pub lost_ns: u64,
    /// The most that one operation lost to it, in nanoseconds.
    pub worst_ns: u64,
    /// What these operations would have been without it. Not those that were added without their
    /// times, or of whose delay too much is unknown.
    pub without: Without,
}

/// The reasons of many operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Across {
    rows: Vec<Row>,
    operations: u64,
    ordinary: u64,
    timed: Timed,
}

impl Across {
    /// Adds an operation.
    pub fn add(&mut self, reasons: &Reasons) {
        self.add_any(None, reasons);
    }

    /// Adds an operation with its start and duration, on which predictions rest.
    pub fn add_timed(&mut self, of: Operation, reasons: &Reasons) {
        let unknown = reasons.unknown_ns() * 100 > reasons.delay_ns() * UNKNOWN_PERCENT;
        self.timed.add(of, unknown);
        self.add_any((!unknown).then_some(of), reasons);
    }

    fn add_any(&mut self, timed: Option<Operation>, reasons: &Reasons) {
        self.operations += 1;
        let main = reasons.main();
        self.ordinary += u64::from(main.is_none());
        for of in &reasons.kinds {
            for (subject, lost_ns) in of.subjects().into_iter().filter(|(_, lost_ns)| *lost_ns > 0) {
                let is_main = main.as_ref().is_some_and(|main| *main == (of.kind, subject.clone()));
                let row = self.row(of.kind, subject);
                row.operations += u64::from(is_main);
                row.lost_ns += lost_ns;
                row.worst_ns = row.worst_ns.max(lost_ns);
                if let Some(of) = timed {
                    row.without.add(of, lost_ns);
                }
            }
        }
        self.shrink();
    }

    /// Adds up the rows to which least time was lost, by kind. What would be left without all of
    /// them is not known.
    fn shrink(&mut self) {
        if self.rows.len() > 2 * MOST_ROWS {
            self.rows.small_sort_by_key(|row| std::cmp::Reverse(row.lost_ns));
            for row in self.rows.split_off(MOST_ROWS) {
                self.add_row(Row { subject: Subject::Others, without: Without::default(), ..row });
            }
        }
    }

    /// Stored sums. `ordinary` of the operations lost nothing.
    #[must_use]
    pub fn stored(operations: u64, ordinary: u64, rows: Vec<Row>, timed: Timed) -> Self {
        Self { rows, operations, ordinary, timed }
    }

    /// The same with reasons in words, as stored sums have them. Rows that differ in nothing else
    /// are added up.
    #[must_use]
    pub fn in_words(&self, words: &dyn Fn(&Reason) -> String) -> Self {
        let mut out = Self { rows: Vec::new(), timed: self.timed.clone(), ..*self };
        for row in &self.rows {
            let subject = match &row.subject {
                Subject::Reason(reason) => Subject::Words(words(reason)),
                subject => subject.clone(),
            };
            out.add_row(Row { subject, ..row.clone() });
        }
        out
    }

    /// Adds other operations.
    pub fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.ordinary += other.ordinary;
        self.timed.merge(&other.timed);
        other.rows.iter().for_each(|row| self.add_row(row.clone()));
        self.shrink();
    }

    fn add_row(&mut self, of: Row) {
        let row = self.row(of.kind, of.subject);
        row.operations += of.operations;
        row.lost_ns += of.lost_ns;
        row.worst_ns = row.worst_ns.max(of.worst_ns);
        row.without.merge(&of.without);
    }

    fn row(&mut self, kind: ReasonKind, subject: Subject) -> &mut Row {
        let known = self.rows.iter().position(|row| row.kind == kind && row.subject == subject);
        let index = known.unwrap_or_else(|| {
            let without = Without::default();
            self.rows.push(Row { kind, subject, operations: 0, lost_ns: 0, worst_ns: 0, without });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// The rows, the one to which most time was lost first.
    #[must_use]
    pub fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.small_sort_by_key(|row| std::cmp::Reverse((row.lost_ns, row.operations)));
        rows
    }

    /// The number of operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The number of operations in which nothing took longer than usual.
    #[must_use]
    pub fn ordinary(&self) -> u64 {
        self.ordinary
    }

    /// The times of the operations. Empty if they were added without them.
    #[must_use]
    pub fn timed(&self) -> &Timed {
        &self.timed
    }

    /// The time that all of them lost, in nanoseconds.
    #[must_use]
    pub fn lost_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.lost_ns).sum()
    }
}

impl Reasons {
    /// The main reason and who or what it is; `None` if nothing took longer than usual. More than
    /// half unknown is unknown.
    #[must_use]
    pub fn main(&self) -> Option<(ReasonKind, Subject)> {
        if self.delay_ns() == 0 {
            return None;
        }
        if self.unknown_ns() * 2 > self.delay_ns() {
            return Some((ReasonKind::Unknown, Subject::Unknown));
        }
        let first = self.known().next()?;
        // Of equal ones, the first.
        let largest = first.subjects().into_iter().rev().max_by_key(|(_, lost_ns)| *lost_ns);
        largest.map(|(subject, _)| (first.kind, subject))
    }
}

impl OfKind {
    /// Who or what it is, with the time that was lost to each, in nanoseconds.
    #[must_use]
    pub fn subjects(&self) -> Vec<(Subject, u64)> {
        let mut out: Vec<(Subject, u64)> = Vec::new();
        for process in &self.processes {
            let subject = Subject::of(self.kind, process);
            match out.iter_mut().find(|(known, _)| *known == subject) {
                Some((_, sum_ns)) => *sum_ns += process.lost_ns,
                None => out.push((subject, process.lost_ns)),
            }
        }
        out
    }
}
