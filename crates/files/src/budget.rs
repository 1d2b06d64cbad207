//! [`Budget`]: how much one file of unknown origin may cost, whatever its bytes ask for. Must not
//! know any file format.

use std::cell::Cell;
use std::fmt::{self, Display};

/// What reading a file may still take: memory, items and steps. Every reader of files that others
/// made charges its budget for what it takes, so no file costs more than it, however it was made.
#[derive(Debug, Clone)]
pub struct Budget {
    most: [u64; 3],
    left: [Cell<u64>; 3],
    exceeded: Cell<Option<Exceeded>>,
}

/// A file asks for more than its budget. Each contains the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// Memory for what the file contains, in bytes.
    Memory(u64),
    /// Items, such as events.
    Items(u64),
    /// Work: messages or lines looked at.
    Steps(u64),
}

impl Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(most) => write!(f, "its contents take more than {} MiB of memory", most >> 20),
            Self::Items(most) => write!(f, "it has more than {most} items"),
            Self::Steps(most) => write!(f, "it has more than {most} parts"),
        }
    }
}

impl std::error::Error for Exceeded {}

impl Budget {
    /// A budget of memory in bytes, of items and of steps.
    #[must_use]
    pub const fn new(memory_bytes: u64, items: u64, steps: u64) -> Self {
        let left = [Cell::new(memory_bytes), Cell::new(items), Cell::new(steps)];
        Self { most: [memory_bytes, items, steps], left, exceeded: Cell::new(None) }
    }

    /// The budget of what this program made itself.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX, u64::MAX)
    }

    /// Charges memory that is kept.
    ///
    /// # Errors
    /// If less is left.
    pub fn memory(&self, bytes: usize) -> Result<(), Exceeded> {
        self.charge(0, bytes, Exceeded::Memory)
    }

    /// Charges an item.
    ///
    /// # Errors
    /// If none is left.
    pub fn item(&self) -> Result<(), Exceeded> {
        self.charge(1, 1, Exceeded::Items)
    }

    /// Charges a step.
    ///
    /// # Errors
    /// If none is left.
    pub fn step(&self) -> Result<(), Exceeded> {
        self.charge(2, 1, Exceeded::Steps)
    }

    /// Whether the file has asked for more than there was, for a reader that ends later.
    ///
    /// # Errors
    /// If it has.
    pub fn check(&self) -> Result<(), Exceeded> {
        self.exceeded.get().map_or(Ok(()), Err)
    }

    fn charge(&self, what: usize, amount: usize, exceeded: fn(u64) -> Exceeded) -> Result<(), Exceeded> {
        match self.left[what].get().checked_sub(amount as u64) {
            Some(left) => {
                self.left[what].set(left);
                Ok(())
            }
            None => {
                let exceeded = exceeded(self.most[what]);
                self.exceeded.set(self.exceeded.get().or(Some(exceeded)));
                Err(exceeded)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_refused_and_remembered() {
        let budget = Budget::new(2 << 20, 1, 2);
        budget.memory(1 << 20).and_then(|()| budget.item()).and_then(|()| budget.step()).unwrap();
        assert_eq!(budget.check(), Ok(()));
        assert_eq!(budget.item(), Err(Exceeded::Items(1)));
        let refused = budget.memory((1 << 20) + 1).unwrap_err();
        assert_eq!(refused.to_string(), "its contents take more than 2 MiB of memory");
        budget.memory(1 << 20).unwrap();
        assert_eq!(budget.check(), Err(Exceeded::Items(1)), "the first");
    }
}
