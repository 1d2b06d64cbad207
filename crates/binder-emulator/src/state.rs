//! What a context holds, as text: processes, their threads, transactions, nodes, references and
//! buffers, in the form of the kernel driver's `binder/state` in debugfs.
//!
//! Unlike in the kernel, a process is named by its number in the context, since one process may
//! open a context several times; the lines "requested threads" and "free async space", which the
//! kernel has in `binder/stats`, are here too; and there are no addresses of the driver's own.
//! Reading the state has one side effect, as in the kernel: see [`Guard::put_node`].

use std::fmt::{self, Write};

use crate::lock::Guard;
use crate::process::LIVE;
use crate::queue::Kind;
use crate::records::{
    Buffer, HANDLES, Id, Node, PROCESSES, Process, Queue, Record, Ref, Thread, Transaction, Work, buffer,
    node, process, reference, thread, transaction, work,
};
use crate::sched::Priority;
use crate::thread::LOOPER_WAITING;
use roundtrip_binder_driver::uapi::align8;

impl Guard<'_> {
    /// The state of the whole context.
    pub(crate) fn state(&mut self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_state(&mut text);
        text
    }

    fn write_state(&mut self, out: &mut String) -> fmt::Result {
        for slot in (1..PROCESSES as u64).filter_map(Id::<Process>::new) {
            if self.get(slot, process::STATE) == LIVE {
                self.write_process(out, slot)?;
            }
        }
        Ok(())
    }

    fn write_process(&mut self, out: &mut String, of: Id<Process>) -> fmt::Result {
        writeln!(out, "proc {}", of.index())?;
        let (requested, started) = (self.get(of, process::REQUESTED), self.get(of, process::STARTED));
        let most = self.get(of, process::MAX_THREADS);
        writeln!(out, "  requested threads: {requested}+{started}/{most}")?;
        writeln!(out, "  free async space {}", self.get(of, process::ASYNC_FREE))?;
        let mut threads = self.listed(self.get(of, process::THREADS_HEAD), |id| self.get(id, thread::NEXT));
        threads.sort_by_key(|&id| self.get(id, thread::TID));
        for id in threads {
            self.write_thread(out, of, id)?;
        }
        let mut nodes = self.listed(self.get(of, process::NODES), |id| self.get(id, node::NEXT));
        nodes.sort_by_key(|&id| self.get(id, node::PTR));
        for id in nodes {
            self.write_node(out, of, id)?;
            // Only a full table can fail here, and then the owner is not notified.
            let _ = self.put_node(id);
        }
        for handle in 0..self.get(of, process::HANDLE_END).min(HANDLES as u64) {
            if let Some(held) = self.find_ref(of, handle, super::node::Strength::Weak) {
                self.write_reference(out, held)?;
            }
        }
        for id in self.listed(self.get(of, process::BUFFERS), |id| self.get(id, buffer::NEXT)) {
            if !self.get(id, buffer::IS_FREE) {
                self.write_buffer(out, id)?;
            }
        }
        for entry in self.queued(process::TODO.queue(of)) {
            self.write_work(out, of, "  ", "pending transaction", entry)?;
        }
        if self.front(process::DELIVERED.queue(of)).is_some() {
            writeln!(out, "  has delivered dead binder")?;
        }
        if self.front(process::FREEZE_DELIVERED.queue(of)).is_some() {
            writeln!(out, "  has delivered freeze binder")?;
        }
        Ok(())
    }

    fn write_thread(&self, out: &mut String, of: Id<Process>, id: Id<Thread>) -> fmt::Result {
        let reads = self.region().sleep_word(id.index()).is_asleep() && !self.get(id, thread::POLLS);
        let waiting = if reads { LOOPER_WAITING } else { 0 };
        writeln!(
            out,
            "  thread {}: l {:02x} need_return {} tr 0",
            self.get(id, thread::TID),
            self.get(id, thread::LOOPER) | waiting,
            u8::from(self.get(id, thread::NEED_RETURN)),
        )?;
        let mut next = self.get(id, thread::STACK);
        while let Some(t) = self.step(next) {
            if self.get(t, transaction::FROM) == Some(id) {
                self.write_transaction(out, of, "    ", "outgoing transaction", t)?;
                next = self.get(t, transaction::FROM_PARENT);
            } else {
                self.write_transaction(out, of, "    ", "incoming transaction", t)?;
                next = self.get(t, transaction::TO_PARENT);
            }
        }
        for entry in self.queued(thread::TODO.queue(id)) {
            self.write_work(out, of, "    ", "pending transaction", entry)?;
        }
        Ok(())
    }

    fn write_transaction(
        &self,
        out: &mut String,
        of: Id<Process>,
        indent: &str,
        what: &str,
        t: Id<Transaction>,
    ) -> fmt::Result {
        let number = |id: Option<Id<Process>>| id.map_or(0, Id::index);
        let tid = |id: Option<Id<Thread>>| id.map_or(0, |id| self.get(id, thread::TID));
        let from = self.get(t, transaction::FROM);
        let to_process = self.get(t, transaction::TO_PROCESS);
        write!(
            out,
            "{indent}{what} {}: from {}:{} to {}:{} code {:x} flags {:x} pri {} r{}",
            t.index(),
            number(from.and_then(|from| self.get(from, thread::PROCESS))),
            tid(from),
            number(to_process),
            tid(self.get(t, transaction::TO_THREAD)),
            self.get(t, transaction::CODE),
            self.get(t, transaction::FLAGS),
            Priority::from_word(self.get(t, transaction::PRIORITY))
                .map_or(0, |priority| priority.level.saturating_sub(120)),
            u8::from(self.get(t, transaction::NEED_REPLY)),
        )?;
        // As in the kernel, which holds the locks of this process only.
        if to_process != Some(of) {
            return writeln!(out);
        }
        let Some(held) = self.get(t, transaction::BUFFER) else { return writeln!(out, " buffer free") };
        if let Some(target) = self.get(held, buffer::TARGET) {
            write!(out, " node {}", target.index())?;
        }
        writeln!(out, " size {}:{}", self.get(held, buffer::DATA_SIZE), self.get(held, buffer::OFFSETS_SIZE))
    }

    fn write_node(&self, out: &mut String, of: Id<Process>, id: Id<Node>) -> fmt::Result {
        let holders = self.listed(self.get(id, node::REFS), |held| self.get(held, reference::NEXT));
        write!(
            out,
            "  node {}: u{:016x} c{:016x} hs {} hw {} ls {} lw {} is {} iw {} tr 0",
            id.index(),
            self.get(id, node::PTR),
            self.get(id, node::COOKIE),
            u8::from(self.get(id, node::HAS_STRONG)),
            u8::from(self.get(id, node::HAS_WEAK)),
            self.get(id, node::LOCAL_STRONG),
            self.get(id, node::LOCAL_WEAK),
            self.get(id, node::INTERNAL_STRONG),
            holders.len(),
        )?;
        if !holders.is_empty() {
            write!(out, " proc")?;
        }
        for held in holders {
            write!(out, " {}", self.get(held, reference::PROCESS).map_or(0, Id::index))?;
        }
        writeln!(out)?;
        for entry in self.queued(node::ASYNC_TODO.queue(id)) {
            self.write_work(out, of, "    ", "pending async transaction", entry)?;
        }
        Ok(())
    }

    fn write_reference(&self, out: &mut String, id: Id<Ref>) -> fmt::Result {
        let target = self.get(id, reference::NODE);
        let alive = target.is_some_and(|target| self.get(target, node::PROCESS).is_some());
        writeln!(
            out,
            "  ref {}: desc {} {}node {} s {} w {} d {}",
            id.index(),
            self.get(id, reference::HANDLE),
            if alive { "" } else { "dead " },
            target.map_or(0, Id::index),
            self.get(id, reference::STRONG),
            self.get(id, reference::WEAK),
            u8::from(self.get(id, reference::DEATH).is_some()),
        )
    }

    fn write_buffer(&self, out: &mut String, id: Id<Buffer>) -> fmt::Result {
        let (data, offsets) = (self.get(id, buffer::DATA_SIZE), self.get(id, buffer::OFFSETS_SIZE));
        let plain = align8(data).unwrap_or(0).saturating_add(align8(offsets).unwrap_or(0));
        // A buffer is at least 8 bytes long, also an empty one.
        let extra = self.get(id, buffer::SIZE).saturating_sub(plain.max(8));
        let active = self.get(id, buffer::TRANSACTION).is_some();
        let state = if active { "active" } else { "delivered" };
        writeln!(out, "  buffer {}: size {data}:{offsets}:{extra} {state}", id.index())
    }

    fn write_work(
        &self,
        out: &mut String,
        of: Id<Process>,
        indent: &str,
        what: &str,
        entry: Id<Work>,
    ) -> fmt::Result {
        let payload = self.get(entry, work::PAYLOAD);
        let error = |field| Id::<Thread>::new(payload).map_or(0, |id| self.get(id, field));
        match self.kind(entry) {
            Some(Kind::Transaction) => match self.transaction_of(entry) {
                Some(t) => self.write_transaction(out, of, indent, what, t),
                None => Ok(()),
            },
            Some(Kind::Complete | Kind::CompletePending) => writeln!(out, "{indent}transaction complete"),
            // As in the kernel's log, which has no name for it.
            Some(Kind::CompleteSuspect) => writeln!(out, "{indent}unknown work: type 3"),
            Some(Kind::ReturnError) => {
                writeln!(out, "{indent}transaction error: {}", error(thread::RETURN_ERROR))
            }
            Some(Kind::ReplyError) => {
                writeln!(out, "{indent}transaction error: {}", error(thread::REPLY_ERROR))
            }
            Some(Kind::Node) => match Id::<Node>::new(payload) {
                Some(id) => writeln!(
                    out,
                    "{indent}node work {}: u{:016x} c{:016x}",
                    id.index(),
                    self.get(id, node::PTR),
                    self.get(id, node::COOKIE)
                ),
                None => Ok(()),
            },
            Some(Kind::DeadBinder) => writeln!(out, "{indent}has dead binder"),
            Some(Kind::DeadBinderAndClear) => writeln!(out, "{indent}has cleared dead binder"),
            Some(Kind::ClearDeath) => writeln!(out, "{indent}has cleared death notification"),
            Some(Kind::FrozenBinder) => writeln!(out, "{indent}has frozen binder"),
            Some(Kind::ClearFreeze) => writeln!(out, "{indent}has cleared freeze notification"),
            None => writeln!(out, "{indent}unknown work"),
        }
    }

    /// The records of a list, in its order.
    fn listed<R: Record>(&self, first: Option<Id<R>>, next: impl Fn(Id<R>) -> Option<Id<R>>) -> Vec<Id<R>> {
        std::iter::successors(self.step(first), |&id| self.step(next(id))).collect()
    }

    fn queued(&self, queue: Queue) -> Vec<Id<Work>> {
        self.listed(self.front(queue), |entry| self.get(entry, work::NEXT))
    }
}
