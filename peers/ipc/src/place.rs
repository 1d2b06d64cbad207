//! Where a process may run. Must not know why.

use std::path::Path;

use anyhow::{Context as _, Result};

/// Lets all threads of a process run on these CPUs only. Threads that they start later do the same.
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
                match bench::sched::set_allowed_cpus(tid, cpus) {
                    // It has ended meanwhile.
                    Err(_) if !Path::new(&format!("{tasks}/{tid}")).exists() => {}
                    result => result?,
                }
            }
        }
        // A thread that was not placed yet may have started another.
        if !found {
            return Ok(());
        }
    }
}
