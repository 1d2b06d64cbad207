//! Chooses what a sentence says about an operation. Words are elsewhere.

use super::{OfKind, OfProcess, Reasons};

/// What a sentence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The delay, in nanoseconds: all time without the usual share.
    pub delay_ns: u64,
    /// The unknown part of it.
    pub unknown_ns: u64,
    /// Whether more than half of the delay is unknown. Then the sentence begins with that.
    pub cannot_tell: bool,
    /// Whether the unknown part could change the order of the reasons.
    pub mostly: bool,
    /// The known reasons that the sentence names, the largest first. They are at least half of the
    /// delay unless more than half is unknown.
    pub named: Vec<Named<'a>>,
}

/// A reason that a sentence names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The reason.
    pub of: &'a OfKind,
    /// Whether all of it came after the reason that is named before it.
    pub then: bool,
}

/// Who is named within a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Most<'a> {
    /// This process, which has at least half of it.
    One(&'a OfProcess),
    /// None has. The processes of this name and class together have most of it.
    Of(Alike<'a>),
}

/// The processes of one name and class within a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike<'a> {
    /// The largest of them.
    pub first: &'a OfProcess,
    /// How many they are, at least 1.
    pub count: usize,
    /// What all of them have, in nanoseconds.
    pub lost_ns: u64,
    /// How many processes there are of any name.
    pub of: usize,
}

impl Reasons {
    /// What a sentence says about the operation.
    #[must_use]
    pub fn answer(&self) -> Answer<'_> {
        let (delay_ns, unknown_ns) = (self.delay_ns(), self.unknown_ns());
        let cannot_tell = unknown_ns * 2 > delay_ns;
        let mut named: Vec<Named<'_>> = Vec::new();
        let mut named_ns = 0;
        for of in self.known() {
            let enough = named_ns * 2 >= delay_ns || cannot_tell;
            let counts = match named.len() {
                0 => true,
                1 => of.lost_ns * 4 >= delay_ns || !enough,
                _ => !enough,
            };
            if !counts {
                break;
            }
            named_ns += of.lost_ns;
            let then = named.last().is_some_and(|before| before.of.last_ns <= of.first_ns);
            named.push(Named { of, then });
        }
        let mut sizes = self.known().map(|of| of.lost_ns);
        let (first_ns, second_ns) = (sizes.next().unwrap_or(0), sizes.next().unwrap_or(0));
        let mostly = !cannot_tell && second_ns + unknown_ns > first_ns;
        Answer { delay_ns, unknown_ns, cannot_tell, mostly, named }
    }
}

impl OfKind {
    /// Who is named within it; `None` if there is nothing to name.
    #[must_use]
    pub fn largest(&self) -> Option<Most<'_>> {
        let first = self.processes.first()?;
        if first.sum_ns * 2 >= self.sum_ns {
            return Some(Most::One(first));
        }
        let alike = self.processes.iter().map(|first| {
            let name = |one: &OfProcess| one.process.as_ref().map(|one| (one.name.clone(), one.class));
            let same = |one: &&OfProcess| name(one).is_some_and(|of| name(first) == Some(of));
            let all = self.processes.iter().filter(same);
            let (count, lost_ns) = all.fold((0, 0), |(count, ns), one| (count + 1, ns + one.lost_ns));
            let of = self.processes.len();
            if count == 0 {
                return Alike { first, count: 1, lost_ns: first.lost_ns, of };
            }
            Alike { first, count, lost_ns, of }
        });
        // Of equal ones, the first.
        alike.rev().max_by_key(|alike| alike.lost_ns).map(Most::Of)
    }
}
