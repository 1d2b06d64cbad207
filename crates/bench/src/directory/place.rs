//! The directory of a run. It is tested before the measurement, so that no measurement is wasted.
//! It is filled in one step after the measurement, so that an earlier run stays intact until then.
//! Must not know what is in the files.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use roundtrip_files::Existing;
use roundtrip_files::Owned;

use crate::directory::scratch::remove_abandoned;
use crate::error::{Error, Result};
use crate::worker::Interrupts;
use roundtrip_run::{FILE_NAME, FILES};

/// The prefix of the folder in which the run's files are created.
const UNFINISHED: &str = ".roundtrip-run-";

/// The prefix of the folder that keeps an earlier run until the new one is in place. A leftover
/// folder is never removed automatically: it may be the only copy.
const EARLIER: &str = ".roundtrip-earlier-";

/// Pairs of source and destination.
type Moves = Vec<(PathBuf, PathBuf)>;

/// A directory that files can be created in. Dropping it removes what was not kept, and those of
/// the directories created for it that are still empty, for example after a failed run.
#[derive(Debug)]
pub struct Place {
    directory: PathBuf,
    unfinished: Owned,
    existing: Existing,
    /// Outermost first.
    made: Vec<PathBuf>,
}

impl Place {
    /// Creates the directory and its parents unless it exists, and tests whether files can be
    /// created in it. Existing files are not touched before [`Place::keep`].
    ///
    /// # Errors
    /// [`Error::File`] if the directory cannot be created, is not a directory, takes no files, or
    /// holds a run that must be kept. Then nothing is left behind.
    pub fn prepare(path: &Path, existing: Existing) -> Result<Self> {
        if existing == Existing::Keep {
            refuse_results(path)?;
        }
        // From here on, a signal does not end the process before it has removed the directory.
        Interrupts::watch()?;
        let missing = path.ancestors().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let tried = std::fs::create_dir_all(path)
            .map_err(|cause| Error::file("create", path, cause))
            .and_then(|()| {
                remove_abandoned(path, UNFINISHED);
                Owned::make(path, UNFINISHED).map_err(|cause| Error::file("create a file in", path, cause))
            });
        match tried {
            Ok(unfinished) => Ok(Self { directory: path.to_owned(), unfinished, existing, made }),
            Err(error) => {
                remove_empty(&made);
                Err(error)
            }
        }
    }

    /// The folder in which the run's files are created until they are kept.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.unfinished.path()
    }

    /// The directory that the files are moved to.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Moves the files into the directory, the run itself last. An earlier run that is to be
    /// replaced is removed after that. Root's files are private.
    ///
    /// # Errors
    /// [`Error::File`]. Then the directory is unchanged, and the files are still where they were
    /// created.
    pub fn keep(&self) -> Result<()> {
        let earlier = match self.existing {
            Existing::Keep => None,
            Existing::Replace => self.set_aside()?,
        };
        if rustix::process::geteuid().is_root() {
            make_private(self.path())?;
        }
        let names = FILES.iter().filter(|name| self.path().join(name).exists());
        let moves = names.map(|name| (self.path().join(name), self.directory.join(name)));
        let moved = move_all(moves);
        if let Some((mut earlier, aside)) = earlier {
            if moved.is_err() {
                let _ = move_all(aside.into_iter().map(|(from, to)| (to, from)));
                let _ = std::fs::remove_dir(earlier.path());
            } else {
                // The new run is stored. Failing to remove the earlier one does not undo that.
                earlier.remove();
            }
        }
        moved
    }

    /// Moves an earlier run's files into a folder, and returns what was moved where. `None` if
    /// there are none.
    fn set_aside(&self) -> Result<Option<(Owned, Moves)>> {
        let there = FILES.iter().filter(|name| std::fs::symlink_metadata(self.directory.join(name)).is_ok());
        let there: Vec<_> = there.collect();
        if there.is_empty() {
            return Ok(None);
        }
        let earlier = Owned::make(&self.directory, EARLIER)
            .map_err(|cause| Error::file("make a directory in", &self.directory, cause))?;
        let moves = there.iter().map(|name| (self.directory.join(name), earlier.path().join(name)));
        let moves: Moves = moves.collect();
        move_all(moves.iter().cloned()).inspect_err(|_| drop(std::fs::remove_dir(earlier.path())))?;
        Ok(Some((earlier, moves)))
    }

    /// Keeps what was stored of a run that cannot be kept as a whole, and returns the folder.
    /// `None` if there is nothing.
    #[must_use]
    pub fn save_rest(&self) -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(self.path()).ok()?;
        entries.next()?.ok()?;
        (1..1000).find_map(|number| {
            let rest = self.directory.join(format!("unfinished-{number}"));
            roundtrip_files::put(self.path(), &rest).is_ok().then_some(rest)
        })
    }
}

/// Makes what is in a folder accessible to its owner only: a recording of root's has the names of
/// all users' processes and files. Nobody else can enter the folder, so this may take its time.
fn make_private(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let mode = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { 0o700 } else { 0o600 };
        std::fs::set_permissions(&path, Permissions::from_mode(mode))
            .map_err(|cause| Error::file("make private", path, cause))?;
    }
    Ok(())
}

/// Refuses a directory with files of an earlier run.
fn refuse_results(path: &Path) -> Result<()> {
    let there = FILES.iter().find(|name| std::fs::symlink_metadata(path.join(name)).is_ok());
    there.map_or(Ok(()), |&name| {
        let what = if name == FILE_NAME { "a run" } else { name };
        let cause =
            std::io::Error::new(std::io::ErrorKind::AlreadyExists, format!("it already contains {what}"));
        Err(Error::file("write to", path, cause))
    })
}

/// Renames all files or none. Never replaces a file.
fn move_all(moves: impl Iterator<Item = (PathBuf, PathBuf)>) -> Result<()> {
    let mut moved = Moves::new();
    for (from, to) in moves {
        if let Err(cause) = roundtrip_files::put(&from, &to) {
            for (from, to) in moved.into_iter().rev() {
                let _ = roundtrip_files::put(&to, &from);
            }
            return Err(Error::file("write", to, cause));
        }
        moved.push((from, to));
    }
    Ok(())
}

impl Drop for Place {
    fn drop(&mut self) {
        // Empty, or already removed, if everything was kept.
        self.unfinished.remove();
        remove_empty(&self.made);
    }
}

/// Removes directories, given outermost first.
fn remove_empty(made: &[PathBuf]) {
    for made in made.iter().rev() {
        // Fails for a directory that is not empty.
        let _ = std::fs::remove_dir(made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::scratch::Scratch;
    use crate::kernel::root::Root;

    fn names(path: &Path) -> Vec<String> {
        Root::at(path).names("")
    }

    #[test]
    fn only_directories_that_are_still_empty_are_removed() {
        let scratch = Scratch::new().unwrap();
        let (there, new) = (scratch.path().join("there"), scratch.path().join("there/a/b"));
        std::fs::create_dir(&there).unwrap();
        let place = Place::prepare(&new, Existing::Keep).unwrap();
        assert_eq!((place.directory(), std::fs::read_dir(place.path()).unwrap().count()), (&*new, 0));
        drop(place);
        assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
        drop(Place::prepare(&there, Existing::Keep).unwrap());
        assert!(there.exists(), "it existed before");
        let place = Place::prepare(&new, Existing::Keep).unwrap();
        std::fs::write(place.path().join("run.json"), "").unwrap();
        place.keep().unwrap();
        drop(place);
        assert_eq!(names(&new), ["run.json"]);
    }

    #[test]
    fn an_earlier_run_is_replaced_only_on_request_by_a_complete_one() {
        for name in FILES {
            let scratch = Scratch::new().unwrap();
            let path = scratch.path();
            std::fs::write(path.join(name), "precious").unwrap();
            std::fs::write(path.join("notes"), "mine").unwrap();
            let error = Place::prepare(path, Existing::Keep).unwrap_err().to_string();
            assert!(error.starts_with("cannot write to ") && error.contains(" already"), "{error}");
            let place = Place::prepare(path, Existing::Replace).unwrap();
            std::fs::write(place.path().join("run.json"), "new").unwrap();
            assert_eq!(std::fs::read(path.join(name)).unwrap(), b"precious");
            place.keep().unwrap();
            drop(place);
            assert_eq!(names(path), ["notes", "run.json"], "nothing of the earlier run is left");
            assert_eq!(std::fs::read(path.join("run.json")).unwrap(), b"new");
        }
    }

    #[test]
    fn what_root_measured_is_private() {
        let scratch = Scratch::new().unwrap();
        let place = Place::prepare(scratch.path(), Existing::Keep).unwrap();
        std::fs::create_dir(place.path().join("recording")).unwrap();
        std::fs::write(place.path().join("run.json"), "{}").unwrap();
        place.keep().unwrap();
        let mode =
            |name: &str| std::fs::metadata(scratch.path().join(name)).unwrap().permissions().mode() & 0o777;
        if rustix::process::geteuid().is_root() {
            assert_eq!((mode("recording"), mode("run.json")), (0o700, 0o600));
        } else {
            assert_eq!(mode("run.json") & 0o600, 0o600);
        }
    }

    #[test]
    fn a_run_that_appears_in_the_meantime_stays_and_the_new_one_is_stored_beside_it() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path();
        let place = Place::prepare(path, Existing::Keep).unwrap();
        for name in ["recording", "run.json"] {
            std::fs::write(place.path().join(name), "late").unwrap();
        }
        std::fs::write(path.join("run.json"), "first").unwrap();
        assert!(place.keep().unwrap_err().to_string().contains("run.json"));
        assert_eq!(std::fs::read(path.join("run.json")).unwrap(), b"first");
        let rest = place.save_rest().unwrap();
        drop(place);
        assert_eq!(names(path), ["run.json", "unfinished-1"]);
        assert_eq!(names(&rest), ["recording", "run.json"]);
        assert_eq!(Place::prepare(path, Existing::Replace).unwrap().save_rest(), None);
    }

    #[test]
    fn a_directory_that_accepts_no_files_is_refused_and_nothing_is_left() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        for path in [file.clone(), file.join("below"), "/proc/roundtrip/run".into()] {
            let error = Place::prepare(&path, Existing::Keep).unwrap_err().to_string();
            assert!(error.contains("cannot create") && error.contains(&*path.to_string_lossy()), "{error}");
        }
        let error = Place::prepare(Path::new("/proc"), Existing::Keep).unwrap_err().to_string();
        assert!(error.starts_with("cannot create a file in /proc: "), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }
}
