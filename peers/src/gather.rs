//! Like [`plain`](crate::plain) in place, but with the objects of a hwbinder vector: a header and
//! its bytes. The driver copies both from the sender's memory, and writes their new addresses into
//! the objects and the header.

use std::hint::black_box;

use crate::device::{
    Answer, BC_ENTER_LOOPER, BC_FREE_BUFFER, BC_REPLY_SG, BC_TRANSACTION_SG, BR_REPLY, BR_TRANSACTION,
    Device, FreeAndSend, SendAndFree, Transaction, bytes,
};
use crate::{Call, Result};

const BINDER_TYPE_PTR: u32 = 0x7074_2a85;
const BINDER_BUFFER_FLAG_HAS_PARENT: u32 = 1;

/// `struct binder_transaction_data_sg`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Gathered {
    transaction: Transaction,
    buffers_size: u64,
}

/// `struct binder_buffer_object`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Buffer {
    kind: u32,
    flags: u32,
    buffer: u64,
    length: u64,
    parent: u64,
    parent_offset: u64,
}

/// A vector's header: the address of its bytes, which the driver updates, and their number.
#[repr(C)]
#[derive(Default)]
struct Header {
    address: u64,
    length: u32,
    owned: u32,
}

/// A message: a word, because a parent must not be at offset 0, and the two objects.
#[repr(C)]
#[derive(Default)]
struct Message {
    word: u64,
    header: Buffer,
    contents: Buffer,
}

/// The offsets of the objects in the message.
static OFFSETS: [u64; 2] = [8, 48];

/// A message and the header that it points to. Must not move while it is being sent.
#[derive(Default)]
struct Outgoing {
    message: Message,
    header: Header,
}

impl Outgoing {
    fn name(&mut self, contents: &[u8]) -> Gathered {
        self.header = Header { length: contents.len() as u32, ..Header::default() };
        self.message.header = Buffer {
            kind: BINDER_TYPE_PTR,
            buffer: std::ptr::from_ref(&self.header) as u64,
            length: size_of::<Header>() as u64,
            ..Buffer::default()
        };
        self.message.contents = Buffer {
            kind: BINDER_TYPE_PTR,
            flags: BINDER_BUFFER_FLAG_HAS_PARENT,
            buffer: contents.as_ptr() as u64,
            length: contents.len() as u64,
            parent: 0,
            parent_offset: 0,
        };
        let transaction = Transaction {
            code: 1,
            data_size: size_of::<Message>() as u64,
            offsets_size: size_of_val(&OFFSETS) as u64,
            buffer: std::ptr::from_ref(&self.message) as u64,
            offsets: OFFSETS.as_ptr() as u64,
            ..Transaction::default()
        };
        let buffers_size = (size_of::<Header>() + contents.len().next_multiple_of(8)) as u64;
        Gathered { transaction, buffers_size }
    }
}

/// The bytes of the vector that arrived, in place.
fn contents(received: &Transaction) -> &'static [u8] {
    // SAFETY: both sides send a `Message`, and the driver has put the contents' address into it.
    let message = unsafe { &*(received.buffer as *const Message) };
    bytes(message.contents.buffer, message.contents.length)
}

pub(crate) fn serve() -> Result<()> {
    let mut device = Device::open()?;
    device.become_context_manager()?;
    let mut outgoing = Box::<Outgoing>::default();
    let mut arrived = device.exchange(&BC_ENTER_LOOPER, BR_TRANSACTION)?;
    loop {
        let Answer::Received(call) = arrived else {
            return Err("unexpected BR_DEAD_REPLY in a server".into());
        };
        let commands = SendAndFree {
            send: BC_REPLY_SG,
            transaction: outgoing.name(contents(&call)),
            free: BC_FREE_BUFFER,
            buffer: call.buffer,
        };
        arrived = device.exchange(&commands, BR_TRANSACTION)?;
    }
}

pub(crate) fn connect() -> Result<Call> {
    let mut device = Device::open()?;
    let mut outgoing = Box::<Outgoing>::default();
    let mut last = None;
    Ok(Box::new(move |payload| {
        let (send, transaction) = (BC_TRANSACTION_SG, outgoing.name(payload));
        let answer = match last.take() {
            Some(buffer) => {
                device.exchange(&FreeAndSend { free: BC_FREE_BUFFER, buffer, send, transaction }, BR_REPLY)?
            }
            None => device.exchange(&First { send, transaction }, BR_REPLY)?,
        };
        let Answer::Received(reply) = answer else { return Ok(false) };
        last = Some(reply.buffer);
        match black_box(contents(&reply)).len() == payload.len() {
            true => Ok(true),
            false => Err("the reply is not an echo".into()),
        }
    }))
}

#[repr(C, packed)]
struct First {
    send: u32,
    transaction: Gathered,
}
