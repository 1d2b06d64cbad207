//! What is known of a transaction, as data.

/// The bit of a transaction's flags that says that nobody waits for a reply (`TF_ONE_WAY`,
/// linux/android/binder.h).
pub const TF_ONE_WAY: u32 = 1;

/// A request as its sender made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The driver's number of the transaction.
    pub id: i32,
    /// The thread that sent it.
    pub client: u32,
    /// The process that it went to.
    pub to_process: u32,
    /// The driver's number of the node.
    pub node: i32,
    /// The method.
    pub code: u32,
    /// `TF_*`.
    pub flags: u32,
    /// The number of the call in whose handling this one was made.
    pub parent: Option<i32>,
    /// When the driver began to carry it out, in nanoseconds of the trace's clock, as all instants
    /// here.
    pub start_ns: u64,
}

/// A round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The request.
    pub sent: Sent,
    /// The thread that served.
    pub server: u32,
    /// For how long no thread of the server was ready to take the request, in nanoseconds: 0 where
    /// one was. `None` where the events do not tell.
    pub behind_pool_ns: Option<u64>,
    /// When a thread of the server had the request.
    pub received_ns: u64,
    /// When it sent the reply.
    pub replied_ns: u64,
    /// When the client had the reply.
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
    /// The thread that took it.
    pub server: u32,
    /// When it did: until then it was in the queue of its node or process.
    pub received_ns: u64,
}

/// A call whose caller got an error from the driver in place of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The thread that called.
    pub client: u32,
    /// The request; `None` where the driver refused it before it had a number.
    pub sent: Option<Sent>,
    /// `BR_DEAD_REPLY`, `BR_FAILED_REPLY` or `BR_FROZEN_REPLY`.
    pub command: u32,
    /// When the caller had the error.
    pub at_ns: u64,
}

/// What was seen to end.
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

    /// The request; `None` where the driver refused it before it had a number.
    #[must_use]
    pub fn sent(&self) -> Option<&Sent> {
        match self {
            Self::Call(Call { sent, .. }) | Self::Oneway(Oneway { sent, .. }) => Some(sent),
            Self::Failed(failed) => failed.sent.as_ref(),
        }
    }
}
