//! Looks up which file another process's descriptor refers to, and how it was opened. Paths are
//! untrusted text: code that shows them must escape them. Never waits for a file system: if another
//! user serves it (FUSE), it may not answer.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use roundtrip_observed::writes::FileId;
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

/// The most files whose names are remembered.
const MOST_FILES: usize = 100_000;

/// The most descriptors of a process among which a file is looked for.
const MOST_SOUGHT: usize = 4096;

/// The longest path that is kept, in bytes.
const MOST_PATH_BYTES: usize = 400;

/// What a descriptor refers to.
#[derive(Clone, Debug, Default)]
pub(super) struct Opened {
    pub(super) path: String,
    pub(super) id: Option<FileId>,
    /// `O_DSYNC`, which `O_SYNC` includes.
    pub(super) durable: bool,
    /// Whether data written to it can reach a device: a regular file or a block device.
    pub(super) stored: bool,
}

impl Opened {
    /// Whether it is the file that an event identifies. Overlayfs shows the inode number of the
    /// file below, but a device number of its own, without a driver
    /// (Documentation/filesystems/overlayfs.rst); events come from the file system below.
    pub(super) fn is(&self, file: FileId) -> bool {
        let above = |id: FileId| id.dev >> 20 == 0 && id.inode == file.inode;
        self.id.is_some_and(|id| id == file || above(id))
    }
}

/// The names of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Descriptors looked up in this round. They are reused, so each round looks them up again.
    opened: HashMap<(u32, i32), Option<Opened>>,
    names: HashMap<FileId, String>,
    /// The directories of files with names.
    directories: HashMap<FileId, String>,
    /// What was looked for among whose descriptors.
    sought: HashSet<(u32, FileId)>,
}

impl Files {
    /// Forgets descriptors, which may have been reused.
    pub(super) fn next_round(&mut self) {
        self.opened.clear();
        if self.names.len() > MOST_FILES {
            self.names.clear();
            self.directories.clear();
            self.sought.clear();
        }
    }

    /// What a thread's descriptor refers to; `None` if it is closed or the thread has exited.
    pub(super) fn opened(&mut self, tid: u32, descriptor: i32) -> Option<Opened> {
        if let Some(known) = self.opened.get(&(tid, descriptor)) {
            return known.clone();
        }
        let found = open_file(tid, descriptor);
        if let Some(Opened { path, id: Some(id), .. }) = &found {
            self.learn(*id, path);
        }
        self.opened.insert((tid, descriptor), found.clone());
        found
    }

    /// Remembers a file's name, and that of its directory.
    pub(super) fn learn(&mut self, id: FileId, path: &str) {
        if self.names.insert(id, path.to_owned()).is_some() {
            return;
        }
        let directory = Path::new(path).parent().filter(|directory| directory.is_absolute());
        if let Some((directory, (id, _))) =
            directory.and_then(|directory| Some((directory, look(directory)?)))
        {
            self.directories.insert(id, directory.to_string_lossy().into_owned());
        }
    }

    /// Looks for a file among a thread's descriptors, once, unless it has a name already.
    pub(super) fn seek(&mut self, tid: u32, id: FileId) {
        if self.names.contains_key(&id) || self.sought.len() > MOST_FILES || !self.sought.insert((tid, id)) {
            return;
        }
        let open = std::fs::read_dir(format!("/proc/{tid}/fd")).into_iter().flatten().flatten();
        let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for descriptor in numbers.take(MOST_SOUGHT) {
            if let Some(opened) = self.opened(tid, descriptor).filter(|opened| opened.is(id)) {
                return self.learn(id, &opened.path);
            }
        }
    }

    /// The name of a file that a file system's event identifies. A file that was closed or removed
    /// before it could be looked up is named by its directory: "/srv/?".
    pub(super) fn name(&self, id: FileId, directory: Option<u64>) -> String {
        let known = self.names.get(&id).or_else(|| self.directories.get(&id)).cloned();
        let within = || {
            let directory = self.directories.get(&FileId { inode: directory?, ..id })?;
            Some(format!("{}/?", directory.trim_end_matches('/')))
        };
        known.or_else(within).unwrap_or_else(|| id.to_string())
    }
}

/// The file at a path, as events identify it.
pub(super) fn id_of(path: &Path) -> Option<FileId> {
    look(path).map(|(id, _)| id)
}

fn look(path: &Path) -> Option<(FileId, FileType)> {
    // Uses what a network or FUSE file system last reported, without asking it again.
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, path, flags, StatxFlags::INO | StatxFlags::TYPE).ok()?;
    let dev = found.stx_dev_major << 20 | found.stx_dev_minor;
    Some((FileId { dev, inode: found.stx_ino }, FileType::from_raw_mode(found.stx_mode.into())))
}

fn open_file(tid: u32, descriptor: i32) -> Option<Opened> {
    let link = format!("/proc/{tid}/fd/{descriptor}");
    let path = std::fs::read_link(&link).ok()?;
    let path = path.as_os_str().as_encoded_bytes();
    let path = String::from_utf8_lossy(&path[..path.len().min(MOST_PATH_BYTES)]);
    let (id, kind) = look(Path::new(&link)).unzip();
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    Some(Opened {
        path: path.into_owned(),
        id,
        durable: flags.is_some_and(|flags| flags & libc::O_DSYNC.cast_unsigned() != 0),
        stored: matches!(kind, Some(FileType::RegularFile | FileType::BlockDevice)),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use super::*;

    #[test]
    fn a_descriptor_is_known_by_its_path_and_how_it_was_opened() {
        let path = std::env::temp_dir().join(format!("files-{}", std::process::id()));
        let plain = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        let durable = OpenOptions::new().write(true).custom_flags(libc::O_DSYNC).open(&path).unwrap();
        let mut files = Files::default();
        let own = std::process::id();
        let mut opened = |file: &std::fs::File| files.opened(own, file.as_raw_fd()).unwrap();
        let (plain, durable) = (opened(&plain), opened(&durable));
        assert!(plain.stored && !plain.durable && durable.durable);
        assert_eq!((Path::new(&plain.path), plain.id), (path.as_path(), durable.id));
        assert_eq!(id_of(&path), plain.id);
        std::fs::remove_file(&path).unwrap();
        let id = plain.id.unwrap();
        assert_eq!(Path::new(&files.name(id, None)), path);
        let directory = std::env::temp_dir();
        let parent = id_of(&directory).unwrap();
        assert_eq!(Path::new(&files.name(parent, None)), directory);
        let gone = files.name(FileId { inode: u64::MAX, ..id }, Some(parent.inode));
        assert_eq!(Path::new(&gone), directory.join("?"));
        assert_eq!(files.name(FileId { dev: 254 << 20, inode: 7 }, Some(8)), "inode 7 of 254:0");
        let above = Opened { id: Some(FileId { dev: 42, inode: 7 }), ..Opened::default() };
        assert!(
            above.is(FileId { dev: 254 << 20, inode: 7 }),
            "overlayfs shows the number of the file below"
        );
        assert!(
            !above.is(FileId { dev: 254 << 20, inode: 8 }) && !plain.is(FileId { dev: id.dev + 1, ..id })
        );
        files.next_round();
        assert!(files.opened(own, i32::MAX).is_none());
        let (_, pipe) = std::io::pipe().unwrap();
        assert!(!files.opened(own, pipe.as_raw_fd()).unwrap().stored);
    }

    #[test]
    fn a_file_without_a_descriptor_is_looked_for_once_among_those_of_its_thread() {
        let path = std::env::temp_dir().join(format!("sought-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let (own, id) = (std::process::id(), id_of(&path).unwrap());
        let mut files = Files::default();
        files.seek(own, id);
        let open = std::fs::File::open(&path).unwrap();
        files.seek(own, id);
        assert_eq!(files.name(id, None), id.to_string(), "it was not open at first");
        let mut files = Files::default();
        files.seek(own, id);
        assert_eq!(Path::new(&files.name(id, None)), path);
        drop(open);
        std::fs::remove_file(&path).unwrap();
    }
}
