//! Turns orders into commands, with the handles and buffers that their process has received. Sends
//! nothing.

use roundtrip_binder_driver::uapi::{HandleCookie, PtrCookie, TransactionData};
use roundtrip_binder_driver::{Command, Commands};

use super::describe::Holdings;
use super::payload::Built;
use super::steps::{Counting, Order, Send, Target};

/// A command without effect, of [`MARK_BYTES`] bytes, that follows a transaction. The driver does
/// not consume it if it refused the transaction.
pub(super) const MARK: Command = Command::IncrefsDone(PtrCookie { ptr: 0xdead_0000, cookie: 0 });
pub(super) const MARK_BYTES: usize = 4 + PtrCookie::SIZE;

/// A word that is no command: type 'c', number 200, without a payload.
const NONSENSE: u32 = (b'c' as u32) << 8 | 200;

pub(super) fn number_of(target: Target, holdings: &Holdings) -> u32 {
    match target {
        Target::Number(handle) => handle,
        Target::Held(back) => holdings.handles.iter().rev().nth(back).copied().unwrap_or(0),
    }
}

/// Queues an order as a command. `holdings` is what its process has received so far. Each payload
/// is followed by `padding` bytes. Returns the address of the buffer that the command frees, if
/// any.
pub(super) fn queue(
    order: &Order,
    holdings: &mut Holdings,
    commands: &mut Commands,
    sent: &mut Vec<Built>,
    padding: usize,
) -> Option<u64> {
    let handle = |target| number_of(target, holdings);
    let command = match order {
        Order::Send(send) => {
            let built = Built::new(&send.payload, padding, handle);
            let description = built.description(handle(send.target), send.flags);
            let command = command_of(send, description, built.room());
            sent.push(built);
            command
        }
        Order::FreeLast => Command::FreeBuffer(holdings.buffers.pop().unwrap_or(0x1000)),
        Order::Free(which) => Command::FreeBuffer(match holdings.buffers.len() {
            0 => 0x1000,
            some => holdings.buffers.swap_remove(which % some),
        }),
        Order::Count(Counting::Increfs, target) => Command::Increfs(handle(*target)),
        Order::Count(Counting::Acquire, target) => Command::Acquire(handle(*target)),
        Order::Count(Counting::Release, target) => Command::Release(handle(*target)),
        Order::Count(Counting::Decrefs, target) => Command::Decrefs(handle(*target)),
        Order::Done { strong, ptr, cookie } => {
            let named = PtrCookie { ptr: *ptr, cookie: *cookie };
            if *strong { Command::AcquireDone(named) } else { Command::IncrefsDone(named) }
        }
        Order::RequestDeath(target, cookie) => {
            Command::RequestDeathNotification(HandleCookie { handle: handle(*target), cookie: *cookie })
        }
        Order::ClearDeath(target, cookie) => {
            Command::ClearDeathNotification(HandleCookie { handle: handle(*target), cookie: *cookie })
        }
        Order::DeadBinderDone(cookie) => Command::DeadBinderDone(*cookie),
        Order::RequestFreeze(target, cookie) => {
            Command::RequestFreezeNotification(HandleCookie { handle: handle(*target), cookie: *cookie })
        }
        Order::ClearFreeze(target, cookie) => {
            Command::ClearFreezeNotification(HandleCookie { handle: handle(*target), cookie: *cookie })
        }
        Order::FreezeDone(cookie) => Command::FreezeNotificationDone(*cookie),
        Order::EnterLooper => Command::EnterLooper,
        Order::RegisterLooper => Command::RegisterLooper,
        Order::ExitLooper => Command::ExitLooper,
        Order::Nonsense => {
            // Its payload is empty. The kernel never sees a command whose payload is truncated, so
            // such a command would have another result there.
            commands.raw(&NONSENSE.to_ne_bytes());
            return None;
        }
    };
    commands.push(command);
    if let Command::FreeBuffer(freed) = command { Some(freed) } else { None }
}

fn command_of(send: &Send, plain: TransactionData, room: u64) -> Command {
    match (send.payload.needs_buffers(), send.reply) {
        (false, false) => Command::Transaction(plain),
        (false, true) => Command::Reply(plain),
        (true, false) => Command::TransactionSg(plain.gathered(room)),
        (true, true) => Command::ReplySg(plain.gathered(room)),
    }
}
