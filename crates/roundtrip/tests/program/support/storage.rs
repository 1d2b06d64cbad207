//! File systems and settings for the storage tests. Each is created for one test, and removed after
//! it, even if the test is killed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use roundtrip_skips::{Need, skip};

/// A shell command that runs when this value is dropped, and also if this process is killed: a
/// shell waits for the end of its standard input.
pub(crate) struct Finally(Child);

impl Finally {
    pub(crate) fn run(command: &str) -> Self {
        let script = format!("trap '' INT TERM HUP; read -r _; {command}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(shell.spawn().unwrap())
    }
}

impl Drop for Finally {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

/// A new folder for a test in the build directory, which is on a disk; /tmp may not be.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A mounted ext4 file system with a journal, in a file, for as long as this value lives.
pub(crate) struct Journalled {
    pub(crate) directory: PathBuf,
    /// The mount point.
    pub(crate) mount: PathBuf,
    _finally: Finally,
}

impl Journalled {
    /// Mounts it. Needs root and a loop device; the error says which is missing.
    pub(crate) fn mount(name: &str) -> Result<Self, String> {
        let directory = folder(name);
        let mount = directory.join("mnt");
        let clean = format!("umount '{}'; rm -rf '{}'", mount.display(), directory.display());
        let this = Self { directory, mount, _finally: Finally::run(&clean) };
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).current_dir(&this.directory).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            let message = String::from_utf8_lossy(&output.stderr);
            if output.status.success() { Ok(()) } else { Err(format!("{program}: {message}")) }
        };
        std::fs::create_dir(&this.mount).unwrap();
        let image = std::fs::File::create(this.directory.join("image")).unwrap();
        image.set_len(64 << 20).unwrap();
        // Initialises everything now, not later during a test's writes.
        run("mkfs.ext4", &["-q", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0", "image"])?;
        run("mount", &["-o", "loop", "image", "mnt"])?;
        Ok(this)
    }

    /// Like [`Journalled::mount`]; `None`, with the test skipped, if this user may not mount. Root
    /// must be able to.
    pub(crate) fn mount_as_root(name: &str) -> Option<Self> {
        match Self::mount(name) {
            Ok(file_system) => Some(file_system),
            Err(reason) => {
                skip(Need::Root, reason);
                None
            }
        }
    }
}

/// The contents of a file in sysfs, without the line end.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .trim()
        .to_owned()
}
