//! The cheapest call over the driver: one ioctl on each side, which also frees the previous buffer.
//! There are two variants. In place, only the driver copies: the client sends its buffer, and the
//! server replies from its receive area. As messages, the payload follows the header that a parcel
//! of the same call has, so each side copies the payload once before it sends it.

use std::hint::black_box;

use crate::device::{
    Answer, BC_ENTER_LOOPER, BC_FREE_BUFFER, BC_REPLY, BC_TRANSACTION, BR_REPLY, BR_TRANSACTION, Device,
    FreeAndSend, SendAndFree, Transaction, bytes,
};
use crate::{Call, Result};

/// A request's header in a parcel: the token of `roundtrip.IBenchmark` and a length.
const REQUEST_HEADER: &[u8] = &[0; 64];
/// A reply's header in a parcel: a status and a length.
const REPLY_HEADER: &[u8] = &[0; 8];

fn transaction(data: &[u8]) -> Transaction {
    Transaction {
        code: 1,
        data_size: data.len() as u64,
        buffer: data.as_ptr() as u64,
        ..Transaction::default()
    }
}

pub(crate) fn serve() -> Result<()> {
    serve_with(|request, _| request)
}

pub(crate) fn serve_messages() -> Result<()> {
    serve_with(|request, message| {
        message.clear();
        message.extend_from_slice(REPLY_HEADER);
        message.extend_from_slice(request.get(REQUEST_HEADER.len()..).unwrap_or_default());
        message
    })
}

fn serve_with(answer: for<'a> fn(&'a [u8], &'a mut Vec<u8>) -> &'a [u8]) -> Result<()> {
    let mut device = Device::open()?;
    device.become_context_manager()?;
    let mut message = Vec::new();
    let mut arrived = device.exchange(&BC_ENTER_LOOPER, BR_TRANSACTION)?;
    loop {
        let Answer::Received(call) = arrived else {
            return Err("unexpected BR_DEAD_REPLY in a server".into());
        };
        let reply = answer(bytes(call.buffer, call.data_size), &mut message);
        let commands = SendAndFree {
            send: BC_REPLY,
            transaction: transaction(reply),
            free: BC_FREE_BUFFER,
            buffer: call.buffer,
        };
        arrived = device.exchange(&commands, BR_TRANSACTION)?;
    }
}

pub(crate) fn connect(messages: bool) -> Result<Call> {
    let mut device = Device::open()?;
    let mut message = Vec::new();
    let mut last = None;
    Ok(Box::new(move |payload| {
        let (data, expected) = if messages {
            message.clear();
            message.extend_from_slice(REQUEST_HEADER);
            message.extend_from_slice(payload);
            (&message[..], REPLY_HEADER.len() + payload.len())
        } else {
            (payload, payload.len())
        };
        let (send, transaction) = (BC_TRANSACTION, transaction(data));
        let answer = match last.take() {
            Some(buffer) => {
                device.exchange(&FreeAndSend { free: BC_FREE_BUFFER, buffer, send, transaction }, BR_REPLY)?
            }
            None => device.exchange(&First { send, transaction }, BR_REPLY)?,
        };
        let Answer::Received(reply) = answer else { return Ok(false) };
        last = Some(reply.buffer);
        match black_box(bytes(reply.buffer, reply.data_size)).len() == expected {
            true => Ok(true),
            false => Err("the reply is not an echo".into()),
        }
    }))
}

#[repr(C, packed)]
struct First {
    send: u32,
    transaction: Transaction,
}
