//! Writing to the terminal: results to standard output, everything else to standard error.

use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use super::Exit;

/// How a command's result is printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    json: bool,
}

impl Output {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints the result as JSON or as text and ends with `exit`, unless it can't be printed.
    pub(super) fn result(self, value: &impl Serialize, text: impl FnOnce() -> String, exit: Exit) -> Exit {
        let rendered = if self.json { serde_json::to_string_pretty(value) } else { Ok(text()) };
        match rendered.map_err(io::Error::from).and_then(|rendered| print(&rendered)) {
            Ok(()) => exit,
            Err(error) => {
                say(&format!("the result can't be written: {error}"));
                Exit::Error
            }
        }
    }
}

/// Prints to standard output. A reader that went away, as `head` does, has had what it wanted.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Tells something on standard error. Where that is closed there is no one to tell.
pub(super) fn say(text: &str) {
    writeln!(io::stderr().lock(), "tidegate: {text}").unwrap_or_default();
}
