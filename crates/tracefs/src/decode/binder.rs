//! The events of the binder driver in C and of the one in Rust. The latter's system is
//! `rust_binder`. Android's kernels also prefix the names of its events
//! (`rust_binder_transaction`), omit `to_thread`, and name the returned command `ret`.

use super::Reader;
use super::slots::Number;
use crate::event::Body;
use crate::format::Format;

pub(super) fn reader(format: &Format) -> Option<Reader> {
    if !matches!(format.system.as_str(), "binder" | "rust_binder") {
        return None;
    }
    let number = |name| Number::of(format, name);
    Some(match format.name.strip_prefix("rust_").unwrap_or(&format.name) {
        "binder_transaction" => {
            let (debug_id, target_node) = (number("debug_id")?, number("target_node")?);
            let (to_proc, to_thread) = (number("to_proc")?, number("to_thread"));
            let (reply, code, flags) = (number("reply")?, number("code")?, number("flags")?);
            Box::new(move |r, _| {
                Some(Body::BinderTransaction {
                    debug_id: debug_id.i32(r)?,
                    target_node: target_node.i32(r)?,
                    to_proc: to_proc.u32(r)?,
                    to_thread: to_thread.map_or(Some(0), |to_thread| to_thread.u32(r))?,
                    reply: reply.u64(r)? != 0,
                    code: code.u32(r)?,
                    flags: flags.u32(r)?,
                })
            })
        }
        "binder_transaction_received" => {
            let debug_id = number("debug_id")?;
            Box::new(move |r, _| Some(Body::BinderReceived { debug_id: debug_id.i32(r)? }))
        }
        "binder_wait_for_work" => {
            let (proc_work, stack) = (number("proc_work")?, number("transaction_stack")?);
            let todo = number("thread_todo")?;
            Box::new(move |r, _| {
                Some(Body::BinderWait {
                    proc_work: proc_work.u64(r)? != 0,
                    transaction_stack: stack.u64(r)? != 0,
                    thread_todo: todo.u64(r)? != 0,
                })
            })
        }
        "binder_return" => {
            let command = number("cmd").or_else(|| number("ret"))?;
            Box::new(move |r, _| Some(Body::BinderReturn { command: command.u32(r)? }))
        }
        "binder_set_priority" => {
            let (thread, old, new) = (number("thread")?, number("old_prio")?, number("new_prio")?);
            Box::new(move |r, _| {
                Some(Body::BinderSetPriority {
                    tid: thread.u32(r)?,
                    old_prio: old.i32(r)?,
                    new_prio: new.i32(r)?,
                })
            })
        }
        _ => return None,
    })
}
