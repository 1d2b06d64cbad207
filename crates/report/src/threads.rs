//! How a thread is called in a sentence.

use layers::Thread;

/// Its name, or its id where it has none.
pub(super) fn comm(thread: &Thread) -> String {
    if thread.comm.is_empty() { format!("thread {}", thread.tid) } else { thread.comm.clone() }
}
