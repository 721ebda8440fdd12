//! What is written from the table of keys: the file of `tidegate init` and the reference page.

use std::fmt::Write as _;

use super::keys::{Fallback, KEYS, Key, Kind, OPEN_SECTION, OPEN_SECTION_EXAMPLES, SECTIONS};
use super::settings::expected;

/// Width of the comments in the commented file.
const COMMENT_WIDTH: usize = 96;

/// The file that `tidegate init` writes: what has to be set, set to an example; everything else
/// commented out with its default.
#[must_use]
pub fn commented_file() -> String {
    let mut file = String::from(
        "# Tidegate replicates MySQL into PostgreSQL.\n\
         #\n\
         # Lines without a leading # have to be set. The others show the default, or an example where\n\
         # there is none. Every key can also be set in the environment, which wins over this file:\n\
         # source.server_id is TIDEGATE_SOURCE__SERVER_ID, and lists are separated by commas.\n",
    );
    for (section, meaning) in SECTIONS {
        push(&mut file, format_args!("\n"));
        comment(&mut file, &plain(meaning));
        push(&mut file, format_args!("[{section}]\n"));
        if *section == OPEN_SECTION {
            for example in OPEN_SECTION_EXAMPLES {
                push(&mut file, format_args!("# {example}\n"));
            }
        }
        for key in KEYS.iter().filter(|key| key.section() == *section) {
            comment(&mut file, &plain(key.meaning));
            let mark = if matches!(key.default, Fallback::Required(_)) { "" } else { "#" };
            push(&mut file, format_args!("{mark}{} = {}\n", key.name(), shown_value(key)));
        }
    }
    file
}

/// The reference page, as Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         One TOML file, `tidegate.toml` unless `--config` names another. `tidegate init` writes one with\n\
         every key explained. Each key can also be set in the environment, which wins over the file:\n\
         `source.server_id` is `TIDEGATE_SOURCE__SERVER_ID`; lists are separated by commas. Unknown keys\n\
         and variables are refused. Relative paths start at the working directory.\n\n\
         This page is generated from the table of keys in `src/config/keys.rs`.\n",
    );
    for (section, meaning) in SECTIONS {
        push(&mut page, format_args!("\n## [{section}]\n\n{meaning}\n\n"));
        if *section == OPEN_SECTION {
            push(&mut page, format_args!("```toml\n{}\n```\n", OPEN_SECTION_EXAMPLES.join("\n")));
            continue;
        }
        push(&mut page, format_args!("| key | takes | default | meaning |\n|---|---|---|---|\n"));
        for key in KEYS.iter().filter(|key| key.section() == *section) {
            let default = match key.default {
                Fallback::Required(_) => "**required**".to_owned(),
                Fallback::Unset(_) => "none".to_owned(),
                Fallback::Value(_) => format!("`{}`", shown_value(key)),
            };
            let takes = expected(key.kind).replace('|', "\\|");
            push(&mut page, format_args!("| `{}` | {takes} | {default} | {} |\n", key.name(), key.meaning));
        }
    }
    page
}

/// The default or example in TOML syntax.
fn shown_value(key: &Key) -> String {
    match (key.default, key.kind) {
        (Fallback::Required(example) | Fallback::Unset(example), _) => example.to_owned(),
        (Fallback::Value(text), Kind::Integer { .. } | Kind::Boolean) => text.to_owned(),
        (Fallback::Value(text), Kind::List) => format!("[{text}]"),
        (Fallback::Value(text), _) => format!("\"{text}\""),
    }
}

/// Comments in the file are read as they are, so the marks of Markdown go.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.len() + 1 + word.len() > COMMENT_WIDTH {
            push(out, format_args!("{line}\n"));
            line = String::from("#");
        }
        push(&mut line, format_args!(" {word}"));
    }
    push(out, format_args!("{line}\n"));
}

/// Writing to a `String` does not fail.
fn push(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).unwrap_or_default();
}
