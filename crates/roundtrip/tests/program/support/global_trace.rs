//! The kernel's global trace.

use std::path::Path;

/// The settings of the global trace that the program changes, as text.
pub(crate) fn settings(root: &Path) -> Vec<String> {
    let files = [
        "trace_clock",
        "tracing_on",
        "set_event",
        "options/overwrite",
        "options/record-tgid",
        "current_tracer",
    ];
    let mut all: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(root.join(file)).unwrap()).collect();
    // Only kernels that can trace functions have it.
    all.extend(std::fs::read_to_string(root.join("set_ftrace_filter")));
    // An unused buffer shows two sizes: its own, and the one that it gets on first use.
    let size = std::fs::read_to_string(root.join("buffer_size_kb")).unwrap();
    let size = size.trim().rsplit(' ').next().unwrap().trim_end_matches(')').to_owned();
    all.push(size);
    all
}
