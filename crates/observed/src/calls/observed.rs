//! Transactions as data.

/// The transaction flag of a oneway request, which gets no reply (`TF_ONE_WAY`,
/// linux/android/binder.h).
pub const TF_ONE_WAY: u32 = 1;

/// A request as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The driver's debug id of the transaction.
    pub id: i32,
    /// The thread that sent it.
    pub client: u32,
    /// The target process.
    pub to_process: u32,
    /// The driver's debug id of the target node.
    pub node: i32,
    /// The transaction code, which selects the method.
    pub code: u32,
    /// `TF_*`.
    pub flags: u32,
    /// The id of the call that the client was handling when it made this one; `None` if it was not
    /// handling any.
    pub parent: Option<i32>,
    /// When the driver accepted it. All times here are nanoseconds of the trace's clock.
    pub start_ns: u64,
}

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The request.
    pub sent: Sent,
    /// The thread that served.
    pub server: u32,
    /// How long the request waited because no thread of the server was ready, in nanoseconds; 0 if
    /// a thread was ready. `None` if the events do not show it.
    pub behind_pool_ns: Option<u64>,
    /// When the server's thread received the request.
    pub received_ns: u64,
    /// When it sent the reply.
    pub replied_ns: u64,
    /// When the client received the reply.
    pub end_ns: u64,
}

impl Call {
    /// How long the client waited, in nanoseconds.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.sent.start_ns)
    }
}

/// A oneway transaction, from when the client sent it until a thread of the server received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oneway {
    /// The request.
    pub sent: Sent,
    /// The thread that received it.
    pub server: u32,
    /// When that thread received it. Until then, the request was queued at its node or process.
    pub received_ns: u64,
}

/// A call that the driver ended with an error instead of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The thread that called.
    pub client: u32,
    /// The request; `None` if the driver refused it before it gave it an id.
    pub sent: Option<Sent>,
    /// `BR_DEAD_REPLY`, `BR_FAILED_REPLY` or `BR_FROZEN_REPLY`.
    pub command: u32,
    /// When the caller received the error.
    pub at_ns: u64,
}

/// A transaction that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// A round trip.
    Call(Call),
    /// A transaction without a reply.
    Oneway(Oneway),
    /// A call that failed.
    Failed(Failed),
}

impl Observed {
    /// The thread that called.
    #[must_use]
    pub fn client(&self) -> u32 {
        match self {
            Self::Call(Call { sent, .. }) | Self::Oneway(Oneway { sent, .. }) => sent.client,
            Self::Failed(failed) => failed.client,
        }
    }

    /// The thread that served; `None` for a failed call.
    #[must_use]
    pub fn server(&self) -> Option<u32> {
        match self {
            Self::Call(Call { server, .. }) | Self::Oneway(Oneway { server, .. }) => Some(*server),
            Self::Failed(_) => None,
        }
    }

    /// The request; `None` if the driver refused it before it gave it an id.
    #[must_use]
    pub fn sent(&self) -> Option<&Sent> {
        match self {
            Self::Call(Call { sent, .. }) | Self::Oneway(Oneway { sent, .. }) => Some(sent),
            Self::Failed(failed) => failed.sent.as_ref(),
        }
    }
}
