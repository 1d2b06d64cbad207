//! Sets the CPUs that a process may use. Must not know why.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Restricts all threads of a process to these CPUs. Threads that they start later inherit this.
pub(crate) fn place(pid: u32, cpus: &[u32]) -> Result<()> {
    let tasks = format!("/proc/{pid}/task");
    let mut placed = Vec::new();
    loop {
        let mut found = false;
        for task in std::fs::read_dir(&tasks).with_context(|| format!("read {tasks}"))? {
            let name = task.with_context(|| format!("read {tasks}"))?.file_name();
            let tid: u32 = name.to_str().and_then(|name| name.parse().ok()).context("a thread's number")?;
            if !placed.contains(&tid) {
                found = true;
                placed.push(tid);
                match roundtrip_bench::sched::set_allowed_cpus(tid, cpus) {
                    // The thread has exited meanwhile.
                    Err(_) if !Path::new(&format!("{tasks}/{tid}")).exists() => {}
                    result => result?,
                }
            }
        }
        // A thread may have started another one before it was restricted.
        if !found {
            return Ok(());
        }
    }
}
