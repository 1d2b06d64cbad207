//! The list of peers. A new peer is one file with a `const PEER: Peer`, and one line here.

use anyhow::Result;

use crate::peer::Peer;
use crate::{driver, futex, grpc, iceoryx, pipe, rsbinder_rpc, socket, stack, zbus_p2p};

/// All peers: the baselines, this project's, and others.
pub(crate) const PEERS: &[Peer] = &[
    futex::PEER,
    pipe::PEER,
    socket::PEER,
    driver::PEER,
    driver::FUTEX,
    stack::BINDER,
    stack::HWBINDER,
    rsbinder_rpc::PEER,
    iceoryx::PEER,
    zbus_p2p::PEER,
    grpc::PEER,
];

/// The peer with this name.
pub(crate) fn find(name: &str) -> Result<&'static Peer> {
    let found = PEERS.iter().find(|peer| peer.name == name);
    let names = || PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| anyhow::anyhow!("there is no peer '{name}': choose from {}", names()))
}
