//! All transports. A new one is one file that implements [`End`](super::transport::End), and one
//! line here.

use super::transport::Transport;
use super::{driver, eventfd, futex, mqueue, pipe, socket, spin, stack};

/// Every transport, the baseline first.
pub(super) const TRANSPORTS: &[&Transport] = &[
    &futex::FUTEX,
    &eventfd::EVENTFD,
    &pipe::PIPE,
    &socket::STREAM,
    &socket::SEQPACKET,
    &mqueue::MQUEUE,
    &driver::DRIVER,
    &stack::BINDER,
    &stack::HWBINDER,
    &spin::SPIN,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_of_plans_can_be_measured_and_no_other() {
        let ours = TRANSPORTS.iter().map(|transport| transport.name);
        assert!(ours.eq(roundtrip_run::baseline::TRANSPORTS.iter().map(|transport| transport.name)));
    }
}
