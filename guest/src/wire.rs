//! The interface between the host and the guest's first process: file names in the initial RAM
//! disk, and the report. No I/O.

/// The start of a path: a program's number follows. The file has the program's name and arguments,
/// each ended by a zero byte. Programs run in the order of their numbers, until one fails.
pub const ARGUMENTS: &str = "job/arguments";
/// Their environment, `NAME=VALUE`, each ended by a zero byte.
pub const ENVIRONMENT: &str = "job/environment";
/// The serial ports for standard output, standard error and the report, a line each.
pub const PORTS: &str = "job/ports";
/// Exists if there is a scratch disk: the kernel's name of the partition, and whether a device is
/// mapped on it ("vda1 mapped").
pub const DISK: &str = "job/disk";
/// The mount point of its file system.
pub const MOUNTED: &str = "disk";
/// Modules to load, in the order of their names.
pub const MODULES: &str = "job/modules";
/// The folder with the program's files, and its working directory.
pub const WORK: &str = "work";
/// The folder whose contents the report contains.
pub const OUT: &str = "out";

/// Separates the outputs of two programs.
pub const NEXT: &str = "\0next program\0\n";

/// The report's first line: the guest is up, and the first program is about to start.
pub const STARTED: &str = "started\n";
/// In the report, an archive follows that first line. The name of the file in it that says how the
/// last program that ran ended: "exit N", "signal N", or "error" and why it could not be started.
pub const ENDED: &str = "ended";

/// The binder devices that guests have.
pub const DEVICES: [&str; 3] = ["binder", "hwbinder", "vndbinder"];
/// How many further devices (case0, case1, …) there are in a guest whose driver is a module: tests
/// take one after the other. The kernel has 128 numbers for such devices.
pub const CASE_DEVICES: usize = 118;

/// Splits what [`zero_ended`] joined.
#[must_use]
pub fn split(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Joins texts, each ended by a zero byte.
#[must_use]
pub fn zero_ended(texts: &[String]) -> Vec<u8> {
    texts.iter().flat_map(|text| text.bytes().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_any_bytes_read_back() {
        let words = ["", "a b", "\"quoted\"\n", "$HOME", ""].map(str::to_owned);
        assert_eq!(split(&zero_ended(&words)), words);
        assert_eq!(split(b""), Vec::<String>::new());
    }
}
