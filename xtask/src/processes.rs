//! Processes below another one, by name.

use std::fs;

use rustix::process::Pid;

/// A process below this one whose name begins with `name`: the first child, or one further below.
pub(crate) fn below(of: u32, name: &str) -> Option<Pid> {
    let children = children(of);
    let found = children.iter().find(|(_, child)| child.starts_with(name));
    let found = found.and_then(|&(pid, _)| Pid::from_raw(pid.cast_signed()));
    found.or_else(|| children.iter().find_map(|&(pid, _)| below(pid, name)))
}

/// The children of a process, with their names, by pid. Without the process that cleans up if a run
/// is killed.
pub(crate) fn children(of: u32) -> Vec<(u32, String)> {
    let all = fs::read_dir("/proc").into_iter().flatten();
    let all = all.filter_map(|one| one.ok()?.file_name().into_string().ok());
    let mut pids: Vec<u32> = all.filter_map(|one| one.parse().ok()).collect();
    pids.sort_unstable();
    let child = |pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("").trim();
        (field("PPid:") == of.to_string()).then(|| (pid, field("Name:").to_owned()))
    };
    pids.into_iter().filter_map(child).filter(|(_, name)| name != "guard").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_name_below_its_ancestors_only() {
        let mut shell = std::process::Command::new("sh").args(["-c", "sleep 60; :"]).spawn().unwrap();
        let found = || below(shell.id(), "sleep");
        while found().is_none() {
            std::thread::yield_now();
        }
        let pid = found().unwrap();
        assert!(below(pid.as_raw_nonzero().get().cast_unsigned(), "").is_none());
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
    }
}
