//! One call by a thread that does nothing else meanwhile: hands it over, and waits for what ends
//! it. Knows no backend, and nothing of what is called.

use crate::uapi::TransactionData;
use crate::{Commands, Driver, Error, Return, Returns};

/// What ended a synchronous call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The reply. Its buffer is the caller's until it is given back
    /// ([`Command::FreeBuffer`](crate::Command)).
    Reply(TransactionData),
    /// Whoever was called is dead, or died meanwhile (`BR_DEAD_REPLY`).
    Dead,
    /// The driver refused the call or its reply (`BR_FAILED_REPLY`).
    Failed,
    /// Whoever was called is frozen (`BR_FROZEN_REPLY`).
    Frozen,
}

/// Hands over `commands`, the last of which is a synchronous transaction, with the `memory` that
/// they name, and waits for its end.
///
/// For a thread of a process without nodes of its own: what else the driver has to say meanwhile, a
/// call back to such a node or news of its references, is dropped.
///
/// # Errors
/// [`Error::WriteRead`] as [`Driver::write_read`]'s.
#[inline]
pub fn call<D: Driver + ?Sized>(
    driver: &D,
    commands: &mut Commands,
    memory: &[&[u8]],
    returns: &mut Returns,
) -> Result<Answer, Error> {
    loop {
        driver.write_read(commands, memory, Some(returns))?;
        let end = returns.find_map(|item| match item {
            Return::Reply(reply) => Some(Answer::Reply(reply)),
            Return::DeadReply => Some(Answer::Dead),
            Return::FailedReply => Some(Answer::Failed),
            Return::FrozenReply => Some(Answer::Frozen),
            _ => None,
        });
        if let Some(end) = end {
            return Ok(end);
        }
    }
}
