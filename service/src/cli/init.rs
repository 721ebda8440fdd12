//! `tidegate init`

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use super::Exit;
use super::output::{print, say};
use crate::config::commented_file;

pub(super) fn init(path: &Path) -> Exit {
    let shown = path.display();
    if path == Path::new("-") {
        return match print(&commented_file()) {
            Ok(()) => Exit::Done,
            Err(error) => failed(&format!("standard output can't be written: {error}")),
        };
    }
    match write_new(path) {
        Ok(()) => {
            say(&format!("wrote {shown}. Set what has no # before it, then run `tidegate check`"));
            Exit::Done
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            failed(&format!("{shown} exists and is left as it is; --output names another file"))
        }
        Err(error) => failed(&format!("{shown} can't be written: {error}")),
    }
}

fn write_new(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(commented_file().as_bytes())?;
    file.sync_all()
}

fn failed(message: &str) -> Exit {
    say(message);
    Exit::Error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("tidegate.toml");
        assert_eq!(init(&path), Exit::Done);
        assert_eq!(std::fs::read_to_string(&path).expect("written"), commented_file());
        std::fs::write(&path, "mine").expect("write");
        assert_eq!(init(&path), Exit::Error);
        assert_eq!(std::fs::read_to_string(&path).expect("kept"), "mine");
        assert_eq!(init(&directory.path().join("no/such/directory")), Exit::Error);
    }
}
