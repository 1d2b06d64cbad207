//! Builds a transaction or reply with objects and scatter-gather buffers.

use roundtrip_binder_driver::uapi::*;
use roundtrip_binder_driver::{Command, Commands, Errno, Return};

use crate::actor::{Actor, Desk, Pending, data};

/// A transaction or reply to send.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) target: u32,
    pub(crate) code: u32,
    pub(crate) flags: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offsets: Vec<u64>,
    /// The buffers of PTR objects.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// The announced size of the buffers.
    pub(crate) room: u64,
}

impl Message {
    pub(crate) fn to(target: u32) -> Self {
        Self { target, code: 1, ..Self::default() }
    }

    pub(crate) fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) fn plain(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend(bytes);
        self
    }

    /// Appends an object.
    pub(crate) fn object(mut self, object: &[u8]) -> Self {
        self.offsets.push(self.bytes.len() as u64);
        self.plain(object)
    }

    /// Appends a PTR object without a parent, and its buffer.
    pub(crate) fn buffer(mut self, bytes: Vec<u8>) -> Self {
        let object = BufferObject {
            kind: BINDER_TYPE_PTR,
            buffer: bytes.as_ptr() as u64,
            length: bytes.len() as u64,
            ..Default::default()
        };
        self.room += align8(bytes.len() as u64).expect("a small number");
        self.buffers.push(bytes);
        self.object(&object.to_bytes())
    }

    /// Sends it, and does not read.
    pub(crate) fn send(&self, desk: &mut Desk, reply: bool) -> Result<(), Errno> {
        let (mut commands, offsets) = (Commands::default(), self.offsets());
        commands.push(self.command(reply, &offsets));
        desk.send(&mut commands, &self.memory(&offsets))
    }

    /// Begins to send it as a transaction and reads.
    pub(crate) fn call(self, actor: &Actor) -> Pending<Vec<Return>> {
        actor.start(move |desk| {
            let offsets = self.offsets();
            desk.write_read(&[self.command(false, &offsets)], &self.memory(&offsets))
        })
    }

    /// Sends it as a transaction, and does not read.
    pub(crate) fn write(self, actor: &Actor) {
        actor.run(move |desk| self.send(desk, false)).expect("a command that is taken");
    }

    /// Sends it as a reply, and does not read.
    pub(crate) fn reply(self, actor: &Actor) {
        actor.run(move |desk| self.send(desk, true)).expect("a command that is taken");
    }

    fn offsets(&self) -> Vec<u8> {
        self.offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect()
    }

    fn memory<'a>(&'a self, offsets: &'a [u8]) -> Vec<&'a [u8]> {
        let mut memory: Vec<&[u8]> = vec![&self.bytes, offsets];
        memory.extend(self.buffers.iter().map(Vec::as_slice));
        memory
    }

    fn command(&self, reply: bool, offsets: &[u8]) -> Command {
        let mut data = data(self.target, self.code, self.flags, &self.bytes);
        (data.offsets, data.offsets_size) = (offsets.as_ptr() as u64, offsets.len() as u64);
        let data = data.gathered(self.room);
        if reply { Command::ReplySg(data) } else { Command::TransactionSg(data) }
    }
}

/// A local node.
pub(crate) fn node(ptr: u64, cookie: u64, flags: u32) -> Vec<u8> {
    FlatBinderObject { kind: BINDER_TYPE_BINDER, flags, binder: ptr, cookie }.to_bytes().into()
}

/// A handle.
pub(crate) fn handle(handle: u32) -> Vec<u8> {
    FlatBinderObject { kind: BINDER_TYPE_HANDLE, flags: 0, binder: handle.into(), cookie: 0 }
        .to_bytes()
        .into()
}
