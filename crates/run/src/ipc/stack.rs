//! Parses a stack's name.

use roundtrip_vocabulary::Stack;

use crate::error::Result;
use crate::plan_fault::Unknown;

/// The stack with this name.
///
/// # Errors
/// [`crate::Error::Unknown`] for any other name, with the valid names.
pub fn stack(text: &str) -> Result<Stack> {
    let found = Stack::ALL.into_iter().find(|stack| stack.name() == text);
    found.ok_or_else(|| Unknown::new("stack", text, Stack::ALL.map(Stack::name)).into())
}
