//! What the global trace is set to: how it records, and what was set before. Must not know when
//! the settings are restored.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::buffers::{Buffers, current};
use crate::error::{Error, Result};
use crate::mount::{read, write};

/// Which functions the function tracers record, below the root.
const FILTER: &str = "set_ftrace_filter";

/// How a global trace records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The size of each CPU's buffer, in kilobytes.
    pub kilobytes: u64,
    /// Whether new events overwrite the oldest when a buffer is full. Otherwise the new ones are
    /// lost.
    pub overwrite: bool,
    /// Kernel functions whose calls are recorded too, as `set_ftrace_filter` takes them.
    pub functions: Vec<String>,
}

impl Settings {
    /// Buffers of this size for each CPU, which keep the newest events.
    #[must_use]
    pub const fn newest(kilobytes: u64) -> Self {
        Self { kilobytes, overwrite: true, functions: Vec::new() }
    }

    /// The current values of everything that these settings and events change, in the order in
    /// which to restore them: events first, so that nothing is recorded meanwhile, and recording
    /// itself last.
    pub(crate) fn earlier(&self, buffers: &Buffers, events: &[String]) -> Result<Vec<(String, String)>> {
        let root = &buffers.directory;
        let enabled = events.iter().map(|event| (format!("events/{event}/enable"), "0".to_owned()));
        let mut before: Vec<_> = enabled.collect();
        if !self.functions.is_empty() {
            // The tracer ends before its filter changes.
            before.push(("current_tracer".to_owned(), "nop".to_owned()));
            let filter = std::fs::read_to_string(root.join(FILTER));
            let refused = |cause| Error::NotAvailable {
                reason: format!("this kernel does not let its functions be traced: {cause}"),
            };
            let filter = filter.map_err(refused)?;
            // Without a filter, the kernel shows a remark.
            let filter = if filter.starts_with('#') { "" } else { filter.trim() };
            before.push((FILTER.to_owned(), filter.to_owned()));
        }
        for option in ["overwrite", "record-tgid"] {
            let file = format!("options/{option}");
            if let Ok(value) = read(&root.join(&file)) {
                before.push((file, value.trim().to_owned()));
            }
        }
        let clocks = read(&root.join("trace_clock"))?;
        before.extend(current(&clocks).map(|clock| ("trace_clock".to_owned(), clock)));
        before.extend(sizes(buffers)?);
        let on = read(&buffers.switch())?;
        before.push(("tracing_on".to_owned(), on.trim().to_owned()));
        Ok(before)
    }

    /// Sets up the buffers.
    pub(crate) fn apply(&self, root: &Path) -> Result<()> {
        write(&root.join("buffer_size_kb"), &self.kilobytes.to_string())?;
        write(&root.join("options/overwrite"), if self.overwrite { "1" } else { "0" })?;
        // Since Linux 4.13.
        let _ = write(&root.join("options/record-tgid"), "1");
        Ok(())
    }

    /// Starts the tracer of functions, if any are wanted.
    pub(crate) fn trace_functions(&self, root: &Path) -> Result<()> {
        if self.functions.is_empty() {
            return Ok(());
        }
        put_back(root, FILTER, &self.functions.join("\n"))?;
        write(&root.join("current_tracer"), function_tracer(root)?)
    }
}

/// Restores one setting.
pub(crate) fn put_back(root: &Path, file: &str, value: &str) -> Result<()> {
    let path = root.join(file);
    // What is written to a filter is added to it, unless it is opened to be replaced.
    let opened = File::options().write(true).truncate(file == FILTER).open(&path);
    let written = opened.and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|cause| Error::file("write", &path, cause))
}

/// The best tracer of functions that the kernel has.
fn function_tracer(root: &Path) -> Result<&'static str> {
    let path = root.join("available_tracers");
    let known = read(&path)?;
    let has = |tracer: &&str| known.split_whitespace().any(|name| name == *tracer);
    let found = ["function_graph", "function"].into_iter().find(has);
    found.ok_or_else(|| Error::NotAvailable { reason: "this kernel has no tracer of functions".to_owned() })
}

/// Fails if another program uses the trace. Its trace is neither changed nor discarded.
pub(crate) fn refuse_if_used(buffers: &Buffers) -> Result<()> {
    let root = &buffers.directory;
    let tracer = read(&root.join("current_tracer"))?;
    if tracer.trim() != "nop" {
        return Err(Error::TracerInUse { root: root.clone(), tracer: tracer.trim().to_owned() });
    }
    let events = read(&root.join("set_event"))?;
    if let Some(first) = events.lines().next() {
        let (first, events) = (first.to_owned(), events.lines().count());
        return Err(Error::EventsInUse { root: root.clone(), events, first });
    }
    let held = buffers.cpus()?.into_iter().map(|cpu| Ok(buffers.stats(cpu)?.entries)).sum::<Result<u64>>()?;
    if held > 0 {
        return Err(Error::HoldsEvents { root: root.clone(), events: held });
    }
    Ok(())
}

/// What to write to restore the current buffer sizes. An unused buffer is small, and expands when
/// it is used: its size file shows "7 (expanded: 1408)". Then only the expanded size can be
/// restored.
fn sizes(buffers: &Buffers) -> Result<Vec<(String, String)>> {
    let size = |file: String| {
        let text = read(&buffers.directory.join(&file))?;
        let text = text.trim();
        let expanded = text.split_once("(expanded: ").map(|(_, size)| size.trim_end_matches(')'));
        Ok((file, expanded.unwrap_or(text).to_owned()))
    };
    let all = size("buffer_size_kb".to_owned())?;
    // "X" if the CPUs have buffers of different sizes.
    if all.1.parse::<u64>().is_ok() {
        return Ok(vec![all]);
    }
    buffers.cpus()?.into_iter().map(|cpu| size(format!("per_cpu/cpu{cpu}/buffer_size_kb"))).collect()
}
