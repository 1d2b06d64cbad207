//! Where a run is to be stored: tried out before anything is measured, so that no measurement is made for nothing. Must not know
//! what is stored there.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A directory that files can be made in. Dropping it removes the directories that were made for it and are still empty, as
/// after a run that did not come about.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// The outermost first.
    made: Vec<PathBuf>,
}

impl Place {
    /// Makes the directory, with those above it, unless it is there, and tries whether a file can be made in it.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be made, is something else, or takes no files; then nothing is left behind.
    pub fn prepare(path: &Path) -> Result<Place> {
        let missing = path.ancestors().filter(|above| !above.as_os_str().is_empty() && !above.exists());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let place = Place { path: path.to_owned(), made };
        std::fs::create_dir_all(path).map_err(|cause| Error::file("create", path, cause))?;
        let trial = path.join(format!(".roundtrip.{}", std::process::id()));
        File::create_new(&trial).map_err(|cause| Error::file("make a file in", path, cause))?;
        // It has just been made, by nobody else.
        let _ = std::fs::remove_file(&trial);
        Ok(place)
    }

    /// Which directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for made in self.made.iter().rev() {
            // Refused for one that holds something by now.
            let _ = std::fs::remove_dir(made);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn directories_that_stay_empty_go_again_and_others_stay() {
        let scratch = Scratch::new().unwrap();
        let (there, new) = (scratch.path().join("there"), scratch.path().join("there/a/b"));
        std::fs::create_dir(&there).unwrap();
        let place = Place::prepare(&new).unwrap();
        assert_eq!((place.path(), std::fs::read_dir(&new).unwrap().count()), (&*new, 0));
        drop(place);
        assert_eq!(std::fs::read_dir(&there).unwrap().count(), 0);
        drop(Place::prepare(&there).unwrap());
        assert!(there.exists(), "it was there before");
        let place = Place::prepare(&new).unwrap();
        std::fs::write(new.join("run.json"), "").unwrap();
        drop(place);
        assert!(new.join("run.json").exists());
    }

    #[test]
    fn what_takes_no_files_is_refused_and_nothing_is_left() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        for path in [file.clone(), file.join("below"), "/proc/roundtrip/run".into()] {
            let error = Place::prepare(&path).unwrap_err().to_string();
            assert!(error.contains("cannot create") && error.contains(&*path.to_string_lossy()), "{error}");
        }
        let error = Place::prepare(Path::new("/proc")).unwrap_err().to_string();
        assert!(error.starts_with("cannot make a file in /proc: "), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }
}
