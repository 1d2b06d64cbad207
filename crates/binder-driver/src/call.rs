//! Makes one call on a thread that does not serve calls meanwhile: sends it and waits for the
//! result. This file knows neither the backend nor the callee.

use crate::uapi::TransactionData;
use crate::{Commands, Driver, Error, Return, Returns};

/// The result of a synchronous call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The reply. The caller owns its buffer until it frees it
    /// ([`Command::FreeBuffer`](crate::Command)).
    Reply(TransactionData),
    /// The callee was dead or died during the call (`BR_DEAD_REPLY`).
    Dead,
    /// The driver refused the call or its reply (`BR_FAILED_REPLY`).
    Failed,
    /// The callee is frozen (`BR_FROZEN_REPLY`).
    Frozen,
}

/// Sends `commands`, the last of which must be a synchronous transaction, and waits for its result.
/// `memory` contains all memory that the commands refer to.
///
/// The calling process must have no nodes: other returns, such as calls to its nodes, are
/// discarded.
///
/// # Errors
/// The errors of [`Driver::write_read`].
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
