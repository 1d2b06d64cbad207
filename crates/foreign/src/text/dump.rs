//! The lists of processes and threads that systrace writes into its page (`PROCESS DUMP`): the
//! output of Android's `ps`, one table of processes and one of threads. Must not know events.

use crate::threads::Threads;

/// The table that a line belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Table {
    #[default]
    None,
    Processes,
    Threads,
}

/// Reads the lists line by line.
#[derive(Debug, Default)]
pub(super) struct Dump {
    table: Table,
}

impl Dump {
    /// Takes a line. Returns whether it belongs to a list. The first name of a process stays,
    /// because a later list may be of another process with the same number.
    pub(super) fn line(&mut self, text: &str, threads: &mut Threads<'_>) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["PROCESS", "DUMP"] => return true,
            ["USER", "PID", "TID", ..] => self.table = Table::Threads,
            ["USER", "PID", "PPID", ..] => self.table = Table::Processes,
            [_, pid, rest @ ..] if self.table != Table::None && words.len() >= 4 => {
                let Some(pid) = number(pid) else {
                    self.table = Table::None;
                    return false;
                };
                if self.table == Table::Processes {
                    threads.add_process(pid, pid);
                    if let Some(name) = name_of_process(rest) {
                        threads.add_name(pid, &name);
                    }
                } else if let Some(tid) = number(rest[0]) {
                    threads.add_process(tid, pid);
                    threads.add_name(tid, &rest[1..].join(" "));
                }
            }
            _ => {
                self.table = Table::None;
                return false;
            }
        }
        true
    }
}

fn number(word: &str) -> Option<u32> {
    word.parse().ok()
}

/// A process's name, from the columns after its number: PPID, VSZ, RSS, WCHAN, PC, S, NAME, and on
/// most devices COMM, which `ps` cuts. A kernel thread's name is in brackets, and may contain
/// slashes. Any other may be a path.
fn name_of_process(columns: &[&str]) -> Option<String> {
    let name = columns.get(6..)?;
    let name = if name.len() > 1 { &name[..name.len() - 1] } else { name };
    let name = name.join(" ");
    let name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(thread) => thread,
        None => program(&name),
    };
    (!name.is_empty()).then(|| name.to_owned())
}

/// A program's name, from the first word of its command line, which may be a path. Kernel threads
/// and zombies have none, so recorders write their name instead, which may contain slashes.
pub(crate) fn program(name: &str) -> &str {
    if name.starts_with(['/', '.']) { name.rsplit('/').next().unwrap_or(name) } else { name }
}

#[cfg(test)]
mod tests {
    use roundtrip_files::Budget;

    use super::*;

    #[test]
    fn processes_and_threads_are_named_and_those_of_the_kernel_as_a_whole() {
        let budget = Budget::unlimited();
        let (mut dump, mut threads) = (Dump::default(), Threads::new(&budget));
        let mut line = |text: &str| dump.line(text, &mut threads);
        assert!(!line("root 1 0 9 9 0 0 S init init"), "outside of a list");
        for text in [
            "PROCESS DUMP",
            "USER           PID  PPID     VSZ    RSS WCHAN  PC S NAME                        COMM",
            "root             1     0   32904   4604 SyS_epoll_wait 0 S init                 init",
            "root           582     2       0      0 kjournald2 0 S [jbd2/sda16-8]           5",
            "u0_a1         1700     1   32904   4604 0      0 S /system/bin/mediaserver      mediaserver",
            "u0_a2         1800     1   32904   4604 0      0 S com.example.app:remote       m.example.app:r",
            "USER           PID   TID CMD",
            "u0_a2         1800  1801 POSIX timer 0",
        ] {
            assert!(line(text), "{text}");
        }
        assert!(!line("</script>"));
        assert!(!line("root 9 0 9 9 0 0 S late late"), "the list has ended");
        let name = |pid| threads.comms.get(&pid).map(String::as_str);
        assert_eq!((name(1), name(582)), (Some("init"), Some("jbd2/sda16-8")));
        assert_eq!((name(1700), name(1800)), (Some("mediaserver"), Some("com.example.app:remote")));
        assert_eq!((name(1801), name(9)), (Some("POSIX timer 0"), None));
        assert_eq!(threads.processes.get(&1801), Some(&1800));
    }
}
